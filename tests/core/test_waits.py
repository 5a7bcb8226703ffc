"""Signals, gates and approvals inside the machine: what is delivered to whom, and what a decision leads to."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from outlast.core.events import (
    DecisionJudged,
    RunCompleted,
    RunFailed,
    RunReopened,
    SignalRefused,
    SignalTaken,
    TimerFired,
    WaitCancelled,
    WaitStarted,
)
from outlast.core.machine import Machine
from outlast.core.reopening import find_cut, splice
from outlast.core.waits.approval import Approvers, Policy, write_policy
from outlast.core.waits.book import OpenWaits
from outlast.errors import NonDeterminism
from tests.core.machines import START_US, Recorder, failed, make_machine, replay, step, succeeded
from tests.core.waiting import (
    HOUR_US,
    approval,
    decided,
    gate,
    replay_prefixes,
    resumed,
    sent,
    signal,
)


def found(recorder: Recorder) -> Any:
    """What the body gave."""
    end = recorder.journal[-1]
    assert isinstance(end, RunCompleted), end
    return msgspec.json.decode(end.output)


def of(recorder: Recorder, kind: type) -> list[Any]:
    return [event for event in recorder.journal if type(event) is kind]


def encoded(value: object) -> bytes:
    return msgspec.json.encode(value)


# --- signals ----------------------------------------------------------------------------------------------------------


async def two_payments(machine: Machine) -> bytes:
    return encoded([await signal(machine, "paid"), await signal(machine, "paid")])


@pytest.mark.parametrize("early", [0, 1, 2])
def test_a_signal_is_kept_until_somebody_waits(early: int) -> None:  # SPEC W3
    """Whether it comes before the wait or during it, each is delivered once, in order."""

    async def body(machine: Machine) -> bytes:
        await step(machine, "before")
        return await two_payments(machine)

    signals = [sent("paid", 1, "m1"), sent("paid", 2, "m2")]
    recorder = Recorder(body).feed(*signals[:early], succeeded("before"), *signals[early:])
    assert found(recorder) == [1, 2]
    assert [(event.key, event.message) for event in of(recorder, SignalTaken)] == [("paid", "m1"), ("paid#1", "m2")]
    replay_prefixes(body, recorder)


def test_an_ill_formed_signal_is_set_aside_and_the_wait_goes_on() -> None:  # SPEC W3
    """What does not fit is on record with the reason; the next one that fits is delivered."""

    async def body(machine: Machine) -> bytes:
        return encoded(await signal(machine, "paid"))

    recorder = Recorder(body).feed(sent("paid", "ten", "m1"))
    assert of(recorder, SignalRefused) == [SignalRefused("m1", "paid", "expected a number")]
    recorder.feed(sent("paid", 10, "m2"))
    assert found(recorder) == 10
    replay_prefixes(body, recorder)


def test_signals_go_to_waits_in_the_order_of_both() -> None:  # SPEC W3
    """The first that waits gets the first that comes; another name is another box."""

    async def body(machine: Machine) -> bytes:
        waits = [signal(machine, "a"), signal(machine, "b"), signal(machine, "a")]
        return encoded(await asyncio.gather(*waits))

    recorder = Recorder(body).feed(sent("a", 1, "m1"), sent("a", 2, "m2"), sent("b", 3, "m3"))
    assert found(recorder) == [1, 3, 2]
    replay_prefixes(body, recorder)


def test_a_wait_ends_when_its_time_is_up() -> None:  # SPEC W3
    """A signal that comes later is kept for the next wait."""

    async def body(machine: Machine) -> bytes:
        return encoded([await signal(machine, "paid", HOUR_US), await signal(machine, "paid")])

    recorder = Recorder(body)
    (wait,) = of(recorder, WaitStarted)
    assert (wait.key, wait.timer, wait.deadline) == ("paid", 1, START_US + HOUR_US)
    recorder.feed("timer", sent("paid", 2))
    assert found(recorder) == ["late", 2]
    replay_prefixes(body, recorder)


def test_a_wait_that_is_given_up_takes_no_signal() -> None:
    """What comes for it afterwards goes to the next wait."""

    async def body(machine: Machine) -> bytes:
        try:
            async with asyncio.timeout(60):
                await signal(machine, "paid")
        except TimeoutError:
            return encoded(await signal(machine, "paid"))
        raise AssertionError

    recorder = Recorder(body).feed("timer")
    assert of(recorder, WaitCancelled) == [WaitCancelled("paid")]
    recorder.feed(sent("paid", 5))
    assert found(recorder) == 5
    assert of(recorder, SignalTaken)[0].key == "paid#1"
    replay_prefixes(body, recorder)


def test_a_signal_that_comes_with_a_cancel_is_not_lost() -> None:
    """A body that is cancelled in the breath in which the signal came has not taken it: the next wait gets it."""

    async def body(machine: Machine) -> bytes:
        waiting = asyncio.create_task(signal(machine, "paid"))
        await step(machine, "tick")
        machine.waits.feed(sent("paid", 9))  # delivered, and its task is cancelled before it runs
        waiting.cancel()
        await asyncio.wait([waiting])
        return encoded(await signal(machine, "paid"))

    recorder = Recorder(body).feed(succeeded("tick"))
    assert found(recorder) == 9
    assert [event.key for event in of(recorder, SignalTaken)] == ["paid#1"]
    assert of(recorder, WaitCancelled) == [WaitCancelled("paid")]


# --- gates ------------------------------------------------------------------------------------------------------------


def test_each_occurrence_of_a_reason_is_its_own_gate() -> None:  # SPEC W2
    """A resume opens the gate it names and no other; a second one for a gate that is open already changes nothing."""

    async def body(machine: Machine) -> bytes:
        await gate(machine, "check")
        await gate(machine, "check")
        return b"1"

    recorder = Recorder(body).feed(resumed("other"), resumed("check#1"), resumed("check"), resumed("check"))
    assert [event.key for event in of(recorder, WaitStarted)] == ["check", "check#1"]
    assert recorder.machine.outcome is None
    recorder.feed(resumed("check#1"))
    assert found(recorder) == 1
    replay_prefixes(body, recorder)


def test_a_reason_with_a_number_sign_takes_no_other_gates_key() -> None:
    """People write reasons, so they may hold what keys are numbered with."""

    async def body(machine: Machine) -> bytes:
        async with asyncio.TaskGroup() as group:
            for reason in ("a", "a#1", "a", "a#1"):
                group.create_task(gate(machine, reason))
        return b"1"

    recorder = Recorder(body)
    keys = [event.key for event in of(recorder, WaitStarted)]
    assert keys == ["a", "a#1", "a#2", "a#1#1"]
    recorder.feed(*(resumed(key) for key in keys))
    assert found(recorder) == 1


def test_a_body_that_waits_for_somebody_is_not_stuck() -> None:
    """An open wait may end; a body that waits for nothing never moves again."""

    async def waiting(machine: Machine) -> bytes:
        await gate(machine, "check")
        return b"1"

    async def stuck(machine: Machine) -> bytes:
        await asyncio.get_running_loop().create_future()
        return b"1"

    assert [Recorder(body).machine.is_stuck for body in (waiting, stuck)] == [False, True]


# --- approvals --------------------------------------------------------------------------------------------------------


async def ship(machine: Machine) -> bytes:
    return encoded(await approval(machine, "ship?", expires_us=HOUR_US))


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


# --- replay -----------------------------------------------------------------------------------------------------------


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


def test_another_kind_or_name_is_a_difference() -> None:  # SPEC S11
    """The error shows what is on record and what the code asks for."""

    async def changed(machine: Machine) -> bytes:
        await gate(machine, "ship?")
        return b"1"

    with pytest.raises(NonDeterminism, match=r"approval 'ship\?'.*gate 'ship\?'"):
        replay(changed, Recorder(ship).journal)


def test_a_retry_asks_nobody_again() -> None:  # SPEC R10
    """Signals, decisions and opened gates that came behind the cut are kept: they were acknowledged."""

    async def body(machine: Machine) -> bytes:
        await step(machine, "before")
        both = await asyncio.gather(step(machine, "risky"), signal(machine, "paid"))
        await gate(machine, "look")
        who = await approval(machine, "ship?")
        await step(machine, "after")
        return encoded([both, who])

    recorder = Recorder(body).feed(
        succeeded("before"), sent("paid", 7), succeeded("risky", 1), resumed("look"), decided("ship?"), failed("after")
    )
    assert isinstance(recorder.journal[-1], RunFailed)
    for cut in (find_cut(recorder.journal), 3):  # as found; and before anything came
        journal = [*recorder.journal, RunReopened(START_US, "retry", cut)]
        machine, beyond = replay(body, splice(journal))
        assert [event.key for event in beyond if type(event) is WaitStarted and event.key == "look"] == []
        assert list(machine.pending) == ["after"]
        (end,) = machine.feed(succeeded("after"))
        assert isinstance(end, RunCompleted)
        assert msgspec.json.decode(end.output) == [[1, 7], [1, "bob"]]


# --- the book ---------------------------------------------------------------------------------------------------------


def test_the_book_says_which_waits_are_open() -> None:
    """The journal alone tells what the machine has open."""

    async def body(machine: Machine) -> bytes:
        tasks = [
            signal(machine, "paid", HOUR_US),
            gate(machine, "look"),
            approval(machine, "ship?", expires_us=HOUR_US),
        ]
        return encoded(await asyncio.gather(*tasks))

    recorder = Recorder(body)
    book = OpenWaits()
    for stimulus in (None, decided("ship?", "ill"), sent("paid", "ill"), "timer", decided("ship?", 1), resumed("look")):
        told = len(recorder.journal) if stimulus is not None else 0
        if stimulus is not None:
            recorder.feed(stimulus)
        for event in recorder.journal[told:]:
            book.apply(event, START_US)
        assert list(book) == list(recorder.machine.waits.open)
        assert book.gates == len([wait for wait in book.values() if wait.kind != "signal"])
    assert book == {}


def test_a_timer_of_its_own_is_no_deadline() -> None:
    """Only the deadline of a wait ends it."""
    book = OpenWaits()
    book.apply(WaitStarted("a", "gate", "a", 3, 50), 10)  # type: ignore[arg-type]  # as a journal has it
    assert (book.ends_with(3), book.ends_with(4)) == (True, False)
    assert book.apply(TimerFired(60, 4, 50), 60) is None
    ended = book.apply(TimerFired(60, 3, 50), 60)
    assert ended is not None
    assert (ended.key, book.ends_with(3)) == ("a", False)


def test_a_policy_without_settings_costs_nothing() -> None:
    """A journal's event says only what is not as usual."""
    assert bytes(write_policy(Policy())) == b"{}"
    machine = make_machine(ship)
    (started,) = machine.begin()
    assert isinstance(started, WaitStarted)
    assert bytes(started.policy) == b"{}"
