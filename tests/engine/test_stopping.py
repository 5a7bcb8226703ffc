"""Attempts that are told to stop: given up by their body, over their time, or without a sign of life (SPEC S5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast.authoring.current import current_step
from outlast.authoring.module import Module
from outlast.core.events import StepProgressed, StepSucceeded
from tests.engine.stepping import Gate, Stepping, failures_of


@pytest.fixture
async def stepping():
    stepping = Stepping()
    yield stepping
    stepping.close()


# --- being told to stop -----------------------------------------------------------------------------------------------


async def test_an_attempt_that_was_given_up_before_it_began_runs_nothing(stepping) -> None:
    """The body changed its mind in the breath in which the entry landed. The outcome on record is that it was."""
    ran: list[int] = []

    @Module("").step(name="s")
    async def work() -> None:
        ran.append(1)

    run = stepping.run_of(work)
    stepping.start(run, "s")
    stepping.stepper.cancel(run, "s")
    stepping.stepper.begin()
    assert (ran, stepping.free_places()) == ([], 3)
    assert failures_of(run.outcomes[0]) == ("CancelledError", False)


@pytest.mark.parametrize("error", [None, OSError("the connection was cut")])
async def test_an_async_step_is_cancelled_where_it_waits_and_not_retried(stepping, caplog, error) -> None:
    """What its body gave up is no failure, whatever it raises and whatever attempts are left, nor logged as one."""
    gate, lost = Gate(), []

    @Module("").step(name="s")
    async def work() -> None:
        try:
            await gate.wait()
        finally:
            lost.append(current_step().lost)
            if error is not None:
                raise error

    run = stepping.run_of(work)
    task = stepping.begin(run, "s")
    await gate.reached.wait()
    stepping.stepper.cancel(run, "s")
    stepping.stepper.cancel(run, "s")
    await asyncio.wait([task])
    assert failures_of(run.outcomes[0]) == ("CancelledError" if error is None else "OSError", False)
    assert (lost, len(run.told), caplog.records) == ([True], 1, [])


# SPEC X8
async def test_a_thread_that_was_given_up_goes_on_and_its_success_counts(stepping) -> None:
    """Nobody can stop it, so it is told, and how it ended in the world is what goes on record."""
    gate = Gate()

    @Module("").step(name="s")
    def work() -> bool:
        gate.wait_in_thread()
        return current_step().lost

    run = stepping.run_of(work)
    task = stepping.begin(run, "s")
    await gate.reached.wait()
    stepping.stepper.cancel(run, "s")
    await asyncio.sleep(0.002)
    assert run.told == []
    gate.thread_opened.set()
    await asyncio.wait([task])
    assert bytes(run.outcomes[0].value) == b"true"


# SPEC S5
@pytest.mark.parametrize("swallows", [True, False])
async def test_an_attempt_that_takes_too_long_is_a_failed_one(stepping, swallows) -> None:
    """An async one is cancelled; a result that comes all the same comes too late."""

    @Module("").step(name="s", timeout="5ms", backoff="1ms")
    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not swallows:
                raise
        return "late"

    run = stepping.run_of(work)
    outcome = await stepping.carry_out(run, "s")
    assert failures_of(outcome) == ("StepTimeout", True)
    assert "5ms" in outcome.error.message
    assert outcome.error.cause is None


# SPEC S5
async def test_what_a_limit_led_to_is_told_as_its_cause(stepping) -> None:
    """The step failed for taking too long; what it raised on its way out belongs to that."""

    @Module("").step(name="s", timeout="5ms", retries=0)
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise OSError("the connection was cut") from None

    outcome = await stepping.carry_out(stepping.run_of(work), "s")
    assert failures_of(outcome) == ("StepTimeout", False)
    assert outcome.error.cause.type == "OSError"


# SPEC S5 S6
async def test_a_thread_that_takes_too_long_is_left_behind(stepping) -> None:
    """The step's attempt is over at once; the thread's own outcome is dropped, and its place was not kept."""
    gate = Gate()

    @Module("").step(name="s", timeout="5ms", retries=0)
    def work() -> None:
        gate.wait_in_thread()

    run = stepping.run_of(work)
    outcome = await stepping.carry_out(run, "s")
    assert failures_of(outcome) == ("StepTimeout", False)
    assert stepping.free_places() == 3
    gate.thread_opened.set()
    await asyncio.sleep(0.002)
    assert len(run.told) == 1


# --- heartbeats -------------------------------------------------------------------------------------------------------


# SPEC S5
async def test_a_step_that_gives_no_sign_of_life_is_stopped(stepping, monkeypatch) -> None:
    """After `heartbeat_timeout` without one; each sign gives it as long again."""
    signs: asyncio.Queue[None] = asyncio.Queue()
    armed: list[asyncio.TimerHandle] = []

    def call_later(delay_s, callback, *args) -> asyncio.TimerHandle:
        armed.append(asyncio.TimerHandle(delay_s, callback, args, stepping.home.loop))
        return armed[-1]

    @Module("").step(name="s", heartbeat_timeout="30s", retries=0)
    async def work() -> None:
        while True:
            await signs.get()
            current_step().heartbeat()
            signs.task_done()

    monkeypatch.setattr(stepping.home.loop, "call_later", call_later)
    run = stepping.run_of(work)
    task = stepping.begin(run, "s")
    for _ in range(3):
        signs.put_nowait(None)
        await signs.join()
    assert [(handle.when(), handle.cancelled()) for handle in armed] == [(30.0, True)] * 3 + [(30.0, False)]
    armed[-1]._run()
    await asyncio.wait([task])
    assert failures_of(run.outcomes[0]) == ("HeartbeatTimeout", False)


# SPEC S5
async def test_progress_is_put_on_record_once_a_second_at_most(boot, stepping) -> None:
    """A loop may say it a thousand times; the first is shown at once."""

    @Module("").step(name="s")
    async def work() -> None:
        for number in range(1000):
            current_step().heartbeat({"done": number})
            boot.advance(3_000)

    stepping.home.clock.set(1_000_000_000_000)
    run = stepping.run_of(work)
    await stepping.carry_out(run, "s")
    shown = [event for event in run.told if isinstance(event, StepProgressed)]
    assert [bytes(event.progress) for event in shown] == [b'{"done":0}', b'{"done":334}', b'{"done":668}']
    assert {(event.key, event.attempt) for event in shown} == {("s", 1)}


async def test_a_thread_may_say_how_far_it_is(stepping) -> None:
    """The loop's own thread puts it on record; what comes after the end is dropped."""
    late: list[Any] = []

    @Module("").step(name="s")
    def work() -> None:
        late.append(current_step())
        current_step().heartbeat(50)

    run = stepping.run_of(work)
    await stepping.carry_out(run, "s")
    late[0].heartbeat(100)
    await asyncio.sleep(0.002)
    assert [type(event) for event in run.told] == [StepProgressed, StepSucceeded]
