"""The story of a run: timeline, history of attempts, and how it stood before (SPEC O1, O2)."""

from __future__ import annotations

import typing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from outlast.core.events import (
    AttemptStarted,
    CancelRequested,
    ChildCancelled,
    ChildSignalled,
    DecisionJudged,
    DecisionMade,
    EffectKept,
    ErrorRecord,
    Event,
    GateOpened,
    MilestoneReached,
    PatchApplied,
    RunCancelled,
    RunCompensated,
    RunCompensationFailed,
    RunCompleted,
    RunFailed,
    RunReopened,
    RunResumed,
    RunSuspended,
    RunTakenOver,
    SignalReceived,
    SignalRefused,
    SignalTaken,
    SleepCancelled,
    SleepStarted,
    StateSet,
    StepCancelled,
    StepFailed,
    StepLost,
    StepProgressed,
    StepReused,
    StepSettled,
    StepsSettled,
    StepSucceeded,
    TimerFired,
    UndoRegistered,
    UnwindStarted,
    VersionTaken,
    WaitCancelled,
    WaitStarted,
)
from outlast.core.fold import fold
from outlast.core.history import list_attempts
from outlast.core.timeline import Timeline, state_at, tell
from outlast.core.waits.events import Judgement, WaitKind
from tests.core.journals import STARTED, Page, call, journal, random_journal

BOOM = ErrorRecord("ValueError", "boom")
seeds = st.integers(0, 1_000_000)

STORY = journal(
    STARTED,
    [call("charge"), call("pack", attempt=0), SleepStarted(1, 5000)],
    StepFailed(300, "charge", 1, BOOM, 250, retry_at=400),
    [AttemptStarted(400, "charge", 2), AttemptStarted(400, "pack", 1)],
    [StepSucceeded(500, "charge", 2, Raw(b'"r"'), 410), StateSet("phase", Raw(b"2")), MilestoneReached("paid")],
    TimerFired(5000, 1, 5000),
    [StepLost(5100, "pack", 1), RunTakenOver(5100, "w2", 1)],
    [StepFailed(5200, "pack", 1, BOOM), RunFailed(BOOM, ("pack",))],
)


# SPEC O1
def test_the_timeline_tells_what_happened_in_order():
    """One item for each event, numbered from 0, with its step and attempt."""
    told = [(item.kind, item.step, item.attempt) for item in tell(STORY)]
    assert told == [
        ("queued", None, None),
        ("started", "charge", 1),
        ("pending", "pack", 0),
        ("sleeping", None, None),
        ("retrying", "charge", 1),
        ("started", "charge", 2),
        ("started", "pack", 1),
        ("succeeded", "charge", 2),
        ("state", None, None),
        ("milestone", None, None),
        ("slept", None, None),
        ("lost", "pack", 1),
        ("taken_over", None, None),
        ("failed", "pack", 1),
        ("failed", None, None),
    ]


# SPEC O1
@given(seed=seeds)
def test_the_timeline_has_no_gaps(seed):
    """The seq of an item is its event's number in the run, over retries too; times never go back."""
    pages = random_journal(seed)
    items = tell(pages)
    assert [item.seq for item in items] == list(range(sum(len(events) for _, events in pages)))
    assert all(one.at <= after.at for one, after in pairwise(items))


