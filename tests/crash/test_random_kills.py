"""Processes killed at no chosen moment, again and again, while fifty runs go on. (On PostgreSQL: `tests/chaos`.)"""

from __future__ import annotations

import asyncio
import random
import signal
from typing import Any

import pytest

from outlast.app import Outlast
from outlast.core.events import StepLost
from tests.crash.flows import Start
from tests.crash.world import Proc, World, until

pytestmark = [pytest.mark.process]

RUNS = 50
MIX: list[Start] = [
    ("chain", [60]),
    ("fan", [16]),
    ("limited", [20]),
    ("plainly", [8]),
    ("rounds", [6]),
    ("retrying", [8]),
    ("sleepy", [0.6]),
    ("guarded", [0.5]),
    ("queued", [9]),
    ("graph", [[f"g{number}" for number in range(16)]]),
]
"""Runs long enough for several kills each."""
WORKERS = 2


def _settings(number: int) -> dict[str, Any]:
    """Workers differ: in memory, in places, and in how soon they are given up."""
    draw = random.Random(number)
    return {
        "lease": draw.choice((1.5, 2.0, 3.0)),
        "max_hot": draw.choice((0, 5, 1000, 1000)),
        "concurrency": draw.choice((2, 20, 200)),
    }


async def _find_busy(world: World, procs: list[Proc]) -> list[Proc]:
    """Those that are in the midst of a step, once there are any."""
    busy: list[Proc] = []

    def find() -> bool:
        unfinished = {mark.pid for mark in world.ledger.unfinished()}
        busy.extend(proc for proc in procs if proc.pid in unfinished)
        return bool(busy)

    await until(find, "a worker in the midst of a step")
    return busy


async def _keep_killing(world: World, app: Outlast, kills: int, seed: int, *, freezes: bool) -> None:
    """Two workers at a time; each is killed after a while, and another takes its place. Runs come in the first half.

    Every other kill is at a drawn instant. How much a worker has in hand by then is a matter of the machine: a slow one
    has hardly imported anything. So the kills between are of a worker that is in the midst of a step.
    """
    draw = random.Random(seed)
    procs: list[Proc] = []
    for number in range(kills):
        while len(procs) < WORKERS:
            procs.append(world.spawn(**_settings(seed + number)))
        for id in range(min(RUNS, number * 2 * RUNS // kills), min(RUNS, (number + 1) * 2 * RUNS // kills)):
            workflow, arguments = MIX[id % len(MIX)]
            await world.start(app, workflow, *arguments, id=f"r{id}")
        await world.start(app, "cleaning", 1e6, id=f"c{number}")
        await asyncio.sleep(draw.uniform(0.0, 0.6))
        await world.cancel(app, f"c{draw.randrange(number + 1)}")
        if freezes and draw.random() < 0.5:
            zombie = procs[draw.randrange(len(procs))]
            zombie.send(signal.SIGSTOP)
            await asyncio.sleep(draw.uniform(0.5, 4.0))
            zombie.send(signal.SIGCONT)
        if number % 2:
            await world.start(app, "waiting", 0.5, id=f"w{number}")  # all others may have ended
            victim = draw.choice(await _find_busy(world, procs))
        else:
            victim = draw.choice(procs)
        procs.remove(victim)
        assert victim.status is None, f"it ended by itself: {victim.status}\n{world.log()[-6000:]}"
        await victim.killed()
        if number % 8 == 7:
            world.clock.add(31)  # what was taken over twice without progress is due again
    for proc in procs:
        await proc.killed()


async def _run(world: World, kills: int, seed: int, *, freezes: bool = False) -> None:
    async with world.client() as app:
        await _keep_killing(world, app, kills, seed, freezes=freezes)
        for number in range(kills):
            await world.cancel(app, f"c{number}")
        assert sum(proc.status == -signal.SIGKILL for proc in world.procs) >= kills
        world.clock.add(60)
        await world.spawn_ready(lease=1e6)
        await world.all_ended(app)
        await world.check(app, once=not freezes)
        lost = await world.count(app, StepLost)
        print(f"{kills} kills, {lost} attempts lost")
        assert lost > kills // 4, "it killed workers that had nothing to do"


@pytest.mark.timeout(300)
async def test_killed_at_random(world: World) -> None:
    """Forty kills at any instant: every run ends with its result, every effect is on record, nothing is doubled."""
    seed = random.randrange(1_000_000)  # SPEC L10
    print(f"seed {seed}")
    await _run(world, 40, seed)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
@pytest.mark.parametrize("round", range(6))
async def test_killed_at_random_for_long(world: World, round: int) -> None:
    """The same, two hundred and forty times."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    await _run(world, 40, seed)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
@pytest.mark.parametrize("round", range(4))
async def test_killed_and_frozen_at_random(world: World, round: int) -> None:
    """The same, with processes that are frozen past their lease, wherever they are, and thawed beside their heirs."""
    seed = random.randrange(1_000_000)  # SPEC L4, L10
    print(f"seed {seed}")
    await _run(world, 20, seed, freezes=True)
