"""What came from outside counts once; what is undone is undone once. Layer: core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from outlast.core.events import (
    DecisionJudged,
    DecisionMade,
    EffectKept,
    Event,
    GateOpened,
    RunCompensated,
    RunReopened,
    SignalReceived,
    SignalTaken,
    StepStarted,
    StepSucceeded,
    UnwindStarted,
)
from outlast.core.reopening import UNWIND
from outlast.core.verifying.broken import Broken, Rule
from outlast.core.waits.events import Judgement

__all__ = ["check_answers", "check_unwind"]


def check_answers(events: Sequence[Event]) -> Iterator[Broken]:
    """A message is an event once; a signal is taken once, a decision judged once, an approval accepted once. A retry
    begins anew with what it drops."""
    messages: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    for event in events:
        if isinstance(event, RunReopened):
            taken.clear()
            accepted.clear()
        elif isinstance(event, SignalReceived | DecisionMade | GateOpened):
            messages[event.message] += 1
        elif isinstance(event, SignalTaken | DecisionJudged):
            taken[event.message] += 1
            if isinstance(event, DecisionJudged) and event.verdict is Judgement.ACCEPTED:
                accepted[event.key] += 1
    for what, counts in (("recorded", messages), ("answered", taken), ("accepted", accepted)):
        for name, count in counts.items():
            if count > 1:
                yield Broken(Rule.OUTCOME, f"{name} is {what} {count} times")


def check_unwind(events: Sequence[Event]) -> Iterator[Broken]:
    """What is undone is what succeeded and can be, each once, in the order on record, all of it if the end says so."""
    started = next((event for event in events if isinstance(event, UnwindStarted)), None)
    if started is None:
        return
    undoing = [event.compensates for event in events if isinstance(event, StepStarted) and event.compensates]
    if undoing != list(started.keys[: len(undoing)]):
        yield Broken(Rule.UNDO, f"it undid {undoing}, and was to undo {list(started.keys)}")
    if not any(isinstance(event, RunReopened) and event.kind != UNWIND for event in events):
        yield from _check_all_are_undone(events, started)
    if isinstance(events[-1], RunCompensated):
        if len(undoing) != len(started.keys):
            yield Broken(Rule.UNDO, f"it is compensated, and undid {undoing} of {list(started.keys)}")
        undone = {event.key for event in events if isinstance(event, StepSucceeded)}
        for event in events:
            if isinstance(event, StepStarted) and event.compensates and event.key not in undone:
                yield Broken(Rule.UNDO, f"it is compensated, and {event.key} has not succeeded")


def _check_all_are_undone(events: Sequence[Event], started: UnwindStarted) -> Iterator[Broken]:
    """Of a run that was never retried: what its retry dropped is not told by its events alone."""
    kept = {event.key for event in events if isinstance(event, EffectKept)}
    undoable = {
        event.key for event in events if isinstance(event, StepStarted) and event.undo and not event.compensates
    }
    for event in events:
        if not isinstance(event, StepSucceeded) or event.key not in undoable - kept:
            continue
        if (event.undoable or not event.message) and event.key not in started.keys:
            yield Broken(Rule.UNDO, f"step {event.key} succeeded, and was not undone")
