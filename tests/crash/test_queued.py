"""Processes that die, freeze or leave with a queued step in hand (SPEC L6, Q4)."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from outlast.app import Outlast
from outlast.core.events import RunTakenOver, StepLost
from tests.crash.flows import QUEUE
from tests.crash.world import Proc, World, until

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]

AGES = 1e6
"""Seconds. Nobody waits for such a lease to lapse."""
LEASE_S = 0.6
DROPPED = "is dropped"
RUNS = ("default",)
STEPS = (QUEUE,)


async def _uid(app: Outlast, id: str = "r") -> str:
    return (await app.get_run(id)).uid


async def _finish(world: World, app: Outlast) -> None:
    await world.all_ended(app)
    await world.check(app)


async def _freeze_step_worker(world: World, point: str, workflow: str, *arguments: Any) -> Proc:
    """A worker of runs, and one of the queue that is frozen at this point, until its lease is over by every clock."""
    zombie = world.spawn(point=f"{point}:stop", queues=STEPS, lease=LEASE_S)
    await until(lambda: zombie.pid in world.told("ready"), "the worker of the queue")
    await world.spawn_ready(queues=RUNS, lease=AGES, starts=[(workflow, list(arguments), "r")])
    await zombie.frozen()
    frozen_at = time.monotonic()
    await until(lambda: time.monotonic() > frozen_at + LEASE_S, "the end of the lease")
    return zombie


# SPEC L4, L6
async def test_frozen_with_an_outcome_in_hand(world: World) -> None:
    """What a queued step came to while its worker was frozen past its lease is dropped, with one warning that says
    whose it was; the run has the outcome of the attempt that followed, under the same invocation id."""
    async with world.client() as app:
        zombie = await _freeze_step_worker(world, "task-without-outcome:1", "by_queue", 0.01)
        heir = await world.spawn_ready(queues=STEPS, lease=AGES)
        await world.all_ended(app)
        before = await (await app.get_run("r")).timeline()
        zombie.send(signal.SIGCONT)
        await until(lambda: world.warnings(zombie.pid, DROPPED), "the zombie finds out")
        (warning,) = world.warnings(zombie.pid, DROPPED)
        assert (warning["run"], warning["step"], warning["attempt"]) == ("r", "crash:slow", 1)
        assert warning["trace"]
        marks = world.marks(await _uid(app))
        assert [(mark.attempt, mark.pid) for mark in marks] == [(1, zombie.pid), (2, heir.pid)]
        assert len({mark.invocation for mark in marks}) == 1
        assert await (await app.get_run("r")).timeline() == before
        await _finish(world, app)


# SPEC S10, PROTOCOL F6
async def test_frozen_before_a_step_that_must_not_happen_twice(world: World) -> None:
    """An at-most-once step that its run has recorded as interrupted is not begun by the worker that had claimed it."""
    async with world.client() as app:
        zombie = await _freeze_step_worker(world, "task-claimed-and-not-begun:1", "guarded_by_queue", 0.01)
        heir = await world.spawn_ready(queues=STEPS, lease=AGES)
        assert await (await app.get_run("r")).result(timeout=20) == ["interrupted", "after!"]
        zombie.send(signal.SIGCONT)
        await until(lambda: world.warnings(zombie.pid, "lost its lease"), "the zombie finds out")
        await heir.killed()
        await world.start(app, "by_queue", 0.01, id="next")
        next_uid = await _uid(app, "next")
        await until(lambda: world.marks(next_uid), "the zombie works again")
        assert {mark.key for mark in world.marks(await _uid(app))} == {"crash:act"}
        await _finish(world, app)


# PROTOCOL F17
async def test_the_runs_worker_dies_while_its_step_executes(world: World) -> None:
    """Nothing happens to the step: it is executed once, and whoever takes the run over has its outcome."""
    async with world.client() as app:
        stepping = await world.spawn_ready(queues=STEPS, lease=AGES)
        owner = await world.spawn_ready(queues=RUNS, lease=1.0, starts=[("by_queue", [1.5], "r")])
        uid = await _uid(app)
        await until(lambda: world.marks(uid), "the step")
        await owner.killed()
        await world.spawn_ready(queues=RUNS, lease=AGES)
        await _finish(world, app)
        assert [(mark.attempt, mark.pid) for mark in world.marks(uid)] == [(1, stepping.pid)]
        assert await world.count(app, StepLost) == 0


# SPEC L3, L6
async def test_the_worker_of_a_step_dies(world: World) -> None:
    """Its task lapses with its worker's lease, not only with its own: the next attempt begins elsewhere in seconds."""
    async with world.client() as app:
        victim = await world.spawn_ready(queues=STEPS, lease=1.0)
        await world.spawn_ready(queues=RUNS, lease=AGES, starts=[("by_queue", [7200.0], "r")])
        uid = await _uid(app)
        await until(lambda: world.marks(uid), "the step")
        await victim.killed()
        killed_at = time.time()
        heir = await world.spawn_ready(queues=STEPS, lease=AGES)
        await world.all_ended(app)
        first, second = world.marks(uid)
        assert [(mark.attempt, mark.pid) for mark in (first, second)] == [(1, victim.pid), (2, heir.pid)]
        assert second.at / 1e9 - killed_at < 1.0 + 2.0 + 6.0
        await world.check(app)


