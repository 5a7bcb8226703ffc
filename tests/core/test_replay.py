"""Replays: the same journal gives the same commands, and a difference shows both sides."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from outlast.core.attempts import OpenSteps
from outlast.core.events import (
    AttemptStarted,
    ErrorRecord,
    RunCompleted,
    RunFailed,
    RunReopened,
    RunResumed,
    RunSuspended,
    SignalReceived,
    StepFailed,
    StepReused,
    StepStarted,
    TimerFired,
)
from outlast.core.machine import Machine
from outlast.core.reopening import Reopening, find_cut, splice
from outlast.core.replay import Replay
from outlast.errors import NonDeterminism
from tests.core.machines import START_US, Recorder, failed, make_machine, replay, step, succeeded


async def sequence(machine: Machine) -> bytes:
    for name in ("a", "b", "c"):
        await step(machine, name, 1)
    return b"1"


async def fan_out(machine: Machine) -> bytes:
    await asyncio.gather(step(machine, "left"), step(machine, "right"))
    await step(machine, "join")
    return b"1"


def test_every_prefix_of_a_journal_replays_to_where_it_was() -> None:  # SPEC S1
    """Cut anywhere, the body asks for exactly what was still to come."""
    whole = Recorder(sequence).feed(*(succeeded(name) for name in ("a", "b", "c"))).journal
    for length in range(1, len(whole) + 1):
        machine, beyond = replay(sequence, whole[:length])
        kept = [event for event in whole[:length] if isinstance(event, StepStarted | RunCompleted)]
        expected = [event for event in whole if isinstance(event, StepStarted | RunCompleted)]
        reached = 1 + sum(type(event).__name__ == "StepSucceeded" for event in whole[:length])
        assert kept + beyond == expected[:reached]
        machine.evict()


def test_a_replay_in_small_turns_is_the_same() -> None:
    """The host gets turns in between; the commands do not change."""
    whole = Recorder(sequence).feed(*(succeeded(name) for name in ("a", "b"))).journal
    machine = make_machine(sequence)
    feeding = Replay(machine, whole)
    turns = 1
    while feeding.advance(1):
        turns += 1
    assert turns == 3
    assert feeding.finish() == []
    assert list(machine.pending) == ["c"]


@pytest.mark.parametrize(
    ("changed", "recorded", "asked"),
    [
        (lambda m: step(m, "other"), "step 'a' = a(", "step 'other'"),
        (lambda m: step(m, "a", 2), "a([1])", "a([2])"),
        (lambda m: step(m, "a", 1, kind="closure"), "step 'a'", "closure 'a'"),
    ],
)
def test_another_function_argument_or_kind_is_a_difference(changed: Any, recorded: str, asked: str) -> None:  # SPEC S11
    """The error shows what is on record and what the code asks for."""

    async def body(machine: Machine) -> bytes:
        await changed(machine)
        return b"1"

    journal = Recorder(sequence).feed(succeeded("a")).journal
    with pytest.raises(NonDeterminism) as caught:
        replay(body, journal)
    assert recorded in str(caught.value)
    assert asked in str(caught.value)


def test_a_body_that_ends_early_is_a_difference() -> None:  # SPEC S11
    """The journal goes on where the body does not."""

    async def body(machine: Machine) -> bytes:
        await step(machine, "a", 1)
        return b"1"

    journal = Recorder(sequence).feed(succeeded("a")).journal
    with pytest.raises(NonDeterminism, match=r"step 'b'.*RunCompleted"):
        replay(body, journal)


def test_a_body_that_asks_for_one_step_more_in_the_middle_is_a_difference() -> None:
    """A command between two on record is found when the next one is met."""

    async def body(machine: Machine) -> bytes:
        await step(machine, "a", 1)
        await asyncio.gather(step(machine, "extra"), step(machine, "b", 1))
        return b"1"

    journal = Recorder(sequence).feed(succeeded("a")).journal
    with pytest.raises(NonDeterminism, match=r"step 'b'.*'extra'"):
        replay(body, journal)


def test_outcomes_recorded_while_suspended_are_fed_when_it_goes_on() -> None:
    """A suspended run records outcomes without moving its body: the commands come later, in the same order."""
    recorder = Recorder(fan_out)
    journal = [*recorder.journal, succeeded("left"), RunSuspended(START_US, "BODY_BLOCKED", "why"), succeeded("right")]
    _, beyond = replay(fan_out, journal)
    assert [command.key for command in beyond] == ["join"]
    journal += [RunResumed(START_US, "m1"), *beyond]
    machine, beyond = replay(fan_out, journal)
    assert beyond == []
    assert list(machine.pending) == ["join"]


def test_retry_goes_on_from_the_failed_step() -> None:  # SPEC R10
    """What succeeded stays; the failed step is open again, and its attempts are numbered on."""
    journal = Recorder(sequence).feed(succeeded("a"), failed("b")).journal
    assert isinstance(journal[-1], RunFailed)
    cut = find_cut(journal)
    journal.append(RunReopened(START_US, "retry", cut))
    spliced = splice(journal)
    machine, beyond = replay(sequence, spliced)
    assert beyond == []
    assert list(machine.pending) == ["b"]
    steps = OpenSteps()
    steps.note_highest(journal)
    for event in spliced:
        steps.apply(event)
    assert list(steps) == ["b"]
    assert (steps["b"].attempt, steps["b"].base, steps["b"].used, steps["b"].is_begun) == (1, 1, 0, False)


def test_a_second_retry_keeps_what_the_first_one_had_kept() -> None:  # SPEC R10
    """The run failed again before its body had come to that: what had succeeded, and what was sent, is still there."""

    async def body(machine: Machine) -> bytes:
        results = await asyncio.gather(step(machine, "bad"), step(machine, "slow"), return_exceptions=True)
        if isinstance(results[0], Exception):
            raise results[0]
        await step(machine, "after")
        return b"1"

    journal = Recorder(body).feed(failed("bad"), succeeded("slow", 5)).journal
    failure = journal[-1]
    assert isinstance(failure, RunFailed)
    cut = find_cut(journal)
    signal = SignalReceived(START_US, "s1", "paid", msgspec.Raw(b"7"), START_US)
    journal[-1:] = [signal, failure, RunReopened(START_US, "retry", cut), failure, RunReopened(START_US, "retry", cut)]
    spliced = splice(journal)
    (reopening,) = [event for event in spliced if isinstance(event, Reopening)]
    assert ([*reopening.facts], reopening.mail) == (["slow"], (signal,))
    machine, beyond = replay(body, spliced)
    assert (list(machine.pending), beyond) == (["bad"], [])
    (command,) = machine.feed(succeeded("bad", 1))
    assert isinstance(command, StepStarted)
    assert command.key == "after"
    machine.evict()


def test_retry_keeps_successes_that_came_after_the_failure() -> None:  # SPEC R10
    """A sibling that succeeded behind the cut answers at once instead of running again."""

    async def body(machine: Machine) -> bytes:
        results = await asyncio.gather(step(machine, "bad"), step(machine, "slow"), return_exceptions=True)
        await step(machine, "after")
        if isinstance(results[0], Exception):
            raise results[0]
        return b"1"

    recorder = Recorder(body).feed(failed("bad"), succeeded("slow", 5), succeeded("after", 6))
    journal = recorder.journal
    assert isinstance(journal[-1], RunFailed)
    journal.append(RunReopened(START_US, "retry", find_cut(journal)))
    machine, beyond = replay(body, splice(journal))
    assert list(machine.pending) == ["bad"]
    assert beyond == []
    event = StepFailed(START_US, "bad", 2, ErrorRecord("StepError", "again"))
    commands = machine.feed(succeeded("bad", 1))
    assert [type(command) for command in commands] == [StepReused, RunCompleted]
    journal += [AttemptStarted(START_US, "bad", 2), succeeded("bad", 1), *commands]
    again, beyond = replay(body, splice(journal))
    assert beyond == []
    assert isinstance(again.outcome, RunCompleted)
    assert event.attempt == 2


def test_what_a_retry_does_not_do_again_is_undone_all_the_same() -> None:  # SPEC R10, X1
    """The first time the body kept what that step had done, so that the run could fail without undoing it."""
    keeps = True

    async def body(machine: Machine) -> bytes:
        results = await asyncio.gather(step(machine, "bad"), return_exceptions=True)
        await step(machine, "buy", undo="sell")
        if keeps:
            machine.keep("buy")
        if isinstance(results[0], Exception):
            raise results[0]
        await step(machine, "after")
        return b"1"

    journal = Recorder(body).feed(failed("bad"), succeeded("buy", 6)).journal
    assert isinstance(journal[-1], RunFailed)
    journal.append(RunReopened(START_US, "retry", find_cut(journal)))
    machine, _ = replay(body, splice(journal))
    keeps = False
    reused, asked = machine.feed(succeeded("bad", 1))
    assert reused == StepReused("buy", "buy", msgspec.Raw(b"[]"), "step", "bad", "sell")
    assert isinstance(asked, StepStarted)
    assert machine.undoables.keys_of("buy") == ["buy"]
    machine.evict()


def test_a_retry_finds_each_success_by_its_call() -> None:  # SPEC R10, S7
    """In whatever order the body comes to them; equal calls have each their own, and one more is a new one."""
    numbers = [1, 2, 1]

    async def body(machine: Machine) -> bytes:
        results = await asyncio.gather(step(machine, "bad"), return_exceptions=True)
        for number in numbers:
            await step(machine, "s", number)
        if isinstance(results[0], Exception):
            raise results[0]
        return b"1"

    journal = Recorder(body).feed(failed("bad"), *(succeeded(key) for key in ("s", "s#1", "s#2"))).journal
    journal.append(RunReopened(START_US, "retry", find_cut(journal)))
    numbers[:] = [2, 1, 1, 1, 3]
    machine, _ = replay(body, splice(journal))
    mended = succeeded("bad", 1)
    journal.append(mended)
    commands = machine.feed(mended)
    asked = [(type(each), each.key) for each in commands if isinstance(each, StepReused | StepStarted)]
    assert asked == [(StepReused, "s#1"), (StepReused, "s"), (StepReused, "s#2"), (StepStarted, "s#3")]
    assert machine.keep("s#1")
    machine.evict()
    again, beyond = replay(body, [*splice(journal), *commands])
    assert ([*again.pending], beyond) == (["s#3"], [])
    again.evict()


def test_a_default_that_was_changed_makes_no_other_call() -> None:  # SPEC R10, S11
    """What the body gives itself is what it calls with: a success of that is found, in whatever order."""
    numbers, default = [1, 2], "old"

    async def body(machine: Machine) -> bytes:
        results = await asyncio.gather(step(machine, "bad"), return_exceptions=True)
        for number in numbers:
            await step(machine, "s", {"n": number, "default": default}, explicit="n")
        if isinstance(results[0], Exception):
            raise results[0]
        return b"1"

    journal = Recorder(body).feed(failed("bad"), succeeded("s"), succeeded("s#1")).journal
    journal.append(RunReopened(START_US, "retry", find_cut(journal)))
    numbers, default = [2, 1], "new"
    machine, _ = replay(body, splice(journal))
    commands = machine.feed(succeeded("bad", 1))
    assert [each.key for each in commands if isinstance(each, StepReused)] == ["s#1", "s"]
    assert isinstance(machine.outcome, RunCompleted)


def test_retry_of_a_body_that_failed_by_itself_asks_again_from_its_last_stimulus() -> None:  # SPEC R10
    """With the code mended it goes on; unmended it fails the same way."""
    broken = True

    async def body(machine: Machine) -> bytes:
        await step(machine, "a")
        if broken:
            raise ValueError("bug")
        await step(machine, "b")
        return b"1"

    journal = Recorder(body).feed(succeeded("a")).journal
    journal.append(RunReopened(START_US, "retry", find_cut(journal)))
    _, beyond = replay(body, splice(journal))
    assert [type(command) for command in beyond] == [RunFailed]
    broken = False
    _, beyond = replay(body, splice(journal))
    assert [command.key for command in beyond] == ["b"]


async def gives_up_then_asks(machine: Machine) -> bytes:
    slow = asyncio.ensure_future(step(machine, "slow"))
    await step(machine, "fast")
    slow.cancel()
    await step(machine, "unknown")
    return b"1"


def test_an_outcome_recorded_while_set_aside_may_be_of_a_step_the_body_gives_up() -> None:
    """A run that lacked a function has no word of what its body gave up then: the late outcome moves nothing."""
    journal = [*Recorder(gives_up_then_asks).journal, succeeded("fast"), RunSuspended(1, "FUNCTION_NOT_FOUND", "no")]
    journal += [succeeded("slow"), RunResumed(2)]
    machine, commands = replay(gives_up_then_asks, journal)
    assert [type(command).__name__ for command in commands] == ["StepStarted", "StepCancelled"]
    again, _ = replay(gives_up_then_asks, [*journal, *commands, succeeded("unknown")])
    assert isinstance(again.outcome, RunCompleted)
    assert list(machine.pending) == ["unknown"]


def test_a_timer_the_body_has_not_is_a_difference() -> None:  # SPEC S11
    """A journal in which a timer fired that this code does not set is not this code's."""
    machine = make_machine(sequence)
    machine.begin()
    with pytest.raises(NonDeterminism, match=r"timer 7.*no timer of that number"):
        machine.feed(TimerFired(START_US, 7, START_US))
