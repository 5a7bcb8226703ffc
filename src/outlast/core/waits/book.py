"""The waits of a run that are open, as its journal tells. Layer: core.

The fold shows them and the engine keeps them beside the machine: they outlive an evicted body. What always holds: what
opens a wait and what ends it is said here alone, so a run's row, its rows of waits and its picture agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from outlast.core.events import (
    OUTCOMES,
    DecisionJudged,
    DecisionMade,
    GateOpened,
    SignalTaken,
    TimerFired,
    WaitCancelled,
    WaitStarted,
)
from outlast.core.reopening import Reopening
from outlast.core.waits.events import Judgement, WaitKind

if TYPE_CHECKING:
    from outlast.core.events import Event

__all__ = ["OpenWait", "OpenWaits", "read_waits", "wait_text"]


class OpenWait(msgspec.Struct, frozen=True):
    """One of them."""

    key: str
    kind: WaitKind
    name: str
    opened_at: int
    timer: int | None
    deadline: int | None
    policy: msgspec.Raw


class OpenWaits(dict[str, OpenWait]):
    """By key, in the order in which the body asked."""

    __slots__ = ("_timers", "gates", "undecided")

    def __init__(self) -> None:
        super().__init__()
        self.gates = 0
        """How many of them a person must open: gates and approvals."""
        self.undecided: dict[str, DecisionMade] = {}
        """By message: decisions that nobody has judged yet."""
        self._timers: dict[int, str] = {}

    def apply(self, event: Event | Reopening) -> OpenWait | None:
        """Fold one event; gives the wait that it ended."""
        if type(event) is WaitStarted:
            self.start(event)
            return None
        if type(event) is DecisionMade:
            self.undecided[event.message] = event
        elif type(event) is DecisionJudged:
            self.undecided.pop(event.message, None)
            return self.end(event.key) if event.verdict is Judgement.ACCEPTED else None
        elif type(event) is Reopening:
            self._reopen(event)
        return self._apply_end(event) if self else None

    def _apply_end(self, event: Event | Reopening) -> OpenWait | None:
        if type(event) is SignalTaken or type(event) is WaitCancelled:
            return self.end(event.key)
        if type(event) is GateOpened:
            return self._open_gate(event.key)
        if type(event) is TimerFired:
            key = self._timers.get(event.timer)
            return None if key is None else self.end(key)
        if type(event) in OUTCOMES:
            self.clear()
        return None

    def _reopen(self, reopening: Reopening) -> None:
        for kept in reopening.mail:
            if type(kept) is GateOpened:
                self._open_gate(kept.key)
            elif type(kept) is DecisionMade:
                self.undecided[kept.message] = kept

    def start(self, event: WaitStarted) -> OpenWait:
        """The body waits."""
        wait = OpenWait(event.key, event.kind, event.name, event.at, event.timer, event.deadline, event.policy)
        self[event.key] = wait
        self.gates += wait.kind is not WaitKind.SIGNAL
        if event.timer is not None:
            self._timers[event.timer] = event.key
        return wait

    def end(self, key: str) -> OpenWait | None:
        """The wait is over, if there is one of this key."""
        wait = self.pop(key, None)
        if wait is not None:
            self.gates -= wait.kind is not WaitKind.SIGNAL
            if wait.timer is not None:
                self._timers.pop(wait.timer, None)
        return wait

    def _open_gate(self, key: str) -> OpenWait | None:
        wait = self.get(key)
        return self.end(key) if wait is not None and wait.kind is WaitKind.GATE else None

    def ends_with(self, timer: int) -> bool:
        """Whether this timer is the deadline of an open wait."""
        return timer in self._timers

    def clear(self) -> None:
        """The run has ended, and nobody waits."""
        super().clear()
        self._timers.clear()
        self.gates = 0


def read_waits(journal: Iterable[Event | Reopening]) -> OpenWaits:
    """The waits that are open at the end of a (spliced) journal."""
    book = OpenWaits()
    for event in journal:
        book.apply(event)
    return book


def wait_text(waits: Iterable[OpenWait]) -> str:
    """What a run waits for, in the words of its row: the first gate or approval, else the first signal; "": nothing."""
    first = ""
    for wait in waits:
        if wait.kind is not WaitKind.SIGNAL:
            return f"{wait.kind} {wait.name}"
        first = first or f"{wait.kind} {wait.name}"
    return first
