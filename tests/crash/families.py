"""What has to hold between runs: of parents and children, of rounds, and of what is undone. Part of the checker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from outlast.core.events import (
    AttemptStarted,
    CancelRequested,
    DecisionJudged,
    Event,
    RunCompensated,
    RunCompleted,
    RunStarted,
    SignalTaken,
    StepStarted,
    StepSucceeded,
    UnwindStarted,
)
from outlast.core.keys import child_uid
from outlast.stores.store import Entry

__all__ = ["Journal", "Problem", "check_children", "check_rounds", "check_unwind", "flat"]

Journal = list[tuple[Entry, list[Event]]]


class Problem(NamedTuple):
    """Something that must not be."""

    uid: str
    text: str

    def __str__(self) -> str:
        return f"run {self.uid}: {self.text}"


def flat(journal: Journal) -> list[Event]:
    """All events of a journal."""
    return [event for _, events in journal for event in events]


def check_children(journals: Mapping[str, Journal]) -> Iterator[Problem]:
    """A child that was asked for is there, and is its parent's; an outcome its parent has of it is one it had."""
    for uid, journal in journals.items():
        events = flat(journal)
        asked = {event.key for event in events if isinstance(event, StepStarted) and event.kind == "child"}
        begun = {event.key for event in events if isinstance(event, StepStarted | AttemptStarted) and event.attempt}
        for key in asked & begun:
            child = flat(journals.get(child_uid(uid, key), []))
            if not child:
                yield Problem(uid, f"its child {key} is not there")
                continue
            started = child[0]
            if not isinstance(started, RunStarted) or (started.parent, started.parent_key) != (uid, key):
                yield Problem(uid, f"its child {key} began with {started!r}")
            child = _last_round(journals, child)
            for event in events:
                if isinstance(event, StepSucceeded) and event.key == key:
                    outputs = [bytes(end.output) for end in child if isinstance(end, RunCompleted)]
                    if bytes(event.value) not in outputs:
                        yield Problem(uid, f"its child {key} came to {outputs}, and it has {event.value!r}")


def check_rounds(journals: Mapping[str, Journal]) -> Iterator[Problem]:
    """A run that went on is there as the round it named, under the same id; and heard each message in one round."""
    heard: dict[tuple[str, str], str] = {}
    for uid, journal in journals.items():
        events = flat(journal)
        started, last = events[0], events[-1]
        assert isinstance(started, RunStarted)
        origin = started.origin or uid
        if isinstance(last, RunCompleted) and last.next:
            following = flat(journals.get(last.next, []))
            first = following[0] if following else None
            expected = (started.id, uid, origin, started.parent, started.deadline)
            if not isinstance(first, RunStarted):
                yield Problem(uid, f"it goes on as {last.next}, which is not there")
            elif (first.id, first.continues, first.origin, first.parent, first.deadline) != expected:
                yield Problem(uid, f"it goes on as {first!r}")
        for event in events:
            if isinstance(event, SignalTaken | DecisionJudged | CancelRequested):
                other = heard.setdefault((origin, event.message), uid)
                if other != uid:
                    yield Problem(uid, f"message {event.message} was answered in round {other} too")


def _last_round(journals: Mapping[str, Journal], events: list[Event]) -> list[Event]:
    while events and isinstance(events[-1], RunCompleted) and events[-1].next:
        events = flat(journals.get(events[-1].next, []))
    return events


def check_unwind(events: Sequence[Event]) -> Iterator[str]:
    """What is undone is what succeeded and can be, each once, in the order on record, all of it if the end says so."""
    started = next((event for event in events if isinstance(event, UnwindStarted)), None)
    if started is None:
        return
    undoing = [event.compensates for event in events if isinstance(event, StepStarted) and event.compensates]
    if undoing != list(started.keys[: len(undoing)]):
        yield f"it undid {undoing}, and was to undo {started.keys}"
    undoable = {
        event.key for event in events if isinstance(event, StepStarted) and event.undo and not event.compensates
    }
    for event in events:
        if not isinstance(event, StepSucceeded) or event.key not in undoable:
            continue
        if (event.undoable or not event.message) and event.key not in started.keys:
            yield f"step {event.key} succeeded, and was not undone"
    undone = {event.key for event in events if isinstance(event, StepSucceeded)}
    if isinstance(events[-1], RunCompensated):
        if len(undoing) != len(started.keys):
            yield f"it is compensated, and undid {undoing} of {started.keys}"
        for event in events:
            if isinstance(event, StepStarted) and event.compensates and event.key not in undone:
                yield f"it is compensated, and {event.key} has not succeeded"
