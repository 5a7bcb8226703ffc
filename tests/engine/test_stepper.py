"""Attempts of steps: user code runs under the lease, and ends in one outcome (SPEC S2, S3, S4, S12)."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
from datetime import timedelta
from typing import Any

import pytest

from outlast.authoring.current import current_step
from outlast.authoring.module import Module
from outlast.core.events import StepFailed, StepSucceeded
from outlast.engine.attempts.stepper import Attempt
from outlast.errors import NonRetryable
from tests.engine.stepping import Gate, Stepping, failures_of


@pytest.fixture
async def stepping():
    stepping = Stepping()
    yield stepping
    stepping.close()


# --- ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_attempt_ends_in_one_outcome_and_gives_its_place_back(stepping, is_async) -> None:
    """With the time it began, its number, and its result as JSON; also one that runs in a thread."""

    def plain() -> list[int]:
        return [1, 2]

    async def awaited() -> list[int]:
        return [1, 2]

    run = stepping.run_of(Module("").step(name="s")(awaited if is_async else plain))
    outcome = await stepping.carry_out(run, "s", 4)
    assert isinstance(outcome, StepSucceeded)
    assert (outcome.key, outcome.attempt, bytes(outcome.value)) == ("s", 4, b"[1,2]")
    assert 0 < outcome.began_at <= outcome.at
    assert (stepping.free_places(), stepping.stepper.executing, run.running) == (3, 0, set())


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit(3), asyncio.CancelledError(), GeneratorExit(), BaseException("odd")]
)
async def test_whatever_a_step_raises_is_its_outcome(stepping, error, is_async) -> None:
    """Also what would end a process or a coroutine: the worker and the other steps go on."""

    def plain() -> None:
        raise error

    async def awaited() -> None:
        raise error

    run = stepping.run_of(Module("").step(name="s", retries=0)(awaited if is_async else plain))
    assert failures_of(await stepping.carry_out(run, "s")) == (type(error).__name__, False)
    assert stepping.free_places() == 3


# SPEC S12
async def test_a_result_that_json_cannot_carry_fails_the_step(stepping) -> None:
    """As NotEncodable, like an error the step raised itself."""

    @Module("").step(name="s", retries=0)
    async def make() -> Any:
        return object()

    run = stepping.run_of(make)
    assert failures_of(await stepping.carry_out(run, "s")) == ("NotEncodable", False)


async def test_a_keyboard_interrupt_is_the_processs(stepping) -> None:
    """No outcome is made of it: the person at the keyboard means the process."""

    @Module("").step(name="s")
    async def interrupt() -> None:
        raise KeyboardInterrupt

    run = stepping.run_of(interrupt)
    assert stepping.stepper.reserve()
    lane = asyncio.create_task(asyncio.sleep(0))
    with pytest.raises(KeyboardInterrupt):
        stepping.stepper._execute(Attempt(stepping.stepper, run, run.pending["s"], 1), lane).send(None)
    assert (run.told, stepping.free_places()) == ([], 3)


async def test_an_attempt_that_is_closed_has_no_outcome(stepping) -> None:
    """Its event loop is gone, and it is collected: it gives its place back, and nothing is said for the step."""

    @Module("").step(name="s")
    async def wait() -> None:
        await asyncio.Event().wait()

    run = stepping.run_of(wait)
    assert stepping.stepper.reserve()
    lane = asyncio.create_task(asyncio.sleep(0))
    execution = stepping.stepper._execute(Attempt(stepping.stepper, run, run.pending["s"], 1), lane)
    execution.send(None)
    execution.close()
    assert (run.told, stepping.free_places()) == ([], 3)


async def test_a_closure_may_give_a_coroutine(stepping) -> None:
    """`ctx.do("fetch", lambda: client.get(url))`: it is called in a thread, and what it gives is awaited."""

    async def fetch() -> str:
        return "page"

    async def body(ctx: Any) -> None:
        await ctx.do("fetch", lambda: fetch())

    run = stepping.run_of(Module("").step(name="other")(fetch))
    run.player.close()
    run.player = type(run.player)(Module("").workflow(name="closing")(body))
    run.player.begin()
    outcome = await stepping.carry_out(run, "fetch")
    assert bytes(outcome.value) == b'"page"'


async def test_what_is_over_is_no_garbage(stepping) -> None:
    """A worker makes thousands of attempts a second: none may need a collector to go away."""

    @Module("").step(name="s")
    async def work() -> None:
        current_step()

    run = stepping.run_of(work, times=20)
    gc.collect()
    gc.disable()
    try:
        before = _count_attempts()
        for key in list(run.pending):
            await stepping.carry_out(run, key)
        assert _count_attempts() == before
    finally:
        gc.enable()


def _count_attempts() -> int:
    return sum(isinstance(found, Attempt) for found in gc.get_objects())


# --- the lease --------------------------------------------------------------------------------------------------------


# PROTOCOL F6
async def test_user_code_is_not_entered_without_the_lease(stepping) -> None:
    """Between the commit and the attempt a process may freeze: somebody else may run this step by now."""
    ran: list[int] = []

    @Module("").step(name="s")
    async def work() -> None:
        ran.append(1)

    run = stepping.run_of(work)
    stepping.home.is_leased = False
    stepping.start(run, "s")
    stepping.stepper.begin()
    assert (ran, run.told, stepping.home.leases_lost, stepping.free_places()) == ([], [], 1, 3)


# SPEC L4
async def test_the_outcome_of_a_lost_run_is_dropped_with_a_warning(stepping, caplog) -> None:
    """It carries run, step, attempt and trace, and never becomes a failure of the run."""
    gate = Gate()

    @Module("").step(name="s")
    async def work() -> None:
        await gate.wait()

    run = stepping.run_of(work)
    task = stepping.begin(run, "s", 2)
    await gate.reached.wait()
    assert stepping.stepper.stop_all("lost") == [task]
    await asyncio.wait([task])
    assert run.told == []
    (warning,) = caplog.records
    assert (warning.run, warning.step, warning.attempt, warning.trace) == ("run-1", "s", 2, "00-ab-cd-01")
    assert (warning.levelno, stepping.free_places()) == (logging.WARNING, 3)


# --- retries ----------------------------------------------------------------------------------------------------------


# SPEC S3
async def test_a_failure_says_when_the_next_attempt_is_due(stepping) -> None:
    """By the step's own backoff, from the moment it failed; the last one says that none follows."""

    @Module("").step(name="s", retries=2, backoff="40ms")
    async def fail() -> None:
        raise ValueError

    run = stepping.run_of(fail)
    outcomes = [await stepping.carry_out(run, "s", number) for number in (1, 2, 3)]
    delays = [None if each.retry_at is None else each.retry_at - each.at for each in outcomes]
    assert delays == [40_000, 40_000, None]


