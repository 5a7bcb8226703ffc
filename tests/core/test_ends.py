"""How a run ends that is told to stop, or goes on, while something else happens to its body."""

from __future__ import annotations

import asyncio

import pytest

from outlast.core.events import (
    CancelRequested,
    ErrorRecord,
    RunCancelled,
    RunCompleted,
    RunFailed,
    StepSettled,
    WaitCancelled,
    WaitStarted,
)
from outlast.core.lineage.rounds import GoesOn
from outlast.core.machine import Machine
from tests.core.machines import START_US, Recorder, failed, make_machine, step, succeeded
from tests.core.waiting import gate


def test_a_process_without_memory_is_no_failure_of_the_run() -> None:  # SPEC P6
    """It gets out: whoever takes the run over may have more. Nothing of the run's end is decided."""

    async def body(machine: Machine) -> bytes:
        await step(machine, "big")
        raise MemoryError

    machine = make_machine(body)
    machine.begin()
    with pytest.raises(MemoryError):
        machine.feed(succeeded("big"))
    assert machine.outcome is None
    machine.evict()


def test_a_cancelled_body_that_would_go_on_as_a_next_round_is_cancelled() -> None:  # SPEC X8
    """No next round begins of a run that was told to stop."""

    async def body(machine: Machine) -> bytes:
        try:
            await step(machine, "long")
        finally:
            raise GoesOn(b"1", "v1")

    recorder = Recorder(body).feed(CancelRequested(START_US, "c1", "enough"))
    assert recorder.journal[-1] == RunCancelled("enough")
    assert recorder.machine.goes_on is None
    recorder.machine.evict()


def test_a_failure_beside_the_next_round_is_a_failure() -> None:
    """Where one task of a group says that the run goes on and another fails, it has failed."""

    async def body(machine: Machine) -> bytes:
        raise BaseExceptionGroup("both", [GoesOn(b"1", "v1"), ValueError("no")])

    machine = make_machine(body)
    (outcome,) = machine.begin()
    assert isinstance(outcome, RunFailed)
    assert machine.goes_on is None
    machine.evict()


def test_a_forced_cancel_gives_up_what_the_body_waits_for() -> None:  # SPEC X8
    """Nobody is asked any more for what the run does not want."""

    async def body(machine: Machine) -> bytes:
        await gate(machine, "go")
        return b"1"

    recorder = Recorder(body)
    assert isinstance(recorder.journal[-1], WaitStarted)
    recorder.feed(CancelRequested(START_US, "m1", "now", force=True))
    assert recorder.journal[-2:] == [WaitCancelled("go"), RunCancelled("now")]
    recorder.machine.evict()


# SPEC X8
def test_a_cancel_waits_for_each_child_that_it_asked_to_stop() -> None:
    """One that the body gives up meanwhile counts when it has ended, and does not stand for the others."""

    async def body(machine: Machine) -> bytes:
        child = asyncio.create_task(step(machine, "child", kind="child"))
        other = asyncio.create_task(step(machine, "other", kind="child"))
        await step(machine, "first")
        child.cancel()
        await other
        return b"1"

    recorder = Recorder(body).feed(CancelRequested(START_US, "c1", "enough"), succeeded("first"))
    recorder.feed(StepSettled(START_US, "child", 1, error=ErrorRecord("RunCancelled", "enough")))
    assert recorder.machine.outcome is None
    recorder.feed(failed("other", "cancelled"))
    assert isinstance(recorder.journal[-1], RunCancelled)
    recorder.machine.evict()


def test_a_cancel_behind_the_end_of_a_body_changes_nothing() -> None:
    """Its clean-up goes on, and it ends as it was to end."""

    async def body(machine: Machine) -> bytes:
        async def tidy() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await step(machine, "tidy")

        task = asyncio.create_task(tidy())
        await asyncio.sleep(0)
        assert not task.done()
        return b"1"

    recorder = Recorder(body).feed(CancelRequested(START_US, "c1", "too late"), succeeded("tidy"))
    assert isinstance(recorder.journal[-1], RunCompleted)


def test_what_is_kept_before_it_succeeds_is_not_undone() -> None:
    """`keep` is of the step, however it stands."""

    async def body(machine: Machine) -> bytes:
        bought = asyncio.create_task(step(machine, "buy", undo="sell"))
        await asyncio.sleep(0)
        assert machine.keep("buy")
        await bought
        raise ValueError("for another reason")

    recorder = Recorder(body).feed(succeeded("buy"))
    assert isinstance(recorder.journal[-1], RunFailed)
