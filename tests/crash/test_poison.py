"""Runs that kill whoever works them, beside runs that do not (SPEC L8, PROTOCOL F33)."""

from __future__ import annotations

import asyncio
import signal

import pytest

from outlast.app import Outlast
from outlast.core.events import RunSuspended, RunTakenOver, decode_events
from outlast.core.states import RunStatus
from tests.crash.flows import MIX
from tests.crash.world import World

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

TAKEOVERS = 10


async def _die_of_it(world: World, app: Outlast) -> int:
    """One worker after another, and hours between them, until the run is set aside; how many died."""
    for deaths in range(30):
        worker = world.spawn(lease=30.0)
        while worker.status is None:
            row = await app._store.find_run("p")
            assert row is not None
            if row.status is RunStatus.SUSPENDED:
                return deaths
            await asyncio.sleep(0.01)
        assert worker.status == -signal.SIGKILL, world.log()
        await world.bury(app)
    raise AssertionError("it is never set aside")


@pytest.mark.parametrize("workflow", ["poisonous", "poisoned"])
async def test_poison_is_set_aside_and_the_innocent_go_on(world: World, workflow: str) -> None:
    """A run that has taken down every worker for ten takeovers is suspended with their names; runs that were only
    beside it end as ever."""  # SPEC L8, L9
    async with world.client() as app:
        await world.start(app, workflow, id="p")
        for number, (innocent, arguments) in enumerate(MIX):
            await world.start(app, innocent, *arguments, id=f"r{number}")
        assert await _die_of_it(world, app) == TAKEOVERS + 1
        del world.started["p"]
        await world.all_ended(app)
        await world.check(app, replays=False)
        row = await app._store.find_run("p")
        assert row is not None
        assert (row.status, row.waiting_on) == (RunStatus.SUSPENDED, "POISONED")
        events = [event for entry in await app._store.read_journal(row.uid) for event in decode_events(entry.events)]
        workers = [event.worker for event in events if isinstance(event, RunTakenOver)]
        assert len(set(workers)) == TAKEOVERS
        last = events[-1]
        assert isinstance(last, RunSuspended)
        assert last.detail.splitlines() == workers
