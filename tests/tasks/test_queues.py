"""What people see of queues, and what they are told of steps that nobody is there for."""

from __future__ import annotations

import logging
from datetime import timedelta

import pytest

from outlast.authoring.module import Module
from outlast.engine import sweeper
from tests.tasks.flows import gates
from tests.tasks.world import Elsewhere, World, eventually


# SPEC Q1, O6
async def test_queues_say_what_waits_and_who_serves_them(world: World, home: Elsewhere):
    """Each by name, with what waits in it and for how long, what is held, by how many workers it is served, and the
    functions that none of those knows."""
    (only,) = await home.app.queues()
    assert (only.name, only.workers, only.waiting_runs, only.held_runs) == ("default", 1, 0, 0)
    run = await home.start("hold", ["a", "b"])
    await eventually(lambda: _waiting(home, 2), "two steps")
    default, gpu = await home.app.queues()
    assert (default.name, default.held_runs) == ("default", 1)
    assert (gpu.workers, gpu.held_steps, gpu.unknown) == (0, 0, ("t:held",))
    assert timedelta(0) <= gpu.lag < timedelta(seconds=20)
    async with world.working("gpu", modules=(Module("other"),)):
        (_, gpu) = await home.app.queues()
        assert (gpu.workers, gpu.waiting_steps, gpu.unknown) == (1, 2, ("t:held",))
    async with world.working("gpu", concurrency=1):
        await eventually(lambda: gates.began.total() == 1, "one of them")
        (_, gpu) = await home.app.queues()
        assert (gpu.workers, gpu.waiting_steps, gpu.held_steps, gpu.unknown) == (1, 1, 1, ())
        gates.open.set()
        await run.result(20)


async def _waiting(one: Elsewhere, count: int) -> bool:
    queues = {queue.name: queue for queue in await one.app.queues()}
    return "gpu" in queues and queues["gpu"].waiting_steps == count


async def test_steps_that_nobody_is_there_for_are_warned_of(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """The worker of their run says so, once, with the command that helps; of those that somebody takes it says
    nothing."""
    monkeypatch.setattr(sweeper, "CARE_EVERY", 2)
    async with world.working("default") as home:
        async with world.working("gpu"):
            await (await home.start("two", 2)).result(20)
        await home.start("two", 4)
        await eventually(lambda: _warnings(caplog), "a warning")
        (warning,) = _warnings(caplog)
        assert "steps t:double wait in queue gpu" in warning
        assert "--queue gpu" in warning


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record for record in caplog.records if "no live worker of it knows them" in record.getMessage()]
    assert all(record.levelno == logging.WARNING for record in said)
    return [record.getMessage() for record in said]
