"""Approvals inside the machine: who may decide, in time, once."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from outlast.core.events import CancelRequested, DecisionJudged, RunCancelled, RunCompleted, StepCancelled, WaitStarted
from outlast.core.lineage.rounds import GoesOn
from outlast.core.machine import Machine
from outlast.core.waits.approval import Approvers, Policy, write_policy
from tests.core.machines import START_US, Recorder, ScriptedCall, make_machine, replay, step, succeeded
from tests.core.waiting import HOUR_US, approval, decided, encoded, found, of, replay_prefixes, ship


def verdicts(recorder: Recorder) -> list[tuple[str, str, str]]:
    return [(event.message, event.key, event.verdict) for event in of(recorder, DecisionJudged)]


def test_the_first_accepted_decision_wins() -> None:  # SPEC W4
    """A later one is told how it was settled, and by whom."""

    async def body(machine: Machine) -> bytes:
        first = await approval(machine, "ship?")
        await step(machine, "after")
        return encoded(first)

    recorder = Recorder(body).feed(decided("ship?", 1, "bob", "d1"), decided("ship?", 2, "eve", "d2"))
    assert verdicts(recorder) == [("d1", "ship?", "accepted"), ("d2", "ship?", "resolved")]
    assert of(recorder, DecisionJudged)[1].reason == "1, decided by bob"
    recorder.feed(succeeded("after"))
    assert found(recorder) == [1, "bob"]
    replay_prefixes(body, recorder)


@pytest.mark.parametrize(
    ("approvers", "user", "verdict"),
    [
        (Approvers.ANY, "", "accepted"),
        (Approvers.ANY, "ada", "accepted"),
        (Approvers.OWNER, "ada", "accepted"),
        (Approvers.OWNER, "bob", "forbidden"),
        (Approvers.OWNER, "", "forbidden"),
        (Approvers.NOT_INITIATOR, "bob", "accepted"),
        (Approvers.NOT_INITIATOR, "ada", "forbidden"),
        (Approvers.NOT_INITIATOR, "", "forbidden"),
    ],
)
def test_who_may_decide(approvers: Approvers, user: str, verdict: str) -> None:  # SPEC W4
    """Anybody; who started the run; or who is signed in and did not start it. A refusal leaves the gate closed."""

    async def body(machine: Machine) -> bytes:
        return encoded(await approval(machine, "ship?", approvers=approvers))

    recorder = Recorder(body, user="ada").feed(decided("ship?", 1, user))
    assert verdicts(recorder) == [("d1", "ship?", verdict)]
    assert ("ship?" in recorder.machine.waits.open) == (verdict == "forbidden")
    replay_prefixes(body, recorder)


def test_a_run_that_nobody_started_has_no_owner() -> None:  # SPEC W4
    """Nobody may decide for an owner that is not known."""

    async def body(machine: Machine) -> bytes:
        return encoded(await approval(machine, "ship?", approvers=Approvers.OWNER))

    recorder = Recorder(body).feed(decided("ship?", 1, "bob"), decided("ship?", 1, "", "d2"))
    assert [verdict for _, _, verdict in verdicts(recorder)] == ["forbidden", "forbidden"]


def test_the_scope_must_be_held_as_well() -> None:  # SPEC W4
    """Without it the decision is forbidden, and says which scope is missing."""

    async def body(machine: Machine) -> bytes:
        return encoded(await approval(machine, "ship?", scope="ship"))

    recorder = Recorder(body).feed(decided("ship?", 1, "bob", "d1", START_US, "bill"))
    assert "'ship'" in of(recorder, DecisionJudged)[0].reason
    recorder.feed(decided("ship?", 1, "bob", "d2", START_US, "bill", "ship"))
    assert found(recorder) == [1, "bob"]


def test_an_ill_formed_decision_leaves_the_gate_closed() -> None:  # SPEC W4
    """Its reason is on record, and the next one counts."""
    recorder = Recorder(ship).feed(decided("ship?", "yes", "bob", "d1"), decided("ship?", 2, "eve", "d2"))
    assert verdicts(recorder) == [("d1", "ship?", "invalid"), ("d2", "ship?", "accepted")]
    assert found(recorder) == [2, "eve"]
    replay_prefixes(ship, recorder)


@pytest.mark.parametrize("name", ["ship?", "May this parcel leave?"])
def test_a_decision_may_come_before_the_gate(name: str) -> None:  # SPEC W4
    """It is judged when the approval opens, by its key or its text; one of two wins; the next approval is not meant."""

    async def body(machine: Machine) -> bytes:
        await step(machine, "before")
        first = await approval(machine, "ship?", text="May this parcel leave?")
        return encoded([first, await approval(machine, "ship?", text="May this parcel leave?")])

    recorder = Recorder(body).feed(
        decided(name, "ill", "bob", "d1"), decided(name, 1, "bob", "d2"), decided(name, 2, "eve", "d3")
    )
    assert verdicts(recorder) == []
    recorder.feed(succeeded("before"))
    assert verdicts(recorder) == [
        ("d1", "ship?", "invalid"),
        ("d2", "ship?", "accepted"),
        ("d3", "ship?", "resolved"),
    ]
    assert "ship?#1" in recorder.machine.waits.open
    recorder.feed(decided("ship?#1", 3, "kim", "d4"))
    assert found(recorder) == [[1, "bob"], [3, "kim"]]
    replay_prefixes(body, recorder)


def test_expiry_is_decided_from_the_recorded_deadline() -> None:  # SPEC W4
    """A decision that the store took before the deadline wins, however late it is read; one after it does not."""
    deadline = START_US + HOUR_US
    late = decided("ship?", 1, "bob", "d1", deadline)
    in_time = msgspec.structs.replace(decided("ship?", 2, "eve", "d2", deadline + 5), sent_at=deadline - 1)
    recorder = Recorder(ship).feed(late, in_time)
    assert verdicts(recorder) == [("d1", "ship?", "expired"), ("d2", "ship?", "accepted")]
    assert found(recorder) == [2, "eve"]
    expired = Recorder(ship).feed("timer")
    assert found(expired) == "late"
    replay_prefixes(ship, expired)


def test_what_is_over_is_resolved() -> None:  # SPEC W4
    """Expired or given up, a decision is told so."""

    async def body(machine: Machine) -> bytes:
        await approval(machine, "a", expires_us=HOUR_US)
        try:
            async with asyncio.timeout(60):
                await approval(machine, "b")
        except TimeoutError:
            await step(machine, "after")
        return b"1"

    recorder = Recorder(body).feed("timer", "timer", decided("a", 1, "bob", "d1"), decided("b", 1, "bob", "d2"))
    assert [event.reason for event in of(recorder, DecisionJudged)] == [
        "it expired",
        "the run does not wait for it any more",
    ]
    replay_prefixes(body, recorder)


def test_the_recorded_deadline_and_policy_hold_whatever_the_code_says() -> None:  # SPEC W4, S11
    """A deploy that gives more time or lets others decide changes nothing for an approval that is open already."""

    async def changed(machine: Machine) -> bytes:
        return encoded(await approval(machine, "ship?", expires_us=9 * HOUR_US, approvers=Approvers.OWNER))

    recorder = Recorder(ship)
    machine, _ = replay(changed, recorder.journal)
    timer = machine.next_timer()
    assert timer is not None
    assert timer.due_us == START_US + HOUR_US
    (judged, end) = machine.feed(decided("ship?", 1, "bob"))
    assert isinstance(judged, DecisionJudged)
    assert (judged.verdict, type(end)) == ("accepted", RunCompleted)


def test_a_policy_without_settings_costs_nothing() -> None:
    """A journal's event says only what is not as usual."""
    assert bytes(write_policy(Policy())) == b"{}"
    machine = make_machine(ship)
    (started,) = machine.begin()
    assert isinstance(started, WaitStarted)
    assert bytes(started.policy) == b"{}"


