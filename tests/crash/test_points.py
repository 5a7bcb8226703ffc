"""A worker killed at each crash point there is, and what others make of what it left.

Each time: a worker works the usual runs and dies at the point; a minute passes; a fresh worker finds the store as it
was left, and finishes everything. What a point needs beside steps that go well is arranged before (`Point.needs`).
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from outlast.app import Outlast
from tests.crash.flows import MIX, QUEUE
from tests.crash.points import POINTS
from tests.crash.postgres_points import ON_POSTGRES
from tests.crash.world import Proc, World, until

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

STARTS = [(workflow, arguments, f"r{number}") for number, (workflow, arguments) in enumerate(MIX)]
QUEUED = next(id for workflow, _, id in STARTS if workflow == "queued")
AGES = 1e6
"""Seconds. A lease that no jump of the clock ends."""
ROUNDS = [("rounds", [3], "f"), ("hearing", [4], "s")]
FAMILY = [("family", [1], "f"), ("saga", [], "s")]
SETTINGS: dict[str, dict[str, Any]] = {
    "park": {"starts": [*STARTS, ("parked", [30.0], "p")]},
    "paranoid": {"starts": STARTS, "max_hot": 0},
    "crowd": {"starts": STARTS, "concurrency": 1},
    "family": {"starts": FAMILY},
    "rounds": {"starts": ROUNDS},
    "log": {"starts": STARTS, "small_log": True},
}
"""Of the worker, by what it needs to get there."""
LATER = {
    "child-heard-of": (2,),
    "child-reopened": (2,),
    "family-commit": (5, 9),
    "rounds-commit": (5,),
    "undoing-not-submitted": (3,),
    "parent-not-told": (4,),
    "told-and-not-acted": (2, 5),
    "effect-without-outcome": (3,),
    "committed-and-not-told": (4,),
    "in-body": (3,),
}
"""Points that are passed again and again: they are tried at these passings besides."""


async def _start_all(world: World, app: Outlast) -> None:
    for workflow, arguments, id in STARTS:
        await world.start(app, workflow, *arguments, id=id)


async def _leave_a_dead_worker(world: World, app: Outlast) -> None:
    """Runs in every state, owned by somebody who is gone."""
    await _start_all(world, app)
    dead = world.spawn(point="effect-without-outcome:4")
    assert await dead.gone() == -signal.SIGKILL
    world.clock.add(60)


async def _spawn_to_die(world: World, app: Outlast, point: str) -> Proc:
    """The worker that dies there, in a world where it gets there."""
    needs = POINTS[point.partition(":")[0]].needs
    settings: dict[str, Any] = {"point": point}
    if needs == "due":
        await _start_all(world, app)
    elif needs == "dead":
        await _leave_a_dead_worker(world, app)
    elif needs == "suspects":
        await _leave_a_dead_worker(world, app)
        for _ in range(3):
            await world.spawn(point="journal-read:1").gone()
            await world.bury(app)
    elif needs == "key":
        owner = await world.spawn_ready(queues=("default",), starts=STARTS)
        uid = (await app.get_run(QUEUED)).uid
        while not await app._store.list_tasks(uid):
            await asyncio.sleep(0.005)
        await owner.killed()
        settings |= {"queues": (QUEUE,), "key": False}
    else:
        settings |= SETTINGS.get(needs, {"starts": STARTS})
    return await _nudge(world, app, needs, settings)


async def _nudge(world: World, app: Outlast, needs: str, settings: dict[str, Any]) -> Proc:
    if needs == "cancel":
        settings["starts"] = [*STARTS, ("cleaning", [3600.0], "c")]
        settings["cancels"] = ["c"]
    elif needs == "retry":
        helper = await world.spawn_ready(starts=[("mended", ["m"], "m")])
        run = await app.get_run("m") if "m" in world.told("started") else None
        await until(lambda: "m" in world.told("started"), "a start")
        run = await app.get_run("m")
        with pytest.raises(Exception, match="not mended"):
            await run.result(timeout=20)
        helper.send(signal.SIGTERM)
        await helper.gone()
        (world.folder / "mended-m").touch()
        settings |= {"starts": STARTS, "retries": ["m"]}
    elif needs in {"fence", "term"}:
        settings["starts"] = [*STARTS, ("waiting", [0.5], "w")]
    proc = world.spawn(**settings)
    if needs == "fence":
        await until(lambda: len(world.told("started")) == len(settings["starts"]), "all starts")
        world.clock.add(60)
        await app._store.reap()
    elif needs == "term":
        await until(lambda: len(world.told("started")) == len(settings["starts"]), "all starts")
        proc.send(signal.SIGTERM)
    return proc


@pytest.mark.parametrize(
    "point", [f"{name}:{count}" for name in POINTS for count in (1, *LATER.get(name, ()))], ids=lambda point: point
)
async def test_killed_at(world: World, point: str) -> None:
    """A worker that is killed there loses nothing, doubles nothing, and stands in nobody's way."""  # SPEC L10
    world.is_sealed = POINTS[point.partition(":")[0]].needs == "key"
    async with world.client() as app:
        victim = await _spawn_to_die(world, app, point)
        assert await victim.gone() == -signal.SIGKILL, world.log()
        assert world.deaths()[-1] == point.partition(":")[0]
        await _finish(world, app)