# SPEC D2, L6
@pytest.mark.parametrize(("point", "attempt"), [("task-not-given-back", 2), ("task-given-back-and-not-told", 1)])
async def test_the_worker_dies_that_gives_a_step_back(world: World, point: str, attempt: int) -> None:
    """A step that its worker cannot read, for want of a key, was lost if it dies before the store has it back, as any
    that was claimed; once the store has it back, that worker's death costs no attempt."""
    world.is_sealed = True
    async with world.client() as app:
        victim = world.spawn(point=f"{point}:1", queues=STEPS, lease=LEASE_S, key=False)
        await world.spawn_ready(queues=RUNS, lease=AGES, starts=[("by_queue", [0.01], "r")])
        assert await victim.gone() == -signal.SIGKILL
        heir = await world.spawn_ready(queues=STEPS, lease=AGES)
        await world.all_ended(app)
        assert [(mark.attempt, mark.pid) for mark in world.marks(await _uid(app))] == [(attempt, heir.pid)]
        assert await world.count(app, StepLost) == attempt - 1
        await world.check(app)


# SPEC Q4
async def test_a_worker_told_to_stop_lets_its_queued_steps_end(world: World) -> None:
    """It claims no more, gives those it has the time they need, and reports them: no attempt is lost."""
    async with world.client() as app:
        leaving = await world.spawn_ready(queues=STEPS, lease=AGES, grace=AGES)
        await world.spawn_ready(queues=RUNS, lease=AGES, starts=[("by_queue", [0.5], "r")])
        uid = await _uid(app)
        await until(lambda: world.marks(uid), "the step")
        leaving.send(signal.SIGTERM)
        await until(lambda: leaving.pid in world.told("stopping"), "the signal")
        await world.start(app, "by_queue", 0.01, id="late")
        assert await leaving.gone() == 0
        assert await (await app.get_run("r")).result(timeout=20) == "s!"
        assert not world.marks(await _uid(app, "late"))
        await world.spawn_ready(queues=STEPS, lease=AGES)
        await _finish(world, app)
        assert await world.count(app, StepLost) == await world.count(app, RunTakenOver) == 0


# SPEC Q4
async def test_a_worker_that_cannot_wait_hands_its_queued_steps_back(world: World) -> None:
    """Told twice, it stops them and is gone; their runs hear of it at once, and others begin the next attempts."""
    async with world.client() as app:
        leaving = await world.spawn_ready(queues=STEPS, lease=AGES, grace=3600.0)
        await world.spawn_ready(queues=RUNS, lease=AGES, starts=[("by_queue", [7200.0], "r")])
        uid = await _uid(app)
        await until(lambda: world.marks(uid), "the step")
        leaving.send(signal.SIGTERM)
        await until(lambda: leaving.pid in world.told("stopping"), "the first signal")
        leaving.send(signal.SIGTERM)
        assert await leaving.gone() == 0
        heir = await world.spawn_ready(queues=STEPS, lease=AGES)
        await until(lambda: len(world.marks(uid)) == 2, "the next attempt")
        assert [(mark.attempt, mark.pid) for mark in world.marks(uid)] == [(1, leaving.pid), (2, heir.pid)]
        await _finish(world, app)
        assert await world.count(app, StepLost) == 1
