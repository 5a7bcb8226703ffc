"""The machine: stimuli in, commands out."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from outlast.core.events import (
    CancelRequested,
    ErrorRecord,
    MilestoneReached,
    PatchApplied,
    RunCancelled,
    RunCompleted,
    RunFailed,
    SleepCancelled,
    SleepStarted,
    StateSet,
    StepCancelled,
    StepSettled,
    StepStarted,
)
from outlast.core.lineage.rounds import GoesOn
from outlast.core.machine import Machine
from outlast.errors import NonDeterminism
from tests.core.machines import START_US, Recorder, failed, make_machine, output_of, replay, step, succeeded


async def charge_then_ship(machine: Machine) -> bytes:
    receipt = await step(machine, "charge", 3)
    parcel = await step(machine, "ship", receipt)
    return f'"{parcel}"'.encode()


async def three_at_once(machine: Machine) -> bytes:
    values = await asyncio.gather(*(step(machine, "pack", item) for item in range(3)))
    return repr(values).encode()


def test_each_outcome_moves_the_body_to_its_next_step() -> None:
    """Feeding a step's outcome gives the next step's start, and the last gives the run's end."""
    machine = make_machine(charge_then_ship)
    (first,) = machine.begin()
    assert isinstance(first, StepStarted)
    assert (first.key, bytes(first.arguments), first.after) == ("charge", b"[3]", None)
    (second,) = machine.feed(succeeded("charge", "r-1"))
    assert isinstance(second, StepStarted)
    assert (second.key, bytes(second.arguments), second.after) == ("ship", b'["r-1"]', "charge")
    (end,) = machine.feed(succeeded("ship", "p-1"))
    assert output_of(end) == b'"p-1"'
    assert machine.outcome is end


def test_keys_count_the_uses_of_a_name() -> None:  # SPEC S8
    """The first use of a name is the bare name, later ones are numbered, whatever order they finish in."""
    recorder = Recorder(three_at_once)
    assert recorder.keys == ["pack", "pack#1", "pack#2"]
    recorder.feed(succeeded("pack#2", 2), succeeded("pack", 0), succeeded("pack#1", 1))
    assert output_of(recorder.journal[-1]) == b"[0, 1, 2]"


def test_a_failed_step_raises_in_the_body_and_names_itself_in_the_runs_failure() -> None:
    """The run's failure says which step's failure it came from: what a retry starts anew."""
    recorder = Recorder(charge_then_ship).feed(failed("charge", "declined"))
    end = recorder.journal[-1]
    assert isinstance(end, RunFailed)
    assert end.steps == ("charge",)
    assert end.error.message == "declined"


def test_a_group_of_failures_names_every_step_in_it() -> None:
    """Failures inside an exception group, and causes of an error, are found."""

    async def body(machine: Machine) -> bytes:
        outcomes = await asyncio.gather(step(machine, "a"), step(machine, "b"), return_exceptions=True)
        raise ExceptionGroup("both", [error for error in outcomes if isinstance(error, Exception)])

    end = Recorder(body).feed(failed("b"), failed("a")).journal[-1]
    assert isinstance(end, RunFailed)
    assert end.steps == ("a", "b")


def test_a_failing_task_group_gives_up_its_other_steps() -> None:  # SPEC P2
    """Siblings of a failing branch end as cancelled; one that had succeeded stays succeeded."""

    async def body(machine: Machine) -> bytes:
        async with asyncio.TaskGroup() as group:
            for name in ("a", "b", "c"):
                group.create_task(step(machine, name))
        return b"1"

    recorder = Recorder(body).feed(succeeded("a", 1), failed("b"))
    given_up = [event.key for event in recorder.journal if isinstance(event, StepCancelled)]
    assert given_up == ["c"]
    assert isinstance(recorder.journal[-1], RunFailed)
    assert recorder.machine.pending == {}


def test_the_outcome_is_decided_when_the_root_ends_and_the_run_ends_when_its_tasks_have() -> None:  # SPEC P5
    """A task left behind is cancelled, and its clean-up step still runs before the run ends."""

    async def body(machine: Machine) -> bytes:
        async def background() -> None:
            try:
                await step(machine, "endless")
            finally:
                await step(machine, "clean_up")

        kept = asyncio.create_task(background())
        await step(machine, "main")
        assert not kept.done()
        return b'"done"'

    recorder = Recorder(body).feed(succeeded("main"))
    assert recorder.keys == ["main", "endless", "clean_up"]
    assert recorder.machine.outcome is None
    recorder.feed(succeeded("clean_up"))
    assert isinstance(recorder.journal[-1], RunCompleted)
    assert output_of(recorder.journal[-1]) == b'"done"'


