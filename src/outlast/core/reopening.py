"""What a `retry()` keeps of a journal. Layer: core.

`RunReopened(cut=n)` says: events before number n stand, in their order; of those behind it only the recorded successes
do, as facts by step key, and what people sent: signals, decisions, opened gates. Everything else behind the cut
(failures, cancelled steps, handler steps, fired timers) is as if it had not been, but for the numbers of attempts,
which never begin anew: an attempt's id must not be used twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeGuard, final

import msgspec

from outlast.core.events import (
    CancelRequested,
    DecisionMade,
    Event,
    GateOpened,
    RunCancelled,
    RunFailed,
    RunReopened,
    RunStarted,
    SignalReceived,
    StepFailed,
    StepReused,
    StepSettled,
    StepsSettled,
    StepStarted,
    StepSucceeded,
    Stimulus,
    TimerFired,
)

if TYPE_CHECKING:
    from outlast.core.calls import StepCall

__all__ = ["UNWIND", "Fact", "Reopening", "find_cut", "find_kept", "is_stimulus", "splice"]

UNWIND = "unwind"
"""The kind of reopening that keeps all of a journal: see `core.unwinding`."""


class Fact(msgspec.Struct, frozen=True):
    """A success that was recorded behind a cut."""

    function: str
    kind: str
    arguments: bytes
    value: msgspec.Raw
    undo: str = ""
    """What undoes it, if anything does."""

    def fits(self, call: StepCall) -> bool:
        """Whether this call is the one that succeeded."""
        return self.function == call.function and self.kind == call.kind and call.same_arguments(self.arguments)


@final
class Reopening(msgspec.Struct, frozen=True):
    """Stands in the spliced journal where `RunReopened` stands in the journal."""

    at: int
    facts: dict[str, Fact]
    """By key, in the order in which they were recorded."""
    mail: tuple[SignalReceived | DecisionMade | GateOpened, ...] = ()
    """What came from outside, in order. It was acknowledged, so nobody sends it again."""


def find_cut(events: Sequence[Event]) -> int:
    """Where a run that failed, or was cancelled with its parent, is to go on from: before the first failure that its
    error came from, or before the cancel.

    When the body failed by itself: behind its last stimulus, so that all it asked for after that is asked anew."""
    begun = max((number for number, event in enumerate(events) if isinstance(event, RunReopened)), default=0)
    failed: set[str] = set()
    if isinstance(events[-1], RunFailed):
        failed = set(events[-1].steps)
    for number, event in enumerate(events):
        if isinstance(event, StepFailed) and event.retry_at is None and event.key in failed:
            return number
        if isinstance(event, CancelRequested) and isinstance(events[-1], RunCancelled) and number > begun:
            return number
    last = 0
    for number, event in enumerate(events):
        if is_stimulus(event) or isinstance(event, RunStarted):
            last = number
    return last + 1


def is_stimulus(event: Event | Reopening) -> TypeGuard[Stimulus]:
    """Whether the event moved the machine."""
    kind = type(event)
    if kind is StepFailed:
        return event.retry_at is None  # type: ignore[union-attr]  # see `kind`
    return kind in _STIMULI


_MAIL = (SignalReceived, DecisionMade, GateOpened)
_STIMULI = frozenset({StepSucceeded, StepSettled, StepsSettled, TimerFired, CancelRequested, RunReopened, *_MAIL})
"""All but a step's failure, which moves the body only when it is final. A spliced journal has no `RunReopened` but by
`unwind`."""


def splice(events: Iterable[Event]) -> list[Event | Reopening]:
    """The journal as a replay is to see it."""
    return [event for _, event in find_kept(events)]


def find_kept(events: Iterable[Event]) -> list[tuple[int, Event | Reopening]]:
    """The same, each event with its number in the journal."""
    kept: list[tuple[int, Event | Reopening]] = []
    calls: dict[str, StepStarted | StepReused] = {}
    values: dict[str, StepSucceeded] = {}
    for number, event in enumerate(events):
        if isinstance(event, RunReopened) and event.kind != UNWIND:
            dropped = [old for at, old in kept if at >= event.cut]
            kept = [(at, old) for at, old in kept if at < event.cut]
            kept.append((number, Reopening(event.at, _facts_of(dropped, calls, values), _mail_of(dropped))))
            continue
        if isinstance(event, StepStarted | StepReused):
            calls[event.key] = event
        elif isinstance(event, StepSucceeded):
            values[event.key] = event
        kept.append((number, event))
    return kept


def _facts_of(
    dropped: Sequence[Event | Reopening],
    calls: dict[str, StepStarted | StepReused],
    values: dict[str, StepSucceeded],
) -> dict[str, Fact]:
    """Successes behind the cut, and facts of an earlier retry that were kept or used there."""
    facts: dict[str, Fact] = {}
    for event in dropped:
        if isinstance(event, Reopening):
            facts.update(event.facts)
        elif isinstance(event, StepSucceeded | StepReused) and event.key in values and event.key in calls:
            call, success = calls[event.key], values[event.key]
            undo = call.undo if call.kind != "child" or success.undoable else ""
            facts[event.key] = Fact(call.function, call.kind, bytes(call.arguments), success.value, undo)
    return facts


def _mail_of(dropped: Sequence[Event | Reopening]) -> tuple[SignalReceived | DecisionMade | GateOpened, ...]:
    """What came behind the cut, and what an earlier retry had kept there."""
    mail: list[SignalReceived | DecisionMade | GateOpened] = []
    for event in dropped:
        if isinstance(event, Reopening):
            mail += event.mail
        elif isinstance(event, _MAIL):
            mail.append(event)
    return tuple(mail)
