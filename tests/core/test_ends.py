"""How a run ends that is told to stop, or goes on, while something else happens to its body."""

from __future__ import annotations

import pytest

from outlast.core.events import CancelRequested, RunCancelled, RunFailed, WaitCancelled, WaitStarted
from outlast.core.lineage.rounds import GoesOn
from outlast.core.machine import Machine
from tests.core.machines import START_US, Recorder, make_machine, step, succeeded
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
