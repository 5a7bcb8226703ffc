"""Queued steps that nobody wants any more: stopped where they execute, and never begun where they do not (SPEC X6)."""

from __future__ import annotations

import pytest

from outlast.errors import RunCancelled, RunFailed
from tests.tasks.flows import gates
from tests.tasks.world import Elsewhere, World, attempts_of, eventually, step_of


async def test_a_step_the_body_gives_up_stops_alone(home: Elsewhere, gpu: Elsewhere):
    """It is told to stop where it executes, and ends as cancelled; the step beside it goes on."""
    run = await home.start("drop_one", 2)
    await eventually(lambda: gates.cancelled["dropped"], "the step hears of it")
    assert gates.began == {"kept": 1, "dropped": 1}
    gates.open.set()
    assert await run.result(20) == ["kept!"]
    (dropped,) = await attempts_of(run, "dropped")
    assert (dropped.status, dropped.worker) == ("cancelled", gpu.worker.id)
    assert dropped.error is not None
    assert dropped.error.type == "CancelledError"
    assert await gpu.app._store.list_tasks(run.uid) == []


async def test_a_step_that_is_given_up_unclaimed_never_begins(world: World, home: Elsewhere):
    """Nobody served the queue when the body gave it up: it is gone, and settled; the step beside it is there."""
    run = await home.start("drop_one", 0)
    await eventually(lambda: _settled(run), "the step is settled")
    async with world.working("gpu"):
        gates.open.set()
        assert await run.result(20) == ["kept!"]
    assert gates.began == {"kept": 1}


async def _settled(run):
    timeline = await run.timeline()
    return any(item.kind == "settled" and item.step == "dropped" for item in timeline)


# SPEC X1, X6
@pytest.mark.parametrize("force", [False, True])
async def test_a_cancelled_runs_steps_stop(home: Elsewhere, gpu: Elsewhere, force: bool):
    """A cancel reaches a queued step in another process, also when it drops the body at once."""
    run = await home.start("hold", ["a", "b"])
    await eventually(lambda: gates.began.total() == 2, "both steps")
    assert await run.cancel("enough", force=force)
    with pytest.raises(RunCancelled):
        await run.result(20)
    await eventually(lambda: gates.cancelled == {"a": 1, "b": 1}, "both stop")
    await eventually(lambda: _no_tasks(gpu, run.uid), "both are gone")


async def _no_tasks(one: Elsewhere, uid: str) -> bool:
    return not await one.app._store.list_tasks(uid)


# SPEC X6
async def test_a_stopped_runs_steps_do_not_start(world: World, home: Elsewhere):
    """Steps of a run that was cancelled before anybody served their queue never begin."""
    run = await home.start("hold", ["a", "b"])
    await eventually(lambda: _has_tasks(home, run.uid), "the tasks")
    await run.cancel("enough")
    with pytest.raises(RunCancelled):
        await run.result(20)
    async with world.working("gpu"):
        other = await home.start("two", 1)
        await other.result(20)
    assert gates.began.total() == 0


async def _has_tasks(one: Elsewhere, uid: str) -> bool:
    return bool(await one.app._store.list_tasks(uid))


async def test_a_cancelled_body_cleans_up_on_its_queue(home: Elsewhere, gpu: Elsewhere):
    """The steps it takes to tidy up are queued as any others, and run though the run is being cancelled."""
    run = await home.start("tidy")
    await eventually(lambda: gates.began["body"], "the step")
    await run.cancel("enough")
    with pytest.raises(RunCancelled):
        await run.result(20)
    assert (await step_of(run, "t:double")).status == "succeeded"


# SPEC X3
@pytest.mark.parametrize("claimed", [2, 1])
async def test_an_unwind_waits_for_queued_steps_in_flight(world: World, home: Elsewhere, claimed: int):
    """What a failed body left under way is stopped and waited for, claimed or not; then what it did is undone, by a
    compensation that is queued itself."""
    async with world.working("gpu", concurrency=claimed) as gpu:
        run = await home.start("undone", ["x", "y"], claimed)
        with pytest.raises(RunFailed):
            await run.result(20)
        assert gates.ended == {"a": 1}
        assert gates.infos[0].compensating_for == "t:book"
        assert (await run.status()).status == "compensated"
        assert await gpu.app._store.list_tasks(run.uid) == []