# SPEC S4
async def test_an_error_may_end_the_retries_or_say_when_to_come_back(stepping) -> None:
    """NonRetryable is final whatever attempts are left, `retry_after` is heeded."""
    errors: list[Exception] = [NonRetryable("never"), ValueError("later")]
    errors[1].retry_after = timedelta(seconds=7)  # type: ignore[attr-defined]

    @Module("").step(name="s", backoff="1ms")
    async def fail() -> None:
        raise errors.pop(0)

    run = stepping.run_of(fail)
    assert failures_of(await stepping.carry_out(run, "s")) == ("NonRetryable", False)
    later = await stepping.carry_out(run, "s", 2)
    assert isinstance(later, StepFailed)
    assert later.retry_at is not None
    assert later.retry_at - later.at >= 7_000_000


async def test_an_authors_backoff_that_fails_fails_the_step(stepping) -> None:
    """With what is wrong with it: there is no time to wait for, and the bug must be seen."""

    @Module("").step(name="s", backoff=lambda _attempt: 1 / 0)
    async def fail() -> None:
        raise ValueError("no")

    run = stepping.run_of(fail)
    outcome = await stepping.carry_out(run, "s")
    assert failures_of(outcome) == ("InvalidDefinition", False)
    assert "backoff= failed with ZeroDivisionError" in outcome.error.message


# --- where a step runs ------------------------------------------------------------------------------------------------


async def test_each_attempt_runs_in_its_own_copy_of_the_bodys_context(stepping) -> None:
    """It sees what the body set before the call, and what it sets itself, no other attempt sees."""
    user = contextvars.ContextVar("user", default="nobody")
    seen: list[str] = []

    @Module("").step(name="s", retries=5)
    async def work() -> None:
        seen.append(user.get())
        user.set("eve")

    async def as_ada() -> None:
        user.set("ada")
        await work()

    run = stepping.run_of(as_ada)
    await stepping.carry_out(run, "s", 1)
    await stepping.carry_out(run, "s", 2)
    assert (seen, user.get()) == (["ada", "ada"], "nobody")


# SPEC S6
async def test_an_executor_that_nobody_gave_fails_the_step(stepping) -> None:
    """The message names the ones there are: none."""

    @Module("").step(name="s", executor="gpus", retries=0)
    async def work() -> None: ...

    outcome = await stepping.carry_out(stepping.run_of(work), "s")
    assert failures_of(outcome) == ("InvalidSetting", False)
    assert "one of: none" in outcome.error.message


# SPEC S6
async def test_the_step_that_holds_the_event_loop_is_named(stepping) -> None:
    """For the warning about a blocked loop; nothing is named while none is current."""
    named: list[str] = []

    @Module("").step(name="s")
    async def work() -> None:
        named.append(stepping.stepper.describe())

    await stepping.carry_out(stepping.run_of(work), "s")
    assert named == ["step 's' of run uid-1"]
    assert stepping.stepper.describe() == "no step"
