"""Limits of plain steps that have to wait for a thread."""

from __future__ import annotations

import asyncio
import time

import pytest

from outlast import Context, Outlast
from outlast.errors import RunFailed, StepTimeout


# SPEC S5 S6
@pytest.mark.slow
async def test_waiting_for_a_thread_does_not_count_towards_a_timeout() -> None:
    """Ten steps of 0.1 s share one thread, and each may take 0.6 s: none times out."""
    app = Outlast("memory://")

    @app.step(name="work", retries=0, timeout="600ms")
    def work(n: int) -> int:
        time.sleep(0.1)
        return n

    @app.workflow(name="many")
    async def many(ctx: Context) -> list[int]:
        return list(await asyncio.gather(*(work(n) for n in range(10))))

    async with app.worker(threads=1):
        run = await app.start(many)
        assert await run.result(timeout=20) == list(range(10))


# SPEC S5
async def test_a_thread_that_takes_too_long_still_times_out() -> None:
    """The limit counts from when the function is entered."""
    app = Outlast("memory://")

    @app.step(name="slow", retries=0, timeout="50ms")
    def slow() -> int:
        time.sleep(0.5)
        return 1

    @app.workflow(name="one")
    async def one(ctx: Context) -> int:
        return await slow()

    async with app.worker(threads=1, grace=0):
        with pytest.raises(RunFailed) as caught:
            await (await app.start(one)).result(timeout=20)
        assert isinstance(caught.value.error, StepTimeout)


async def test_a_keyboard_interrupt_raised_in_a_thread_is_the_steps_failure() -> None:
    """No Ctrl-C arrives in a thread: the worker goes on."""
    app = Outlast("memory://")

    @app.step(name="odd", retries=0)
    def odd() -> int:
        raise KeyboardInterrupt

    @app.workflow(name="odd_one")
    async def odd_one(ctx: Context) -> int:
        return await odd()

    async with app.worker():
        with pytest.raises(RunFailed, match="KeyboardInterrupt"):
            await (await app.start(odd_one)).result(timeout=20)
