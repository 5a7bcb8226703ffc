"""How long a run that has nothing to do stays in memory (PROTOCOL F39)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from outlast import Context, Outlast
from outlast.engine.sweeper import PARK_AFTER_US, PARK_SOON_US, park_rested

app = Outlast("memory://", dev=False)  # in dev mode none would be hot


@app.workflow
async def asleep(ctx: Context, seconds: float) -> None:
    """Nothing but a timer can move it."""
    await ctx.sleep(seconds)


@pytest.fixture
async def home() -> AsyncIterator[Any]:
    async with app.worker() as worker:
        yield worker.home


async def at_rest(home: Any, workflow: Any, *args: object) -> Any:
    """A run of it, hot, that has just come to rest."""
    run = await app.start(workflow, *args)
    async with asyncio.timeout(10):
        while (hot := home.find(run.uid)) is None or not hot.is_at_rest:
            await asyncio.sleep(0.001)
    return hot


def is_parked(home: Any, hot: Any, rested_us: int) -> bool:
    """Whether a sweep parks it that has rested for so long."""
    hot.rested_at = home.clock.now_us() - rested_us
    park_rested(home)
    return home.find(hot.uid) is None


async def test_a_run_that_sleeps_for_long_is_parked_soon(home: Any) -> None:
    """A hundred thousand that fall asleep one after another must not be in memory at once; one that is about to wake
    is worth a second."""
    assert not is_parked(home, await at_rest(home, asleep, 3600), PARK_SOON_US // 2)
    assert is_parked(home, await at_rest(home, asleep, 3600), PARK_SOON_US)
    assert not is_parked(home, await at_rest(home, asleep, 30), PARK_AFTER_US // 2)
    assert is_parked(home, await at_rest(home, asleep, 30), PARK_AFTER_US)


async def test_a_run_that_replays_slowly_stays_in_proportion(home: Any) -> None:
    """A hundred times what its last load took, however long it sleeps: else a loop of short sleeps would do nothing but
    replay."""
    hot = await at_rest(home, asleep, 3600)
    hot.replay_us = PARK_AFTER_US
    assert not is_parked(home, hot, 99 * PARK_AFTER_US)
    assert is_parked(home, hot, 100 * PARK_AFTER_US)


async def test_a_run_that_is_due_is_moved_instead(home: Any) -> None:
    """Its alarm counts by another clock than the store's, which may have been set forward."""
    hot = await at_rest(home, asleep, 3600)
    home.clock.set(home.clock.now_us() + 3601 * 1_000_000)
    park_rested(home)
    assert not hot.is_at_rest
