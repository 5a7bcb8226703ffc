"""Worker processes that die beside others, and others that take over (SPEC L3, L5, L9)."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from outlast.app import Outlast
from outlast.core.events import RunTakenOver, StepLost, decode_events
from outlast.errors import RunFailed
from tests.crash.flows import MIX
from tests.crash.world import World, until

pytestmark = [pytest.mark.process, pytest.mark.timeout(90)]


async def test_a_worker_finishes_what_it_is_given(world: World) -> None:
    """Without any kill, all is as it should be: what the other tests compare with."""
    async with world.client() as app:
        for number, (workflow, arguments) in enumerate(MIX):
            await world.start(app, workflow, *arguments, id=f"r{number}")
        await world.spawn_ready()
        await world.all_ended(app)
        await world.check(app)
        assert await world.count(app, StepLost) == 0


async def _where_it_waits(world: World, app: Outlast, id: str) -> int:
    """Start a run of one long step, and see it begin; gives the process that executes it."""
    await world.start(app, "waiting", 2.5, id=id)
    uid = (await app.get_run(id)).uid
    await until(lambda: world.marks(uid), "a step that has begun")
    return world.marks(uid)[0].pid


async def test_a_peer_takes_over_by_itself(world: World) -> None:
    """When one of two workers dies, the other takes its runs over by itself, within the lease and six seconds."""
    lease = 1.5  # SPEC L3, L9
    async with world.client() as app:
        dying = await world.spawn_ready(lease=lease)
        for number, (workflow, arguments) in enumerate(MIX):
            await world.start(app, workflow, *arguments, id=f"r{number}")
        await until(lambda: len(world.ledger.marks()) > 10, "work")
        peer = await world.spawn_ready(lease=lease)
        while await _where_it_waits(world, app, f"w{len(world.started)}") != dying.pid:
            pass  # the peer has that one: another
        handles = [await app.get_run(id) for id in world.started]
        results = asyncio.gather(*(run.result(timeout=30) for run in handles))
        await dying.killed()
        killed_at = time.time()
        await world.all_ended(app)
        taken_over = await world.events(app, RunTakenOver)
        assert taken_over
        assert max(event.at for event in taken_over) / 1e6 - killed_at < lease + 6.0
        assert peer.status is None
        assert len(await results) == len(handles), "whoever waited meanwhile has all results"
        assert await world.count(app, StepLost) > 0
        await world.check(app)


async def test_plain_bodies_are_taken_over(world: World) -> None:
    """A worker is killed while plain `def` bodies wait for their steps: another goes on with them."""  # SPEC R11, L10
    async with world.client() as app:
        for number in range(4):
            await world.start(app, "plainly", 3, id=f"r{number}")
        for count in (3, 9):
            victim = world.spawn(point=f"effect-without-outcome:{count}", max_hot=0)
            assert await victim.gone() == -signal.SIGKILL
            await world.bury(app)
        await world.spawn_ready(lease=1e6)
        await world.all_ended(app)
        await world.check(app)


async def test_a_step_that_is_lost_too_often_fails_loudly(world: World) -> None:
    """A step whose worker died in each of its attempts fails as StepLeaseExpired, and is not tried once more."""
    async with world.client() as app:  # SPEC L5, S2
        await world.start(app, "brittle", "b", id="r")
        del world.started["r"]
        for _ in range(2):
            victim = world.spawn(point="before-user-code:1")
            assert await victim.gone() == -signal.SIGKILL
            await world.bury(app)
        last = await world.spawn_ready(lease=1e6)
        run = await app.get_run("r")
        with pytest.raises(RunFailed) as failed:
            await run.result(timeout=20)
        assert "StepLeaseExpired" in repr(failed.value) + str(failed.value)
        assert world.marks(run.uid) == []
        assert world.warnings(last.pid, "has no attempt left")
        entries = await app._store.read_journal(run.uid)
        lost = [event for entry in entries for event in decode_events(entry.events) if isinstance(event, StepLost)]
        assert [event.attempt for event in lost] == [1, 2]
        await world.check(app)
