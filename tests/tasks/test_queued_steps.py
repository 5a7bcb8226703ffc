"""Queued steps: whoever serves the queue carries them out, and their run goes on as if it had done so itself."""

from __future__ import annotations

from typing import Any

import pytest

from outlast.authoring.module import Module
from outlast.core.keys import invocation_id
from outlast.run.handle import Run
from outlast.run.records import StepSummary
from outlast.stores.store import RunRow
from tests.tasks.flows import gates
from tests.tasks.world import Elsewhere, World, attempts_of, eventually, step_of


# SPEC Q1, O1
async def test_a_queued_step_runs_where_its_queue_is_served(home: Elsewhere, gpu: Elsewhere):
    """Async or plain, it is carried out by a worker of its queue, which the history names; the others by the run's."""
    run = await home.start("two", 8, user="ada", trace="00-" + "a" * 32 + "-" + "b" * 16 + "-01")
    assert await run.result(20) == [16, 4, 9]
    workers = {attempt.key: attempt.worker for attempt in await run.history()}
    assert workers == {"t:double": gpu.worker.id, "t:halve": gpu.worker.id, "t:local": home.worker.id}
    first, second = gates.infos
    assert (first.run_id, first.uid, first.user, first.attempt, first.max_attempts) == (run.id, run.uid, "ada", 1, 6)
    assert first.invocation_id == invocation_id(run.uid, "t:double")
    assert second.traceparent.startswith("00-" + "a" * 32)


async def test_one_worker_may_serve_both(world: World):
    """The worker of the run takes its steps too when it serves their queue."""
    async with world.working("default", "gpu") as one:
        run = await one.start("fan", 30)
        assert await run.result(20) == [2 * x for x in range(30)]
        assert {attempt.worker for attempt in await run.history()} == {one.worker.id}


# SPEC W7, R1
async def test_a_run_waits_for_a_queued_step_without_memory(world: World, home: Elsewhere):
    """Nobody serves the queue: the run is parked, its row says what it waits for, and it goes on when somebody does."""
    run = await home.start("two", 8)
    row = await eventually(lambda: _parked(home, run.uid), "a park")
    assert row.waiting_on == (await run.status()).waiting_on == "step t:double on queue gpu"
    assert row.wake_at is None
    assert (await step_of(run, "t:double")).status == "pending"
    async with world.working("gpu"):
        assert await run.result(20) == [16, 4, 9]


async def _parked(one: Elsewhere, uid: str) -> RunRow | None:
    row = await one.app._store.find_uid(uid)
    assert row is not None
    return row if row.owner is None else None


async def test_a_queued_step_needs_no_place_of_its_runs_worker(world: World, gpu: Elsewhere):
    """With one place, taken or not, any number of queued steps are under way."""
    async with world.working("default", concurrency=1) as home:
        run = await home.start("hold", ["a", "b", "c"])
        await eventually(lambda: gates.began.total() == 3, "three steps at once")
        assert (await (await home.start("two", 2)).result(20))[2] == 3
        gates.open.set()
        assert await run.result(20) == ["a!", "b!", "c!"]


# SPEC Q2
async def test_a_worker_holds_no_more_than_it_has_places(world: World, home: Elsewhere):
    """Queued steps share the worker's concurrency; those that have no place are left to others."""
    async with world.working("gpu", concurrency=2) as one:
        run = await home.start("hold", ["a", "b", "c", "d", "e"])
        await eventually(lambda: gates.began.total() == 2, "two steps")
        rows = await home.app._store.list_tasks(run.uid)
        assert sum(row.owner is not None for row in rows) == 2
        async with world.working("gpu", concurrency=2):
            await eventually(lambda: gates.began.total() == 4, "four steps")
            gates.open.set()
            await run.result(20)
        assert {attempt.worker for attempt in await run.history()} > {one.worker.id}


# SPEC Q1
async def test_a_worker_leaves_what_it_does_not_know(world: World, home: Elsewhere):
    """A worker of the queue without the function does not fail the step: it is there for one that knows it."""
    other = Module("other")
    async with world.working("gpu", modules=(other,)):
        run = await home.start("two", 4)
        await eventually(lambda: _parked(home, run.uid), "a park")
        assert [(row.owner, row.attempt) for row in await home.app._store.list_tasks(run.uid)] == [(None, 1)]
        async with world.working("gpu") as knowing:
            assert await run.result(20) == [8, 2, 5]
        assert (await attempts_of(run, "t:double"))[0].worker == knowing.worker.id


# SPEC S5
async def test_progress_of_a_queued_step_shows(home: Elsewhere, gpu: Elsewhere):
    """`status()` says that it is being carried out, and what it last said of itself."""
    run = await home.start("tell")
    step = await eventually(lambda: _progressing(run), "progress")
    assert (step.status, step.progress, step.queue, step.attempts) == ("started", {"at": 1}, "gpu", 1)
    gates.open.set()
    assert await run.result(20) == "told"
    assert (await step_of(run, "t:telling")).status == "succeeded"


async def _progressing(run: Run[Any]) -> StepSummary | None:
    steps = (await run.status()).steps
    return next((step for step in steps if step.progress is not None), None)


# SPEC S5
@pytest.mark.parametrize(
    ("step", "error"), [("slow", "StepTimeout"), ("stuck", "StepTimeout"), ("silent", "Heartbeat")]
)
async def test_a_queued_step_has_its_limits(home: Elsewhere, gpu: Elsewhere, step: str, error: str):
    """Each attempt has its time, counted where it is carried out, from when it begins there; a thread is given up."""
    run = await home.start("try_one", step, [], {})
    assert (await run.result(20)).startswith("HeartbeatTimeout" if step == "silent" else "StepTimeout")
    gates.thread_open.set()
    assert [attempt.status for attempt in await attempts_of(run, f"t:{step}")] == ["failed", "failed"]
