"""Workers that are told to stop: what they hold is handed back at once (SPEC Q4)."""

from __future__ import annotations

import signal
import statistics
import time

import pytest

from outlast.core.events import RunTakenOver, StepLost
from tests.crash.flows import QUEUE
from tests.crash.world import World, until

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]

AGES = 1e6
"""Seconds. Nobody waits for such a lease to lapse."""
FLOOR_S = 20.0
"""How often workers look here that are told of nothing: however slow the machine is, it is told from that what comes at
once."""
AT_ONCE_S = FLOOR_S / 2


async def test_a_worker_told_to_stop_hands_back_at_once(world: World) -> None:
    """Running steps are let go on and recorded; sleeping and waiting runs are there for others without any delay."""
    async with world.client() as app:
        starts = [("waiting", [0.3], "w"), ("parked", [0.5], "p"), ("chain", [30], "c"), ("retrying", [3], "r")]
        leaving = await world.spawn_ready(starts=starts, lease=AGES, grace=AGES)
        run = await app.get_run("w")
        await until(lambda: world.marks(run.uid), "the step is running")
        leaving.send(signal.SIGTERM)
        assert await leaving.gone() == 0
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
        assert await leaving.gone() == 0
        row = await app._store.find_run("w")
        assert row is not None
        assert (row.owner, row.recoveries) == (None, 0)
        heir = await world.spawn_ready(lease=AGES)
        await until(lambda: len(world.marks(run.uid)) == 2, "the next attempt")
        assert [(mark.attempt, mark.pid) for mark in world.marks(run.uid)] == [(1, leaving.pid), (2, heir.pid)]
        await run.cancel("seen enough")
        await until(lambda: len(world.marks(run.uid, "failed")) == 2, "the cancel reaches the step")
        await world.all_ended(app)
        await world.check(app)


async def test_a_worker_killed_while_it_waits_for_its_steps(world: World) -> None:
    """A worker that dies while it drains is as dead as any other."""
    starts = [("waiting", [7200.0], "w"), ("chain", [10], "c")]
    async with world.client() as app:
        leaving = await world.spawn_ready(starts=starts, lease=1.0, grace=AGES)
        run = await app.get_run("w")
        await until(lambda: world.marks(run.uid), "the step is running")
        leaving.send(signal.SIGTERM)
        await until(lambda: leaving.pid in world.told("stopping"), "the signal")
        await leaving.killed()
        killed_at = time.time()
        await world.spawn_ready(lease=AGES)
        await world.all_ended(app)
        (taken_over,) = await world.events(app, RunTakenOver, "w")
        assert taken_over.at / 1e6 - killed_at < 1.0 + 6.0
        await world.check(app)


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
async def test_others_go_on_at_once_with_what_a_worker_hands_back(world: World) -> None:
    """A run is handed back when its own step has ended, whatever else its worker waits for, and a worker with room is
    told: its next step begins there at once."""
    ids = [f"c{number}" for number in range(8)]
    async with world.client() as app:
        starts = [("waiting", [3600.0], "w"), *(("chain", [5000], id) for id in ids)]
        leaving = await world.spawn_ready(starts=starts, lease=AGES, grace=3600.0)
        runs = [await app.get_run(id) for id in ids]
        heir = await world.spawn_ready(lease=AGES, floor_s=FLOOR_S)
        await until(lambda: all(world.marks(run.uid) for run in runs), "steps of all of them")
        leaving.send(signal.SIGTERM)
        for run in runs:
            await until(lambda run=run: any(mark.pid == heir.pid for mark in world.marks(run.uid)), "a step elsewhere")
        assert leaving.status is None, "it waits for the step that goes on"
        gaps = []
        for run in runs:
            left = max(mark.at for mark in world.marks(run.uid, "after") if mark.pid == leaving.pid)
            gaps.append(min(mark.at for mark in world.marks(run.uid) if mark.pid == heir.pid) - left)
        assert statistics.median(gaps) / 1e9 < AT_ONCE_S
        leaving.send(signal.SIGTERM)
        assert await leaving.gone() == 0
        for id in ("w", *ids):
            await world.cancel(app, id)
        await world.all_ended(app)
        await world.check(app)


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
async def test_others_begin_at_once_what_a_worker_of_a_queue_gives_up(world: World) -> None:
    """Queued steps that took longer than the worker had time for begin elsewhere as soon as it has stopped them, also
    where others have been quicker before."""
    ids = [f"q{number}" for number in range(8)]
    async with world.client() as app:
        leaving = await world.spawn_ready(queues=(QUEUE,), lease=AGES, grace=0.2)
        await world.spawn_ready(queues=("default",), lease=AGES, starts=[("by_queue", [3600.0], id) for id in ids])
        runs = [await app.get_run(id) for id in ids]
        await until(lambda: all(world.marks(run.uid) for run in runs), "all steps")
        heir = await world.spawn_ready(queues=(QUEUE,), lease=AGES, floor_s=FLOOR_S)
        leaving.send(signal.SIGTERM)
        for run in runs:
            await until(lambda run=run: len(world.marks(run.uid)) == 2, "the next attempt")
        gaps = []
        for run in runs:
            (_, second), (stopped,) = world.marks(run.uid), world.marks(run.uid, "failed")
            assert (second.pid, second.attempt) == (heir.pid, 2)
            gaps.append(second.at - stopped.at)
        assert statistics.median(gaps) / 1e9 < AT_ONCE_S
        for id in ids:
            await world.cancel(app, id)
        await world.all_ended(app)
        await world.check(app)


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
async def test_a_worker_asked_from_outside_drains_and_ends(world: World) -> None:
    """As one that was sent a signal: its steps are let go on and recorded, the rest is there for others at once, no
    recovery is counted, and its process ends with 0."""
    async with world.client() as app:
        starts = [("waiting", [0.3], "w"), ("parked", [0.5], "p"), ("chain", [30], "c")]
        leaving = await world.spawn_ready(starts=starts, lease=3.0)
        run = await app.get_run("w")
        await until(lambda: world.marks(run.uid), "the step is running")
        (worker,) = await app.workers()
        await app.drain(worker.id)
        assert await leaving.gone(10.0) == 0
        assert [row.owner for row in (await world.rows(app)).values()] == [None] * 3
        assert await app.workers() == []
        await world.spawn_ready(lease=AGES)
        await world.all_ended(app)
        await world.check(app)
        assert await world.count(app, StepLost) == await world.count(app, RunTakenOver) == 0


async def test_a_worker_killed_after_it_was_asked_to_drain(world: World) -> None:
    """It is as dead as any other: others take over when its lease lapses, whether it had heard or not."""
    async with world.client() as app:
        leaving = await world.spawn_ready(starts=[("waiting", [1.0], "w"), ("chain", [10], "c")], lease=1.0)
        run = await app.get_run("w")
        await until(lambda: world.marks(run.uid), "the step is running")
        (worker,) = await app.workers()
        await app.drain(worker.id)
        await leaving.killed()
        began = time.monotonic()
        await world.spawn_ready(lease=AGES)
        await world.all_ended(app)
        assert time.monotonic() - began < 1.0 + 1.0 + 6.0
        await world.check(app)
