"""What people see of a run, folded from its journal (SPEC R1, R7, R10)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from outlast.core.attempts import OpenSteps
from outlast.core.events import (
    AttemptStarted,
    CancelRequested,
    DecisionJudged,
    ErrorRecord,
    GateOpened,
    MilestoneReached,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunReopened,
    RunResumed,
    RunSuspended,
    RunTakenOver,
    SleepStarted,
    StateSet,
    StepCancelled,
    StepFailed,
    StepLost,
    StepProgressed,
    StepReused,
    StepSettled,
    StepStarted,
    StepSucceeded,
    TimerFired,
    WaitCancelled,
    WaitStarted,
)
from outlast.core.fold import Fold, fold
from outlast.core.reopening import splice
from outlast.core.states import RunStatus, is_legal
from outlast.core.view import RunView
from outlast.core.waits.book import OpenWaits
from outlast.core.waits.events import Judgement, WaitKind
from tests.core.journals import NO, STARTED, call, journal, random_journal, view_of

BOOM = ErrorRecord("ValueError", "boom")
seeds = st.integers(0, 1_000_000)


def test_before_its_first_event_a_run_is_empty():
    """An empty journal has an empty picture."""
    view = fold([])
    assert view == RunView()
    assert (view.seq, view.status, view.waiting_on, view.is_ended) == (-1, None, "", False)


# SPEC R1
def test_a_run_is_queued_until_its_journal_shows_it_at_work():
    """A start alone is queued; the first thing its body asks for makes it running."""
    assert view_of(STARTED).status == "queued"
    view = view_of(STARTED, call("charge"))
    assert (view.status, view.began_at, view.started) == ("running", 200, STARTED)


# SPEC R7
def test_a_step_is_seen_by_its_latest_attempt():
    """Status, attempts, times and error of a step are those of its latest attempt; its duration too."""
    story = [STARTED, call("charge"), StepFailed(250, "charge", 1, BOOM, 210, retry_at=400)]
    step = view_of(*story).steps["charge"]
    assert (step.status, step.attempts, step.error, step.retry_at) == ("retrying", 1, BOOM, 400)
    assert (step.began_at, step.ended_at, step.duration_us) == (210, 250, 40)
    story.append(AttemptStarted(400, "charge", 2))
    step = view_of(*story).steps["charge"]
    assert (step.status, step.attempts, step.began_at, step.duration_us) == ("started", 2, 400, None)
    story.append(StepSucceeded(470, "charge", 2, Raw(b'"r-1"'), 410))
    step = view_of(*story).steps["charge"]
    assert (step.status, step.attempts, step.error, step.duration_us) == ("succeeded", 2, None, 60)
    assert step.value == Raw(b'"r-1"')


# SPEC S8
def test_steps_come_in_the_order_in_which_the_body_called_them():
    """Not in the order in which they ended; each knows which was called before it."""
    view = view_of(
        STARTED,
        [call("a"), call("b", after="a"), call("a#1", after="b")],
        StepSucceeded(300, "b", 1, Raw(b"1")),
    )
    assert list(view.steps) == ["a", "b", "a#1"]
    assert [step.after for step in view.steps.values()] == [None, "a", "b"]


def test_a_step_that_waits_for_a_place_is_pending():
    """Called but without an attempt on record: pending, with no attempts and no times."""
    step = view_of(STARTED, call("a", attempt=0)).steps["a"]
    assert (step.status, step.attempts, step.began_at) == ("pending", 0, None)


# SPEC S4
def test_a_lost_attempt_waits_for_the_next_one():
    """A step whose worker died is retrying until it is tried again, or has failed."""
    assert view_of(STARTED, call("a"), StepLost(300, "a", 1)).steps["a"].status == "retrying"


# SPEC S5
def test_progress_is_that_of_the_latest_attempt():
    """What an attempt says of itself is shown; the next attempt begins without, and a late word changes nothing."""
    story = [STARTED, call("a"), StepProgressed(250, "a", 1, Raw(b"50"))]
    assert view_of(*story).steps["a"].progress == Raw(b"50")
    story += [StepFailed(260, "a", 1, BOOM, retry_at=270), AttemptStarted(270, "a", 2)]
    assert view_of(*story).steps["a"].progress is None
    assert view_of(*story, StepProgressed(280, "a", 1, Raw(b"60"))).steps["a"].progress is None


# SPEC P2
def test_a_step_has_one_outcome():
    """A step that was given up stays cancelled, whatever its attempt did in the world later."""
    view = view_of(STARTED, call("a"), StepCancelled("a"), StepSettled(500, "a", 1, value=Raw(b"1")))
    step = view.steps["a"]
    assert (step.status, step.ended_at, step.value) == ("cancelled", 300, None)


# SPEC X8
def test_a_cancel_by_force_gives_up_what_is_open():
    """Steps under way when a run ends without its body are cancelled; those that had ended stay as they are."""
    story = [STARTED, [call("a"), call("b")], StepSucceeded(300, "a", 1, Raw(b"1"))]
    view = view_of(*story, [CancelRequested(400, "m", "now", force=True), RunCancelled("now")])
    assert {step.key: step.status for step in view.steps.values()} == {"a": "succeeded", "b": "cancelled"}
    assert (view.status, view.cancel_reason, view.finished_at) == ("cancelled", "now", 400)


# SPEC R1
@pytest.mark.parametrize(
    ("end", "status", "output", "error"),
    [
        (RunCompleted(Raw(b"null")), "completed", Raw(b"null"), None),
        (RunFailed(BOOM, ("a",)), "failed", None, BOOM),
        (RunCancelled("enough"), "cancelled", None, None),
        (RunCancelled("enough", BOOM), "cancelled", None, BOOM),
    ],
)
def test_a_run_ends_as_its_body_did(end, status, output, error):
    """The last event says status, output and error; nothing is waited for any more."""
    view = view_of(STARTED, SleepStarted(1, 900), end)
    assert (view.status, view.output, view.error, view.waiting_on) == (status, output, error, "")
    assert view.is_ended
    assert view.finished_at == 300


# SPEC R1
@pytest.mark.parametrize(
    ("story", "text"),
    [
        ([call("a"), call("b")], "step a"),
        ([call("a"), call("b"), StepSucceeded(300, "a", 1, Raw(b"1"))], "step b"),
        ([call("a"), SleepStarted(1, 900)], "step a"),
        ([SleepStarted(1, 86_400_000_000), SleepStarted(2, 61_500_000)], "sleep until 1970-01-01T00:01:01.500000Z"),
        ([SleepStarted(1, 900), TimerFired(900, 1, 900)], "timer"),
        ([MilestoneReached("m")], "timer"),
        ([RunSuspended(300, "BODY_SPINS", "it spins", "stack")], "BODY_SPINS"),
        ([RunSuspended(300, "FUNCTION_NOT_FOUND", "nobody knows it", "shop.charge")], "FUNCTION_NOT_FOUND shop.charge"),
    ],
)
def test_a_run_says_what_it_waits_for(story, text):
    """A step before a sleep, the earliest sleep before a plain timer; a suspended run, its code."""
    assert view_of(STARTED, *story).waiting_on == text


# SPEC R1
def test_a_resumed_run_is_running_again():
    """Suspended until it is resumed; and a cancel moves it as well."""
    story = [STARTED, call("a"), RunSuspended(300, "BODY_SPINS", "it spins")]
    assert (view_of(*story).status, view_of(*story).waiting_on) == ("suspended", "BODY_SPINS")
    for door in (RunResumed(400, "m", "BODY_SPINS"), CancelRequested(400, "m", "enough")):
        view = view_of(*story, door)
        assert (view.status, view.suspension, view.waiting_on) == ("running", None, "step a")


# SPEC L8
def test_takeovers_count_until_there_is_progress():
    """What a step or timer brought sets the count back; a command does not."""
    story = [STARTED, RunTakenOver(200, "w2", 3), call("a")]
    assert view_of(*story).recoveries == 3
    assert view_of(*story, StepSucceeded(300, "a", 1, Raw(b"1"))).recoveries == 0


def test_state_and_milestones_ride_along():
    """The latest value of each key; every milestone with its time."""
    view = view_of(
        STARTED, [StateSet("phase", Raw(b"1")), StateSet("phase", Raw(b"2")), MilestoneReached("paid")], call("a")
    )
    assert view.state == {"phase": Raw(b"2")}
    assert view.milestones == [("paid", 200)]


FAILED = [
    STARTED,
    [call("a"), call("b"), call("c")],  # events 1 to 3
    StepSucceeded(300, "a", 1, Raw(b"1")),  # 4
    StepFailed(400, "b", 1, BOOM, retry_at=450),  # 5
    AttemptStarted(450, "b", 2),  # 6
    StepFailed(500, "b", 2, BOOM),  # 7, the cut
    StepStarted("handler", "shop.handler", Raw(b"[]")),  # 8
    StepSucceeded(600, "c", 1, Raw(b"3")),  # 9
    StepSucceeded(700, "handler", 1, Raw(b"4")),  # 10
    [MilestoneReached("sorry"), RunFailed(BOOM, ("b",))],  # 11, 12
]
RETRIED = [*FAILED, RunReopened(1100, "retry", 7)]


# SPEC R10
def test_a_retried_run_goes_on_before_its_failure():
    """What lies behind the cut is not current: no handler, milestone or error; what succeeded stays; the failed step
    waits, with its attempts counted on."""
    view = view_of(*RETRIED)
    assert (view.status, view.error, view.finished_at, view.failed_steps) == ("queued", None, None, ())
    assert {step.key: (step.status, step.attempts) for step in view.steps.values()} == {
        "a": ("succeeded", 1),
        "b": ("pending", 2),
        "c": ("succeeded", 1),
    }
    assert view.steps["c"].value == Raw(b"3")
    assert (view.milestones, view.seq, view.began_at) == ([], 13, 200)


# SPEC R10
def test_a_kept_success_shows_again_when_the_body_asks_for_it():
    """A success from behind the cut comes back with its value, attempts and times once the body reaches it."""
    story = [
        *RETRIED,
        AttemptStarted(1200, "b", 3),
        StepFailed(1300, "b", 3, BOOM),
        StepReused("handler", "shop.handler", Raw(b"[]")),
    ]
    view = view_of(*story)
    assert (view.status, view.steps["b"].status, view.steps["b"].attempts) == ("running", "failed", 3)
    handler = view.steps["handler"]
    assert (handler.status, handler.value, handler.attempts, handler.ended_at) == ("succeeded", Raw(b"4"), 1, 700)


# SPEC S2
def test_attempts_of_a_new_budget_begin_above_the_old():
    """A step that a retry dropped and the body calls again is pending until an attempt of a new number is on record."""
    story = [STARTED, call("a"), StepSucceeded(300, "a", 1, Raw(b"1")), [call("b"), RunFailed(BOOM)]]
    story.append(RunReopened(500, "retry", 3))
    assert "b" not in view_of(*story).steps
    assert view_of(*story, call("b")).steps["b"].status == "pending"
    assert view_of(*story, call("b", attempt=2)).steps["b"].status == "started"


@given(seed=seeds)
def test_the_picture_is_the_same_however_the_journal_is_cut(seed):
    """Event by event or as a whole, from one entry or many: one journal, one picture."""
    pages = random_journal(seed)
    folding = Fold()
    for page, events in pages:
        for event in events:
            folding.apply(event, page.at)
    assert folding.picture() == fold(pages)
    assert folding.view.seq == sum(len(events) for _, events in pages) - 1


# SPEC R1
@given(seed=seeds)
def test_every_change_of_status_is_one_of_the_table(seed):
    """No journal shows a way from one status to another that the table does not have; a claim writes no event."""
    folding, before = Fold(), None
    for page, events in random_journal(seed):
        for event in events:
            folding.apply(event, page.at)
            status = folding.picture().status
            assert status is not None
            claimed = RunStatus.RUNNING if before is RunStatus.QUEUED and status is not before else before
            assert claimed is None or is_legal(claimed, status), f"{before} to {status} by {event}"
            before = status


@given(seed=seeds)
def test_what_people_see_open_is_what_the_engine_has_open(seed):
    """The picture and the engine's own book agree, over retries too: which steps, at which attempt, until when."""
    pages = random_journal(seed)
    events = [event for _, entry in pages for event in entry]
    last = max((number for number, event in enumerate(events) if isinstance(event, RunReopened)), default=0)
    book = OpenSteps()
    book.note_highest(events[:last])
    waits = OpenWaits()
    for event in splice(events):
        waits.apply(event)
        book.apply(event)
    view = fold(pages)
    if not view.is_ended:
        seen = {step.key: (step.attempts, step.retry_at) for step in view.steps.values() if step.is_open}
        assert seen == {key: (step.attempt, step.retry_at) for key, step in book.items()}
        begun = {step.key for step in view.steps.values() if step.status == "started"}
        assert begun == {key for key, step in book.items() if step.is_begun}
        assert list(view.waits) == list(waits)


