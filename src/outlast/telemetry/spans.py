"""What took how long, made of what landed: runs, steps, attempts, waits, each told when it is over. Layer: telemetry.

A fold over journals like others, but over all runs of a process at once, entry by entry as they land. What always
holds: each span is told once, by the process that recorded its end; where that process did not see its beginning, its
journal, which it read when it took the run over, did (`recall`).
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from outlast.core.events import (
    ELSEWHERE,
    NOTHING,
    AttemptStarted,
    ErrorRecord,
    Event,
    RunCompleted,
    RunOutcome,
    RunReopened,
    RunStarted,
    SleepCancelled,
    SleepStarted,
    StepCancelled,
    StepFailed,
    StepLost,
    StepReused,
    StepSettled,
    StepStarted,
    StepSucceeded,
    TimerFired,
    decode_events,
)
from outlast.core.fold import time_of
from outlast.core.lineage.children import STATUS_OF
from outlast.core.waits.events import DecisionJudged, GateOpened, Judgement, SignalTaken, WaitCancelled, WaitStarted
from outlast.telemetry.observer import Landed

__all__ = ["Span", "Tracker"]

MOST_RUNS = 20_000
"""Runs that are kept in mind. Of one that was forgotten, what began before is told without its beginning."""


SpanKind = Literal["run", "step", "attempt", "wait"]


class Span(msgspec.Struct, frozen=True):
    """Something that is over. Times are µs since the Unix epoch."""

    kind: SpanKind
    run: RunStarted
    began_at: int
    ended_at: int
    status: str
    """As in the run's status or timeline: `completed`, `failed`, `succeeded`, `lost` …; of a wait, `over`."""
    key: str = ""
    """Of the step or the wait."""
    name: str = ""
    """Of the step's function; of a wait, its kind: `sleep`, `signal`, `gate`, `approval`."""
    attempt: int = 0
    error: ErrorRecord | None = None
    round: int = 0
    """How often the run had ended before."""
    compensates: str = ""
    """Key of the step that this one undoes."""


class Tracker:
    """Keeps what is open, and tells what is over."""

    def __init__(self) -> None:
        self._runs: collections.OrderedDict[str, _Run] = collections.OrderedDict()

    def recall(self, uid: str, entries: Iterable[Landed]) -> None:
        """This run goes on here: what is open of it. Nothing is told."""
        self._runs.pop(uid, None)
        for entry in entries:
            self.take(entry, decode_events(entry.events))

    def take(self, entry: Landed, events: Sequence[Event]) -> list[Span]:
        """An entry with these events has landed: what is over with it."""
        first = events[0] if events else None
        if isinstance(first, RunStarted):
            self._runs[entry.uid] = _Run(first)
            while len(self._runs) > MOST_RUNS:
                self._runs.popitem(last=False)
        run = self._runs.get(entry.uid)
        if run is None:
            return []
        self._runs.move_to_end(entry.uid)
        told = run.fold(events, entry.at)
        if isinstance(first, RunStarted) and first.forked_from:
            return []  # a copy: what it says happened to another run
        return told


class _Step(msgspec.Struct):
    function: str
    kind: str
    asked_at: int
    compensates: str
    attempt: int
    attempt_at: int


class _Wait(msgspec.Struct):
    name: str
    began_at: int
    timer: int | None