ONE_EACH = [
    (STARTED, "queued"),
    (call("a"), "started"),
    (StepReused("a", "f", Raw(b"[]")), "reused"),
    (AttemptStarted(1, "a", 2), "started"),
    (StepProgressed(1, "a", 1, Raw(b"5")), "progressed"),
    (StepSucceeded(1, "a", 1, Raw(b"1")), "succeeded"),
    (StepFailed(1, "a", 1, BOOM), "failed"),
    (StepCancelled("a"), "cancelled"),
    (StepLost(1, "a", 1), "lost"),
    (StepSettled(1, "a", 1), "settled"),
    (SleepStarted(1, 5), "sleeping"),
    (SleepCancelled(1), "sleep_cancelled"),
    (TimerFired(1, 1, 1), "timer"),
    (WaitStarted("ship?", WaitKind.APPROVAL, "ship?", 1, 5), "waiting"),
    (WaitCancelled("ship?"), "wait_cancelled"),
    (SignalReceived(1, "m", "paid", Raw(b"1"), 1), "signalled"),
    (SignalTaken("paid", "m"), "taken"),
    (SignalRefused("m", "paid", "expected a number"), "set_aside"),
    (DecisionMade(1, "m", "ship?", Raw(b"1"), "bob"), "decided"),
    (DecisionJudged("m", "ship?", Judgement.ACCEPTED), "accepted"),
    (DecisionJudged("m", "ship?", Judgement.EXPIRED, "it expired"), "refused"),
    (GateOpened(1, "m", "look"), "opened"),
    (StateSet("k", Raw(b"1")), "state"),
    (MilestoneReached("m"), "milestone"),
    (PatchApplied("p"), "patched"),
    (CancelRequested(1, "m", "why"), "cancel_requested"),
    (RunTakenOver(1, "w", 1), "taken_over"),
    (VersionTaken(1, "v2"), "version"),
    (RunSuspended(1, "C", "why"), "suspended"),
    (RunResumed(1), "resumed"),
    (RunReopened(1, "retry", 1), "reopened"),
    (RunCompleted(Raw(b"1")), "completed"),
    (RunFailed(BOOM), "failed"),
    (RunCancelled("why"), "cancelled"),
    (StepsSettled(1), "all_settled"),
    (ChildCancelled("a", "why"), "child_cancelled"),
    (ChildSignalled("a", "m", "paid"), "child_signalled"),
    (UndoRegistered("undo:f"), "undo_registered"),
    (EffectKept("a"), "kept"),
    (UnwindStarted(("a",), BOOM), "compensating"),
    (RunCompensated(BOOM), "compensated"),
    (RunCompensationFailed(("a",), BOOM), "compensation_failed"),
]


@pytest.mark.parametrize(("event", "kind"), ONE_EACH)
def test_every_event_can_be_told(event, kind):
    """There is no event of which the timeline cannot say what it was."""
    assert tell(journal(event))[0].kind == kind


def test_no_event_was_forgotten_above():
    """The list above names every event there is."""
    assert {type(event) for event, _ in ONE_EACH} == set(typing.get_args(Event))


def test_the_timeline_says_who_wrote_what_when():
    """Each item carries its entry's writer; an event without a time of its own happened when its entry was written."""
    pages = [
        (Page(100, "client"), [STARTED]),
        (Page(180, "w1"), [call("a")]),
        (Page(260, "w2"), [StepLost(250, "a", 1)]),
    ]
    assert [(item.writer, item.at) for item in tell(pages)] == [("client", 100), ("w1", 180), ("w2", 250)]


# SPEC O3
@given(seed=seeds)
def test_a_timeline_told_in_portions_is_the_same(seed):
    """Whoever follows a run sees the items that whoever reads it later sees, and the picture beside them."""
    pages = random_journal(seed)
    timeline = Timeline()
    assert [item for page, events in pages for item in timeline.tell(page, events)] == tell(pages)
    assert timeline.view == fold(pages)


# SPEC O1
def test_history_has_one_entry_for_each_attempt():
    """With worker, times, arguments and outcome; a step that never got a place has none."""
    told = [
        (a.key, a.attempt, a.status, a.worker, a.began_at, a.ended_at, bytes(a.arguments)) for a in list_attempts(STORY)
    ]
    assert told == [
        ("charge", 1, "failed", "w1", 250, 300, b"[1]"),
        ("charge", 2, "succeeded", "w1", 410, 500, b"[1]"),
        ("pack", 1, "lost", "w1", 400, 5200, b"[1]"),
    ]
    first, second, lost = list_attempts(STORY)
    assert (first.error, first.retry_at, second.value, lost.error) == (BOOM, 400, Raw(b'"r"'), BOOM)