@given(seed=seeds)
def test_time_does_not_run_backwards(seed):
    """Whatever the clocks of the writers say, each event is at least as late as the one before."""
    folding, before = Fold(), 0
    for page, events in random_journal(seed):
        for event in events:
            folding.apply(event, page.at - 20)
            assert folding.view.at >= before
            before = folding.view.at


def test_a_journal_that_makes_no_sense_has_a_picture_all_the_same():
    """A fold refuses nothing: outcomes of steps nobody called change nothing."""
    strange = [
        StepSucceeded(1, "x", 1, Raw(b"1")),
        StepFailed(2, "x", 1, NO),
        StepLost(3, "x", 1),
        StepCancelled("x"),
        AttemptStarted(4, "x", 2),
        StepReused("y", "f", Raw(b"[]")),
        TimerFired(5, 9, 5),
    ]
    view = fold(journal(*strange))
    assert list(view.steps) == ["y"]
    assert view.seq == 6


# SPEC R1
def test_a_gate_with_no_step_beside_it_suspends_the_run():
    """A signal does not, a sleep beside it changes nothing, a step does; when the gate opens the run is running."""
    paid = WaitStarted("paid", WaitKind.SIGNAL, "paid")
    look = WaitStarted("look", WaitKind.GATE, "look", 4, 900)
    for events, status, waiting_on in [
        ([paid], "running", "signal paid"),
        ([paid, look], "suspended", "gate look"),
        ([look, SleepStarted(1, 5)], "suspended", "gate look"),
        ([look, call("a")], "running", "step a"),
        ([look, call("a"), StepSucceeded(150, "a", 1, Raw(b"1"))], "suspended", "gate look"),
        ([paid, look, GateOpened(150, "m", "look")], "running", "signal paid"),
        ([look, TimerFired(900, 4, 900)], "running", "timer"),
        ([look, WaitCancelled("look")], "running", "timer"),
        ([look, RunSuspended(1, "BODY_SPINS", "why")], "suspended", "BODY_SPINS"),
        ([look, RunCompleted(Raw(b"1"))], "completed", ""),
    ]:
        view = view_of(STARTED, events)
        assert (view.status, view.waiting_on) == (status, waiting_on), events


def test_open_waits_are_shown_until_they_end():
    """With their deadlines and policies; an accepted decision ends an approval, a refused one does not."""
    ask = WaitStarted("ship?", WaitKind.APPROVAL, "ship?", 4, 900, Raw(b'{"scope":"ship"}'), 150)
    (wait,) = view_of(STARTED, [ask, DecisionJudged("m", "ship?", Judgement.FORBIDDEN, "no")]).waits.values()
    assert (wait.opened_at, wait.deadline, bytes(wait.policy)) == (150, 900, b'{"scope":"ship"}')
    assert view_of(STARTED, [ask, DecisionJudged("m", "ship?", Judgement.ACCEPTED)]).waits == {}