QUICK = {
    "before-commit",
    "before-write",
    "in-transaction",
    "transaction-done",
    "committed-and-not-told",
    "claimed-and-not-told",
    "marked-dead-and-not-reaped",
    "task-completed-and-not-told",
    "sent-and-not-told",
    "mail-read",
    "parent-not-told",
    "undone-not-submitted",
    "rounds-commit",
}
"""Points at the store, which are tried on PostgreSQL too each time; the others there are for long tests."""


@pytest.mark.parametrize("backend", ["postgres"])
@pytest.mark.parametrize(
    "point",
    [
        pytest.param(f"{name}:{count}", marks=() if name in QUICK and count == 1 else pytest.mark.soak)
        for name in ON_POSTGRES
        for count in (1, *LATER.get(name, ()))
    ],
    ids=lambda point: point,
)
async def test_killed_on_postgres_at(world: World, point: str) -> None:
    """The same where the store is a server, which goes on when its client is gone."""  # SPEC L10
    await test_killed_at(world, point)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", POINTS)
async def test_killed_later_at(worlds: Callable[[], World], point: str) -> None:
    """However often it has passed there before."""  # SPEC L10
    for count in (2, 3, 5, 8, 13, 21, 34):
        world = worlds()
        world.is_sealed = POINTS[point].needs == "key"
        async with world.client() as app:
            victim = await _spawn_to_die(world, app, f"{point}:{count}")
            has_died = await _dies(world, app, victim)
            await victim.killed()
            await _finish(world, app)
        if not has_died:
            return  # it does not come by so often


async def _dies(world: World, app: Outlast, victim: Proc) -> bool:
    """Whether it dies before all its runs have ended, or are due much later."""
    deadline = time.monotonic() + 20
    while victim.status is None:
        rows = [row for row in (await world.rows(app)).values() if row.live]
        is_idle = all(row.owner is None and (row.wake_at or 0) > world.clock() + 2_000_000 for row in rows)
        if (len(world.told("started")) == len(world.started) and is_idle) or time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.05)
    return victim.status == -signal.SIGKILL


async def _finish(world: World, app: Outlast) -> None:
    """A minute later a fresh worker comes: it ends every run, as it should end."""
    world.clock.add(60)
    await world.forget_unstarted(app)
    reopens = "m" in world.started and not await _is_live(app, "m")
    # Whoever was not told asks again: the same ids are the same runs.
    starts = [(workflow, arguments, id) for id, (workflow, arguments) in world.started.items() if id in {"f", "s"}]
    heir = await world.spawn_ready(lease=AGES, starts=starts or STARTS, retries=["m"] if reopens else [])
    await world.all_ended(app)
    await world.check(app)
    await heir.killed()


async def _is_live(app: Outlast, id: str) -> bool:
    row = await app._store.find_run(id)
    return row is not None and row.live