# SPEC X8
def test_history_says_how_a_cancelled_attempt_ended_in_the_world():
    """Cancelled for the body, and yet it had its result: both are on record."""
    story = journal(
        STARTED, call("a"), StepCancelled("a"), RunCancelled("x"), StepSettled(900, "a", 1, value=Raw(b"7"))
    )
    (attempt,) = list_attempts(story)
    assert (attempt.status, attempt.value, attempt.ended_at) == ("cancelled", Raw(b"7"), 900)


# SPEC R10
def test_history_keeps_what_a_retry_dropped():
    """Attempts behind the cut stay in the history, as not current; successes count on."""
    story = journal(
        STARTED,
        [call("a"), call("b")],
        StepFailed(300, "a", 1, BOOM),
        StepSucceeded(400, "b", 1, Raw(b"1")),
        RunFailed(BOOM, ("a",)),
        RunReopened(600, "retry", 3),
        AttemptStarted(700, "a", 2),
    )
    told = {(a.key, a.attempt): (a.status, a.is_current) for a in list_attempts(story)}
    assert told == {("a", 1): ("failed", False), ("b", 1): ("succeeded", True), ("a", 2): ("started", True)}


@given(seed=seeds)
def test_history_and_status_agree(seed):
    """The latest attempt of a step in the history ended as the status says the step did."""
    pages = random_journal(seed)
    view = fold(pages)
    latest = {attempt.key: attempt for attempt in list_attempts(pages)}
    for key, step in view.steps.items():
        if step.status in {"succeeded", "failed"}:
            attempt = latest[key]
            expected = {step.status, "lost"} if step.status == "failed" else {step.status}
            assert attempt.status in expected
            assert (attempt.attempt, attempt.value, attempt.error) == (step.attempts, step.value, step.error)


# SPEC O2
@given(seed=seeds, cut=st.integers(-1, 120))
def test_the_state_at_a_number_is_that_of_the_journal_so_far(seed, cut):
    """Nothing that came later shows; beyond the end it is the latest."""
    pages = random_journal(seed)
    flat = [(page, [event]) for page, events in pages for event in events]
    assert state_at(pages, seq=cut) == fold(flat[: cut + 1])


# SPEC O2
@given(seed=seeds, at=st.integers(0, 2500))
def test_the_state_at_a_time_shows_all_that_had_happened(seed, at):
    """Every event up to that time, and none after it."""
    pages = random_journal(seed)
    count = sum(item.at <= at for item in tell(pages))
    assert state_at(pages, at=at) == state_at(pages, seq=count - 1)


# SPEC O2
def test_before_the_first_event_there_is_nothing():
    """Seq -1, no status, no steps."""
    for view in (state_at(STORY, seq=-1), state_at(STORY, at=99), state_at(STORY, seq=-7)):
        assert (view.seq, view.status, view.steps) == (-1, None, {})


# SPEC O2
def test_a_retry_does_not_change_the_past():
    """Before the retry the run had failed, and is shown so."""
    pages = [*STORY, (Page(9000, "client"), [RunReopened(9000, "retry", 13)])]
    assert state_at(pages, at=8999).status == "failed"
    assert state_at(pages, at=9000).status == "queued"


@pytest.mark.parametrize("begin", [0, 1, 4, 99])
@pytest.mark.parametrize("end", [None, 0, 1, 5, 99])
def test_a_part_of_the_timeline_is_that_part_of_all_of_it(begin, end):
    """Told from the middle, an item says what it says in the whole; and nothing behind the part is looked at."""
    assert tell(STORY, begin, end) == tell(STORY)[begin:end]
    assert end is None or tell(_break_off(STORY, end), begin, end) == tell(STORY)[begin:end]


def _break_off(journal, end):
    """The journal as far as the event number `end`, behind which nobody may read."""
    count = 0
    for entry, events in journal:
        assert count < max(end, 1)
        count += len(events)
        yield entry, events


def test_the_history_of_one_step_is_that_part_of_the_history():
    """Its attempts, as they stand among those of all steps."""
    everything = list_attempts(STORY)
    for key in {attempt.key for attempt in everything}:
        assert list_attempts(STORY, key) == [attempt for attempt in everything if attempt.key == key]
    assert list_attempts(STORY, "no such step") == []