async def _settled_before(machine: Machine) -> str:
    await approval(machine, "ship?")
    await step(machine, "last")
    return "done"


def test_a_decision_that_was_heard_while_the_run_was_set_aside_is_judged_before_the_end() -> None:
    """The body's end came of what is on record before the decision; nothing stands behind an end."""

    async def body(machine: Machine) -> bytes:
        return encoded(await _settled_before(machine))

    recorder = Recorder(body).feed(decided("ship?", 1, "bob", "d1"))
    aside = [*recorder.journal, succeeded("last"), decided("ship?", 2, "eve", "d2")]
    machine, owed = replay(body, aside)
    assert [type(event) for event in owed] == [DecisionJudged, RunCompleted]
    machine.evict()
    again, beyond = replay(body, [*aside, *owed])
    assert beyond == []
    again.evict()


@pytest.mark.parametrize("is_forced", [False, True])
def test_a_cancel_that_was_heard_while_the_run_was_set_aside_ends_a_run_that_would_go_on(is_forced: bool) -> None:
    """The next round is not on record, so that there is none: the run ends as cancelled, once."""

    async def body(machine: Machine) -> bytes:
        await _settled_before(machine)
        raise GoesOn(b"null", "v1")

    recorder = Recorder(body).feed(decided("ship?", 1, "bob", "d1"))
    cancel = CancelRequested(START_US, "c1", "enough", is_forced)
    aside = [*recorder.journal, succeeded("last"), decided("ship?", 2, "eve", "d2"), cancel]
    machine, owed = replay(body, aside)
    assert [type(event) for event in owed] == [DecisionJudged, RunCancelled]
    assert machine.goes_on is None
    machine.evict()
    again, beyond = replay(body, [*aside, *owed])
    assert beyond == []
    again.evict()


def test_a_forced_cancel_that_was_heard_while_the_run_was_set_aside_takes_its_end_back() -> None:
    """What was done is to be undone now, and what was given up is waited for first: nothing comes in answer yet."""

    async def body(machine: Machine) -> bytes:
        beside = asyncio.create_task(step(machine, "beside"))
        booking = ScriptedCall("book", [])
        booking.undo = "unbook"
        await machine.call_step(booking).future
        beside.cancel()
        return b"1"

    recorder = Recorder(body)
    cancel = CancelRequested(START_US, "c1", "enough", force=True)
    machine, owed = replay(body, [*recorder.journal, succeeded("book"), cancel])
    assert [type(event) for event in owed] == [StepCancelled]
    assert machine.is_settling
    machine.evict()