def test_timers_fire_by_ordinal_and_move_time() -> None:  # SPEC W1
    """A sleep writes what people look at; an asyncio timeout writes nothing until it fires."""

    async def body(machine: Machine) -> bytes:
        await machine.start_sleep(START_US + 5_000_000)
        try:
            async with asyncio.timeout(2):
                await step(machine, "slow")
        except TimeoutError:
            pass
        return str(machine.loop.now_us - START_US).encode()

    recorder = Recorder(body)
    assert [type(event) for event in recorder.journal[1:]] == [SleepStarted]
    recorder.feed("timer")
    assert recorder.keys == ["slow"]
    recorder.feed("timer")
    assert isinstance(recorder.journal[-2], StepCancelled)
    assert output_of(recorder.journal[-1]) == b"7000000"


def test_a_sleep_that_is_given_up_says_so_and_wakes_nobody() -> None:
    """Of two waits the earlier wins: the other is on record as cancelled, and its timer does not fire."""

    async def body(machine: Machine) -> bytes:
        _, others = await asyncio.wait(
            [asyncio.create_task(_sleep(machine, seconds)) for seconds in (3600, 1)], return_when="FIRST_COMPLETED"
        )
        for other in others:
            other.cancel()
        await asyncio.wait(others)
        await step(machine, "after")
        return b"1"

    recorder = Recorder(body).feed("timer")
    started = [event for event in recorder.journal if isinstance(event, SleepStarted)]
    (cancelled,) = [event for event in recorder.journal if isinstance(event, SleepCancelled)]
    assert cancelled.timer == started[0].timer
    assert recorder.machine.next_timer() is None
    _, beyond = replay(body, recorder.journal)
    assert beyond == []


async def _sleep(machine: Machine, seconds: int) -> None:
    await machine.start_sleep(START_US + seconds * 1_000_000)


def test_marks_and_state_ride_in_the_entry_at_hand() -> None:
    """A milestone and a state change are commands beside the step's."""

    async def body(machine: Machine) -> bytes:
        machine.set_state("phase", b'"packing"')
        machine.reach_milestone("packed")
        await step(machine, "ship")
        return b"1"

    recorder = Recorder(body)
    assert [type(event) for event in recorder.journal[1:]] == [StateSet, MilestoneReached, StepStarted]


def test_a_cancel_is_delivered_once_and_clean_up_may_run_steps() -> None:  # SPEC X1 X8
    """The body gets CancelledError at its await; a second cancel adds its reason and interrupts nothing."""

    async def body(machine: Machine) -> bytes:
        try:
            await step(machine, "work")
        finally:
            await step(machine, "release")
        return b"1"

    recorder = Recorder(body).feed(CancelRequested(START_US, "m1", "changed my mind"))
    assert recorder.keys == ["work", "release"]
    recorder.feed(CancelRequested(START_US, "m2", "really"), succeeded("release"))
    assert recorder.journal[-1] == RunCancelled("changed my mind; really")


def test_a_body_that_swallows_the_cancel_still_ends_cancelled() -> None:  # SPEC X8
    """Returning after a cancel does not undo it; `uncancel` does."""

    async def swallow(machine: Machine, *, undo: bool) -> bytes:
        try:
            await step(machine, "work")
        except asyncio.CancelledError:
            if undo:
                task = asyncio.current_task()
                assert task is not None
                task.uncancel()
        return b'"output"'

    cancel = CancelRequested(START_US, "m1", "stop")
    assert isinstance(Recorder(lambda m: swallow(m, undo=False)).feed(cancel).journal[-1], RunCancelled)
    assert isinstance(Recorder(lambda m: swallow(m, undo=True)).feed(cancel).journal[-1], RunCompleted)


def test_a_forced_cancel_does_not_ask_the_body() -> None:  # SPEC X8
    """`force=True` ends the run at once."""
    recorder = Recorder(charge_then_ship).feed(CancelRequested(START_US, "m1", "now", force=True))
    assert recorder.journal[-1] == RunCancelled("now")


def test_randomness_and_ids_come_from_the_seed() -> None:
    """Two machines of one run draw the same numbers and ids."""

    async def body(machine: Machine) -> bytes:
        return f'"{machine.random.random()} {machine.uuid()} {machine.uuid()}"'.encode()

    outputs = {output_of(make_machine(body).begin()[-1]) for _ in range(2)}
    assert len(outputs) == 1


def test_a_body_that_waits_for_nothing_is_stuck() -> None:  # SPEC P6
    """No step, no timer, not done: nothing can ever move it."""

    async def body(machine: Machine) -> bytes:
        await asyncio.Event().wait()
        return b"1"

    recorder = Recorder(body)
    assert recorder.machine.is_stuck
    assert "wait" in recorder.machine.loop.task_stacks()
    recorder.machine.evict()


def test_an_outcome_the_body_does_not_wait_for_is_a_difference() -> None:  # SPEC S11
    """Both sides are shown: what came, and what the body waits for."""
    machine = make_machine(charge_then_ship)
    machine.begin()
    with pytest.raises(NonDeterminism, match=r"outcome of step 'ship'.*waits for charge"):
        machine.feed(succeeded("ship"))


