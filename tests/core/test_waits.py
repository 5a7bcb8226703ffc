"""Signals, gates and approvals inside the machine: what is delivered to whom, and what a decision leads to."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from outlast.core.events import (
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
from outlast.core.waits.book import OpenWaits
from outlast.errors import NonDeterminism
from tests.core.machines import START_US, Recorder, failed, replay, step, succeeded
from tests.core.waiting import (
    HOUR_US,
    approval,
    decided,
    encoded,
    found,
    gate,
    of,
    replay_prefixes,
    resumed,
    sent,
    ship,
    signal,
)

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


# --- replay -----------------------------------------------------------------------------------------------------------


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
            book.apply(event)
        assert list(book) == list(recorder.machine.waits.open)
        assert book.gates == len([wait for wait in book.values() if wait.kind != "signal"])
    assert book == {}


def test_a_timer_of_its_own_is_no_deadline() -> None:
    """Only the deadline of a wait ends it."""
    book = OpenWaits()
    book.apply(WaitStarted("a", "gate", "a", 3, 50))  # type: ignore[arg-type]  # as a journal has it
    assert (book.ends_with(3), book.ends_with(4)) == (True, False)
    assert book.apply(TimerFired(60, 4, 50)) is None
    ended = book.apply(TimerFired(60, 3, 50))
    assert ended is not None
    assert (ended.key, book.ends_with(3)) == ("a", False)
