"""What took how long, made of what landed (SPEC O5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from outlast.core.events import (
    AttemptStarted,
    ErrorRecord,
    Event,
    RunCancelled,
    RunCompleted,
    RunFailed,
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
    encode_events,
)
from outlast.core.waits.events import (
    DecisionJudged,
    GateOpened,
    Judgement,
    SignalTaken,
    WaitCancelled,
    WaitKind,
    WaitStarted,
)
from outlast.telemetry import spans as spans_module
from outlast.telemetry.observer import Landed
from outlast.telemetry.spans import Tracker

NULL = Raw(b"null")
BAD = ErrorRecord("Bad", "no")


def started(uid: str = "u", at: int = 10, **more: Any) -> RunStarted:
    return RunStarted(at, uid, "A-17", "fulfil", "v1", Raw(b'{"secret":1}'), 7, "3.11", **more)


class Journal:
    """Entries of one run as they land, and what is told of each."""

    def __init__(self, uid: str = "u") -> None:
        self.uid = uid
        self.tracker = Tracker()
        self.entries: list[Landed] = []

    def land(self, at: int, *events: Event) -> list[tuple[Any, ...]]:
        entry = Landed(self.uid, len(self.entries), at, "w", encode_events(events))
        self.entries.append(entry)
        return tell(self.tracker, entry, events)


def tell(tracker: Tracker, entry: Landed, events: Sequence[Event]) -> list[tuple[Any, ...]]:
    return [
        (span.kind, span.key or span.run.id, span.name, span.began_at, span.ended_at, span.status, span.attempt)
        for span in tracker.take(entry, events)
    ]


# SPEC O5
def test_a_step_is_told_with_each_of_its_attempts() -> None:
    """From when the body asked for it to its last outcome; attempts from when they began; the run when it ends."""
    journal = Journal()
    assert journal.land(10, started(), StepStarted("charge", "pay:charge", NULL)) == []
    assert journal.land(20, StepFailed(20, "charge", 1, BAD, 12, retry_at=25)) == [
        ("attempt", "charge", "pay:charge", 12, 20, "failed", 1)
    ]
    assert journal.land(25, AttemptStarted(25, "charge", 2)) == []
    assert journal.land(30, StepSucceeded(30, "charge", 2, NULL, 26), RunCompleted(NULL)) == [
        ("attempt", "charge", "pay:charge", 26, 30, "succeeded", 2),
        ("step", "charge", "pay:charge", 10, 30, "succeeded", 2),
        ("run", "A-17", "", 10, 30, "completed", 0),
    ]


# SPEC O5 L5
def test_a_lost_attempt_is_told_by_who_found_it_lost() -> None:
    """From when it was put on record: its own process is gone, and said nothing."""
    journal = Journal()
    journal.land(10, started(), StepStarted("s", "f", NULL))
    assert journal.land(50, StepLost(50, "s", 1), AttemptStarted(50, "s", 2)) == [
        ("attempt", "s", "f", 10, 50, "lost", 1)
    ]


# SPEC O5
def test_what_began_elsewhere_is_told_whole() -> None:
    """A process that takes a run over reads its journal, and knows since when things last; it tells nothing twice."""
    journal = Journal()
    journal.land(10, started(), StepStarted("a", "f", NULL), SleepStarted(0, 90))
    journal.land(20, StepSucceeded(20, "a", 1, NULL, 11), StepStarted("b", "g", NULL))
    other = Tracker()
    other.recall("u", journal.entries)
    events = [StepSucceeded(30, "b", 1, NULL), TimerFired(31, 0, 30), RunCompleted(NULL)]
    assert tell(other, Landed("u", 2, 31, "w2", encode_events(events)), events) == [
        ("attempt", "b", "g", 20, 30, "succeeded", 1),
        ("step", "b", "g", 20, 30, "succeeded", 1),
        ("wait", "sleep#0", "sleep", 10, 31, "over", 0),
        ("run", "A-17", "", 10, 31, "completed", 0),
    ]


# SPEC O5
def test_waits_are_told_when_they_are_over() -> None:
    """Sleeps, signals, gates and approvals; a refused decision ends none, a deadline that passed is `expired`."""
    journal = Journal()
    journal.land(
        10, started(), SleepStarted(0, 20), SleepStarted(1, 99),
        WaitStarted("paid", WaitKind.SIGNAL, "paid"), WaitStarted("ok?", WaitKind.APPROVAL, "ok?"),
        WaitStarted("gate", WaitKind.GATE, "gate"), WaitStarted("late", WaitKind.SIGNAL, "late", timer=2),
        WaitStarted("left", WaitKind.SIGNAL, "left"), WaitStarted("open", WaitKind.GATE, "open"),
    )  # fmt: skip
    assert journal.land(20, TimerFired(20, 0, 20), SleepCancelled(1)) == [
        ("wait", "sleep#0", "sleep", 10, 20, "over", 0),
        ("wait", "sleep#1", "sleep", 10, 20, "cancelled", 0),
    ]
    told = journal.land(
        30, SignalTaken("paid", "m"), DecisionJudged("m1", "ok?", Judgement.FORBIDDEN),
        DecisionJudged("m2", "ok?", Judgement.ACCEPTED), GateOpened(30, "m3", "gate"), GateOpened(30, "m4", "gate"),
        TimerFired(30, 2, 30), WaitCancelled("left"),
    )  # fmt: skip
    assert [(key, status) for _, key, _, _, _, status, _ in told] == [
        ("paid", "over"), ("ok?", "over"), ("gate", "over"), ("late", "expired"), ("left", "cancelled"),
    ]  # fmt: skip
    told = journal.land(40, RunCancelled("enough"))
    assert [(kind, key, status) for kind, key, _, _, _, status, _ in told] == [
        ("wait", "open", "cancelled"), ("run", "A-17", "cancelled"),
    ]  # fmt: skip


# SPEC O5 X8
def test_an_attempt_the_body_gave_up_is_told_when_it_ends_in_the_world() -> None:
    """The step is over at once, the attempt when its outcome is known."""
    journal = Journal()
    journal.land(10, started(), StepStarted("s", "f", NULL))
    assert journal.land(20, StepCancelled("s")) == [("step", "s", "f", 10, 20, "cancelled", 1)]
    assert journal.land(30, StepSettled(30, "s", 1, error=BAD)) == [("attempt", "s", "f", 10, 30, "failed", 1)]


# SPEC O5 R10
def test_a_run_that_goes_on_is_another_round() -> None:
    """From when it was reopened; steps of the new round are told apart from those of the old, kept ones in no time."""
    journal = Journal()
    journal.land(10, started(), StepStarted("s", "f", NULL))
    journal.land(20, StepFailed(20, "s", 1, BAD), RunFailed(BAD))
    events: list[Event] = [
        RunReopened(50, "retry", 1),
        StepReused("a", "g", NULL),
        StepStarted("s", "f", NULL, attempt=2),
    ]
    assert journal.land(50, *events) == [("step", "a", "g", 50, 50, "reused", 0)]
    entry = Landed("u", 9, 60, "w", b"")
    spans = journal.tracker.take(entry, [StepSucceeded(60, "s", 2, NULL), RunCompleted(NULL)])
    assert [(span.kind, span.round, span.began_at) for span in spans] == [
        ("attempt", 1, 50),
        ("step", 1, 50),
        ("run", 1, 50),
    ]


# SPEC O5 R10
def test_a_fork_does_not_tell_again_what_happened_to_its_origin() -> None:
    """Entry 0 of a fork is a copy of another journal."""
    journal = Journal()
    copied = (started(forked_from="other"), StepStarted("s", "f", NULL), StepSucceeded(5, "s", 1, NULL))
    assert journal.land(10, *copied, StepStarted("t", "g", NULL)) == []
    assert [span[:2] for span in journal.land(20, StepSucceeded(20, "t", 1, NULL))] == [("attempt", "t"), ("step", "t")]


def test_children_have_no_attempts() -> None:
    """A step that is a run of its own has a run's span instead."""
    journal = Journal()
    journal.land(10, started(), StepStarted("c", "child", NULL, "child"))
    assert journal.land(20, StepSucceeded(20, "c", 1, NULL)) == [("step", "c", "child", 10, 20, "succeeded", 1)]


def test_what_is_kept_in_mind_has_a_bound(monkeypatch) -> None:
    """The oldest is forgotten; what comes of it is told as far as it is known, or not at all. No input is kept."""
    monkeypatch.setattr(spans_module, "MOST_RUNS", 2)
    tracker = Tracker()
    for uid in ("a", "b", "c"):
        events = [started(uid), StepStarted("s", "f", NULL)]
        tracker.take(Landed(uid, 0, 10, "w", b""), events)
    over = [StepSucceeded(20, "s", 1, NULL), RunCompleted(NULL)]
    assert tracker.take(Landed("a", 1, 20, "w", b""), over) == []
    (*_, run) = tracker.take(Landed("c", 1, 20, "w", b""), over)
    assert run.run.input == NULL