def test_patched_is_yes_for_new_runs_and_no_for_old_ones() -> None:
    """A run that first gets there with the new code takes the new path, for ever; one that was past it does not."""

    async def old(machine: Machine) -> bytes:
        await step(machine, "old_way")
        await step(machine, "last")
        return b"1"

    async def new(machine: Machine) -> bytes:
        await step(machine, "new_way" if machine.patched("better") else "old_way")
        await step(machine, "last")
        return b"1"

    before = Recorder(old).feed(succeeded("old_way"))
    _, beyond = replay(new, before.journal)
    assert beyond == []
    after = Recorder(new)
    assert after.journal[1] == PatchApplied("better")
    assert after.keys == ["new_way"]
    machine, beyond = replay(new, after.journal)
    assert beyond == []
    assert list(machine.pending) == ["new_way"]


def test_time_never_runs_backwards() -> None:
    """A stimulus stamped earlier than the one before it leaves the body's time where it was."""

    async def body(machine: Machine) -> bytes:
        await step(machine, "a")
        first = machine.loop.now_us
        await step(machine, "b")
        return str(machine.loop.now_us - first).encode()

    later = START_US + int(timedelta(seconds=9).total_seconds()) * 1_000_000
    recorder = Recorder(body).feed(succeeded("a", at=later), succeeded("b", at=START_US))
    assert output_of(recorder.journal[-1]) == b"0"


def test_a_generator_left_open_may_clean_up_with_a_step() -> None:  # SPEC P5
    """The run ends when the clean-up of its open generators has, steps included."""

    async def numbers(machine: Machine) -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await step(machine, "close")

    async def body(machine: Machine) -> bytes:
        async for _ in numbers(machine):
            break
        await step(machine, "work")
        return b"1"

    recorder = Recorder(body).feed(succeeded("work"))
    assert recorder.keys == ["work", "close"]
    assert recorder.machine.outcome is None
    recorder.feed(succeeded("close"))
    assert isinstance(recorder.journal[-1], RunCompleted)


def test_a_task_that_wishes_to_exit_fails_the_run() -> None:
    """SystemExit in any task of a body is the run's failure, and not the worker's end."""

    async def body(machine: Machine) -> bytes:
        async def leave() -> None:
            raise SystemExit(3)

        kept = asyncio.create_task(leave())
        await step(machine, "work")
        await kept
        return b"1"

    end = Recorder(body).journal[-1]
    assert isinstance(end, RunFailed)
    assert end.error.type == "SystemExit"


def test_evicting_asks_for_nothing() -> None:  # SPEC P7
    """State set and marks left in a `finally` at eviction are no commands."""

    async def body(machine: Machine) -> bytes:
        try:
            await step(machine, "work")
        finally:
            machine.set_state("phase", b'"over"')
            machine.reach_milestone("over")
        return b"1"

    recorder = Recorder(body)
    assert recorder.machine.evict() == 0
    assert recorder.machine._commands == []


def test_a_body_that_goes_on_as_a_next_round_is_no_garbage() -> None:
    """What ends it has a traceback, which leads back to its machine; a run without end needs no collector for that."""

    class Kept:
        pass

    async def body(machine: Machine) -> bytes:
        kept = Kept()
        await step(machine, "last")
        try:
            raise GoesOn(b"null", "v1")
        finally:
            del machine
            refs.append(weakref.ref(kept))

    refs: list[weakref.ref[Kept]] = []
    gc.collect()
    gc.disable()
    try:
        recorder = Recorder(body).feed(succeeded("last"))
        goes_on = recorder.machine.goes_on
        assert goes_on is not None
        assert (goes_on.input, goes_on.version, goes_on.__traceback__) == (b"null", "v1", None)
        assert refs[0]() is None
        recorder.machine.evict()
    finally:
        gc.enable()


def test_a_cancel_that_waits_for_a_child_reaches_a_body_that_gives_the_child_up() -> None:
    """The end of such a child is told as that of a step that was given up: it counts as well."""

    async def body(machine: Machine) -> bytes:
        child = asyncio.create_task(step(machine, "child", kind="child"))
        await step(machine, "first")
        child.cancel()
        await asyncio.Event().wait()
        return b"1"

    recorder = Recorder(body).feed(CancelRequested(START_US, "c1", "enough"), succeeded("first"))
    assert not recorder.machine.is_stuck
    recorder.feed(StepSettled(START_US, "child", 1, error=ErrorRecord("RunCancelled", "enough")))
    assert isinstance(recorder.journal[-1], RunCancelled)
    machine, beyond = replay(body, recorder.journal)
    assert beyond == []
    machine.evict()
    recorder.machine.evict()