class _Run:
    """What is open of one run."""

    __slots__ = ("_began_at", "_given_up", "_round", "_steps", "_told", "_waits", "started")

    def __init__(self, started: RunStarted) -> None:
        self.started = msgspec.structs.replace(started, input=NOTHING, attributes=NOTHING)
        self._began_at = started.at
        self._round = 0
        self._steps: dict[str, _Step] = {}
        self._given_up: dict[str, _Step] = {}
        """Steps whose attempt may still end in the world."""
        self._waits: dict[str, _Wait] = {}
        self._told: list[Span] = []

    def fold(self, events: Sequence[Event], written_at: int) -> list[Span]:
        """What is over with these events. What a body asked for, it asked for when it was moved."""
        moved_at = written_at
        for event in events:
            moved_at = time_of(event, moved_at)
            fold = self._FOLDS.get(type(event))
            if fold is not None:
                fold(self, event, moved_at)
        told, self._told = self._told, []
        return told

    # --- steps --------------------------------------------------------------------------------------------------------

    def _start_step(self, event: StepStarted, at: int) -> None:
        self._steps[event.key] = _Step(event.function, event.kind, at, event.compensates, event.attempt, at)

    def _reuse_step(self, event: StepReused, at: int) -> None:
        self._tell("step", at, at, "reused", key=event.key, name=event.function)

    def _start_attempt(self, event: AttemptStarted, at: int) -> None:
        step = self._steps.get(event.key)
        if step is not None:
            step.attempt, step.attempt_at = event.attempt, at

    def _succeed(self, event: StepSucceeded, at: int) -> None:
        self._end_attempt(event, at, "succeeded", began_at=event.began_at)
        self._end_step(event.key, at, "succeeded")

    def _fail(self, event: StepFailed, at: int) -> None:
        self._end_attempt(event, at, "failed", event.error, began_at=event.began_at)
        if event.retry_at is None:
            self._end_step(event.key, at, "failed", event.error)

    def _lose(self, event: StepLost, at: int) -> None:
        self._end_attempt(event, at, "lost")

    def _settle(self, event: StepSettled, at: int) -> None:
        self._end_attempt(event, at, "succeeded" if event.error is None else "failed", event.error)

    def _cancel_step(self, event: StepCancelled, at: int) -> None:
        step = self._steps.get(event.key)
        self._end_step(event.key, at, "cancelled")
        if step is not None and step.attempt:
            self._given_up[event.key] = step

    def _end_attempt(
        self,
        event: StepSucceeded | StepFailed | StepLost | StepSettled,
        at: int,
        status: str,
        error: ErrorRecord | None = None,
        *,
        began_at: int = 0,
    ) -> None:
        key, attempt = event.key, event.attempt
        step = self._steps.get(key) or self._given_up.pop(key, None)
        if step is not None and step.kind in ELSEWHERE:
            return
        if not began_at and step is not None and step.attempt == attempt:
            began_at = step.attempt_at
        name = "" if step is None else step.function
        self._tell("attempt", began_at or at, at, status, key=key, name=name, error=error, attempt=attempt)

    def _end_step(self, key: str, at: int, status: str, error: ErrorRecord | None = None) -> None:
        step = self._steps.pop(key, None)
        if step is not None:
            self._tell(
                "step", step.asked_at, at, status, key=key, name=step.function, error=error, attempt=step.attempt,
                compensates=step.compensates,
            )  # fmt: skip

    # --- waits --------------------------------------------------------------------------------------------------------

    def _start_sleep(self, event: SleepStarted, at: int) -> None:
        self._waits[_sleep_key(event)] = _Wait("sleep", at, event.timer)

    def _start_wait(self, event: WaitStarted, at: int) -> None:
        self._waits[event.key] = _Wait(str(event.kind), at, event.timer)

    def _fire(self, event: TimerFired, at: int) -> None:
        for key, wait in list(self._waits.items()):
            if wait.timer == event.timer:
                self._end_wait(key, at, "over" if wait.name == "sleep" else "expired")

    def _cancel_sleep(self, event: SleepCancelled, at: int) -> None:
        self._end_wait(_sleep_key(event), at, "cancelled")

    def _cancel_wait(self, event: WaitCancelled, at: int) -> None:
        self._end_wait(event.key, at, "cancelled")

    def _answer_wait(self, event: SignalTaken | GateOpened, at: int) -> None:
        self._end_wait(event.key, at, "over")

    def _judge(self, event: DecisionJudged, at: int) -> None:
        if event.verdict is Judgement.ACCEPTED:
            self._end_wait(event.key, at, "over")

    def _end_wait(self, key: str, at: int, status: str) -> None:
        wait = self._waits.pop(key, None)
        if wait is not None:
            self._tell("wait", wait.began_at, at, status, key=key, name=wait.name)

    # --- the run ------------------------------------------------------------------------------------------------------

    def _end(self, event: RunOutcome, at: int) -> None:
        """What it leaves open ends with it."""
        for key in list(self._waits):
            self._end_wait(key, at, "cancelled")
        for key in list(self._steps):
            self._end_step(key, at, "cancelled")
        error = None if isinstance(event, RunCompleted) else event.error
        self._tell("run", self._began_at, at, str(STATUS_OF[type(event)]), error=error)
        self._round += 1

    def _reopen(self, _event: RunReopened, at: int) -> None:
        self._began_at = at

    def _tell(self, kind: SpanKind, began_at: int, ended_at: int, status: str, **more: Any) -> None:
        began_at = min(began_at, ended_at)
        self._told.append(Span(kind, self.started, began_at, ended_at, status, round=self._round, **more))

    _FOLDS: ClassVar[dict[type, Callable[[_Run, Any, int], None]]] = {
        StepStarted: _start_step,
        StepReused: _reuse_step,
        AttemptStarted: _start_attempt,
        StepSucceeded: _succeed,
        StepFailed: _fail,
        StepLost: _lose,
        StepSettled: _settle,
        StepCancelled: _cancel_step,
        SleepStarted: _start_sleep,
        SleepCancelled: _cancel_sleep,
        TimerFired: _fire,
        WaitStarted: _start_wait,
        WaitCancelled: _cancel_wait,
        SignalTaken: _answer_wait,
        GateOpened: _answer_wait,
        DecisionJudged: _judge,
        RunReopened: _reopen,
        **dict.fromkeys(STATUS_OF, _end),
    }
    """What opens or closes something. Others say nothing of how long something took."""


def _sleep_key(event: SleepStarted | SleepCancelled) -> str:
    return f"sleep#{event.timer}"
