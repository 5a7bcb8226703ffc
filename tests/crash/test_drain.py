"""Workers that are told to stop: what they hold is handed back at once (SPEC Q4)."""

from __future__ import annotations

import signal
import time

import pytest

from outlast.core.events import RunTakenOver, StepLost
from tests.crash.world import World, until

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]

AGES = 1e6
"""Seconds. Nobody waits for such a lease to lapse."""


async def test_a_worker_told_to_stop_hands_back_at_once(world: World) -> None:
    """Running steps are let go on and recorded; sleeping and waiting runs are there for others without any delay."""
    async with world.client() as app:
        starts = [("waiting", [0.3], "w"), ("parked", [0.5], "p"), ("chain", [30], "c"), ("retrying", [3], "r")]
        leaving = await world.spawn_ready(starts=starts, lease=AGES)
        run = await app.get_run("w")
        await until(lambda: world.marks(run.uid), "the step is running")
        leaving.send(signal.SIGTERM)
        assert await leaving.gone(4.0) == 0
        rows = await world.rows(app)
        assert [row.owner for row in rows.values()] == [None] * 4
        assert await app.workers() == []
        assert len(world.marks(run.uid, "after")) == 1, "its step was given the time it needed"
        await world.check(app, are_parked=True)
        await world.spawn_ready(lease=AGES)
        await world.all_ended(app)
        await world.check(app)
        assert await world.count(app, StepLost) == await world.count(app, RunTakenOver) == 0


async def test_a_second_signal_does_not_wait_for_steps(world: World) -> None:
    """Told to stop twice, a worker stops its steps, hands their runs back, and is gone; others begin the next attempt
    at once, and no recovery is counted."""
    async with world.client() as app:
        leaving = await world.spawn_ready(starts=[("waiting", [3600.0], "w")], lease=AGES, grace=3600.0)
        run = await app.get_run("w")
        await until(lambda: world.marks(run.uid), "the step is running")
        leaving.send(signal.SIGTERM)
        await until(lambda: leaving.pid in world.told("stopping"), "the first signal")
        assert leaving.status is None
        leaving.send(signal.SIGTERM)
        assert await leaving.gone(4.0) == 0
        row = await app._store.find_run("w")
        assert row is not None
        assert (row.owner, row.recoveries) == (None, 0)
        heir = await world.spawn_ready(lease=AGES)
        await until(lambda: len(world.marks(run.uid)) == 2, "the next attempt", 3.0)
        assert [(mark.attempt, mark.pid) for mark in world.marks(run.uid)] == [(1, leaving.pid), (2, heir.pid)]
        await run.cancel("seen enough")
        await until(lambda: len(world.marks(run.uid, "failed")) == 2, "the cancel reaches the step")
        await world.all_ended(app)
        await world.check(app)


async def test_a_worker_killed_while_it_waits_for_its_steps(world: World) -> None:
    """A worker that dies while it drains is as dead as any other."""
    async with world.client() as app:
        leaving = await world.spawn_ready(starts=[("waiting", [1.0], "w"), ("chain", [10], "c")], lease=1.0)
        run = await app.get_run("w")
        await until(lambda: world.marks(run.uid), "the step is running")
        leaving.send(signal.SIGTERM)
        await until(lambda: leaving.pid in world.told("stopping"), "the signal")
        await leaving.killed()
        began = time.monotonic()
        await world.spawn_ready(lease=AGES)
        await world.all_ended(app)
        assert time.monotonic() - began < 1.0 + 1.0 + 6.0
        await world.check(app)
