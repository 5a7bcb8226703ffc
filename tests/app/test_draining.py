"""Workers that are asked from outside to drain (SPEC Q4): what they let go on, what they hand back, what others see."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from outlast import Context, Outlast, StoreUnavailable, WorkerNotFound, WorkerState
from outlast.stores.memory import MemoryStore

LEASE = "600ms"


class Yard:
    """Two apps with the same functions on one store: what two processes would have."""

    def __init__(self, url: str) -> None:
        self.begun: list[str] = []
        self.may_end = asyncio.Event()
        self.apps = [self.make_app(url), self.make_app(url)]

    async def carry(self, load: str) -> str:
        self.begun.append(load)
        if load.startswith("long"):
            await self.may_end.wait()
        return load

    def make_app(self, url: str) -> Outlast:
        app = Outlast(url)

        @app.step(name="haul", retries=3)
        async def haul(load: str) -> str:
            return await self.carry(load)

        @app.step(name="far", queue="far")
        async def far(load: str) -> str:
            return await self.carry(load)

        @app.workflow(name="two")
        async def two(ctx: Context, load: str) -> list[str]:
            return [await haul(load), await haul("second")]

        @app.workflow(name="by_queue")
        async def by_queue(ctx: Context, load: str) -> str:
            return await far(load)

        @app.workflow(name="nap")
        async def nap(ctx: Context) -> None:
            await ctx.sleep("1h")

        return app


@pytest.fixture
def yard() -> Yard:
    return Yard(f"memory://{uuid.uuid4()}")


async def until(condition: Callable[[], Any], what: str) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)
    assert condition(), what


async def until_none_but(app: Outlast, *ids: str) -> None:
    async with asyncio.timeout(10):
        while {worker.id for worker in await app.workers()} != {*ids}:
            await asyncio.sleep(0.005)


async def test_a_worker_asked_to_drain_lets_steps_end_and_leaves(yard: Yard) -> None:
    """As one that is told to by a signal: it claims no more, what executes is recorded, the rest is handed back at once
    and goes on elsewhere; its app stays open."""
    here, there = yard.apps
    async with here.worker(lease=LEASE) as leaving, there:
        run = await here.start("two", "long", id="r")
        await here.start("nap", id="n")
        await until(lambda: yard.begun == ["long"], "the step is running")
        before = datetime.now(UTC)
        asked_at = await there.drain(leaving.id)
        assert abs((asked_at - before).total_seconds()) < 5
        await until(lambda: leaving.is_draining, "it hears of it")
        (seen,) = await there.workers()
        assert (seen.state, seen.drain_asked_at, seen.is_alive) == (WorkerState.DRAINING, asked_at, True)
        late = await here.start("two", "late", id="late")
        yard.may_end.set()
        await until_none_but(there)
        assert yard.begun == ["long"], "nothing begins on it any more"
        assert {row.id: row.status for row in (await there.runs()).runs}["late"] == "queued"
        async with there.worker(lease=LEASE):
            assert await run.result(timeout=10) == ["long", "second"]
            assert await late.result(timeout=10) == ["late", "second"]
        history = await run.history()
        assert [(one.key, one.attempt, str(one.status)) for one in history] == [
            ("haul", 1, "succeeded"), ("haul#1", 1, "succeeded"),
        ]  # fmt: skip


async def test_what_outlasts_the_grace_is_handed_back(yard: Yard) -> None:
    """Steps get no longer than the worker's grace, those of queues too; others begin the next attempt at once."""
    here, there = yard.apps
    async with there.worker(lease=LEASE):
        async with here.worker(lease=LEASE, grace=0.05, queues=("far",)) as leaving:
            run = await there.start("by_queue", "long", id="q")
            await until(lambda: yard.begun == ["long"], "the queued step is running")
            (step,) = await there.held_steps(leaving.id)
            assert (step.run_id, step.key, step.attempt, step.function) == ("q", "far", 1, "far")
            assert {one.id: one.held_steps for one in await there.workers()}[leaving.id] == 1
            await there.drain(leaving.id)
            await until(lambda: here._engine is not None and here._engine.worker is None, "it has left")
            with pytest.raises(WorkerNotFound):
                await there.held_steps(leaving.id)
        yard.may_end.set()
        async with here.worker(lease=LEASE, queues=("far",)):
            assert await run.result(timeout=10) == "long"


async def test_leaving_waits_for_a_drain_under_way(yard: Yard) -> None:
    """Whoever leaves the worker's block meanwhile closes nothing under it."""
    here, there = yard.apps
    async with there:
        async with here.worker(lease=LEASE) as leaving:
            run = await here.start("two", "long", id="r")
            await until(lambda: yard.begun, "the step is running")
            await there.drain(leaving.id)
            await until(lambda: leaving.is_draining, "it hears of it")
            asyncio.get_running_loop().call_later(0.1, yard.may_end.set)
        assert await there.workers() == []
        assert [str(one.status) for one in await (await there.get_run("r")).history()] == ["succeeded"]
        assert run.id == "r"


async def test_who_is_in_more_of_a_hurry_decides_how_long_steps_get(yard: Yard) -> None:
    """A drain under way with half a minute for steps ends at once for one who gives them none."""
    here, there = yard.apps
    async with there, here.worker(lease=LEASE) as leaving:
        await here.start("two", "long", id="r")
        await until(lambda: yard.begun, "the step is running")
        await there.drain(leaving.id)
        await until(lambda: leaving.is_draining, "it hears of it")
        await asyncio.wait_for(leaving.drain(0.01), 10)
        assert await there.workers() == []
        (run,) = (await there.runs()).runs
        assert run.due_at is not None


async def test_an_app_whose_worker_has_drained_may_have_another(yard: Yard) -> None:
    """The one that was asked has gone; nothing was asked of the next."""
    here, there = yard.apps
    async with there, here.worker(lease=LEASE) as leaving:
        await there.drain(leaving.id)
        await until_none_but(there)
        async with here.worker(lease=LEASE) as next_one:
            assert await (await here.start("two", "x")).result(timeout=10) == ["x", "second"]
            assert [one.state for one in await there.workers()] == [WorkerState.SERVING]
            assert next_one.id != leaving.id


async def test_asked_twice_is_asked_once_and_nobody_is_an_error(yard: Yard) -> None:
    """The same answer for a worker that has not gone yet; afterwards, and for a name that was never one, an error."""
    here, there = yard.apps
    async with there, here.worker(lease=LEASE) as leaving:
        await here.start("two", "long")
        await until(lambda: yard.begun, "the step is running")
        first = await there.drain(leaving.id)
        await asyncio.sleep(0.01)
        assert await there.drain(leaving.id) == first
        yard.may_end.set()
        await until_none_but(there)
        for name in (leaving.id, "nobody"):
            with pytest.raises(WorkerNotFound, match="No worker of this id is alive"):
                await there.drain(name)


# SPEC A2
async def test_a_drain_outlives_whoever_asked_for_it(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is lost, and the process that asked dies: it is on record, and the worker drains all the same."""
    here, there = yard.apps
    ask = MemoryStore.ask_drain

    async def lost(store: MemoryStore, worker_id: str) -> int | None:
        await ask(store, worker_id)
        raise StoreUnavailable(store.url, "the line is cut")

    async with here.worker(lease=LEASE) as leaving:
        monkeypatch.setattr(MemoryStore, "ask_drain", lost)
        async with there:
            with pytest.raises(StoreUnavailable):
                await there.drain(leaving.id)
        monkeypatch.undo()
        await until(lambda: leaving.is_draining, "it hears of it")
        async with there:
            await until_none_but(there)


async def test_one_told_by_its_own_process_shows_as_draining_too(yard: Yard) -> None:
    """Others see since when, as long as it waits for steps."""
    here, there = yard.apps
    async with there, here.worker(lease=LEASE) as leaving:
        await here.start("two", "long")
        await until(lambda: yard.begun, "the step is running")
        going = asyncio.create_task(leaving.drain())
        async with asyncio.timeout(10):
            while (await there.workers())[0].state is not WorkerState.DRAINING:
                await asyncio.sleep(0.005)
        assert (await there.workers())[0].drain_asked_at is not None
        yard.may_end.set()
        await going
        assert await there.workers() == []


async def test_one_that_lost_its_lease_comes_back_and_serves(yard: Yard) -> None:
    """What was asked of it went with its lease: under the new id nobody asked it, and it is there to be asked."""
    here, there = yard.apps
    async with there, here.worker(lease=LEASE) as worker:
        old = worker.id
        assert worker._heartbeat is not None
        worker._heartbeat.stop()  # before it could hear
        await there.drain(old)
        await there._store.retire(old)  # a peer finds it lapsed
        worker.on_fenced(old)
        await until(lambda: worker.id != old, "it is back")
        assert not worker.is_draining
        assert [one.state for one in await there.workers()] == [WorkerState.SERVING]
        await there.drain(worker.id)
        await until_none_but(there)


async def test_a_round_of_work_ends_when_its_worker_is_asked_to_drain(yard: Yard) -> None:
    """`work_until_idle` gives back what it has not begun, and returns."""
    here, there = yard.apps
    async with there:
        await there.start("two", "long", id="r")
        working = asyncio.create_task(here.work_until_idle(timeout=60, grace=0.01))
        await until(lambda: yard.begun, "the step is running")
        (worker,) = await there.workers()
        assert here._engine is not None
        assert here._engine.worker is not None
        await there.drain(worker.id)
        assert here._engine.worker._heartbeat is not None
        here._engine.worker._heartbeat.beat()  # its next is three seconds off
        await asyncio.wait_for(working, 10)
        assert await there.workers() == []
        (run,) = (await there.runs()).runs
        assert run.due_at is not None


# SPEC U1
async def test_what_a_worker_holds_is_listed(yard: Yard) -> None:
    """Its runs are counted, and listed as any; its release and last sign of life are there."""
    here, there = yard.apps
    async with there, here.worker(lease=LEASE) as worker:
        for number in range(3):
            await here.start("two", f"long {number}", id=f"r{number}")
        await there.start("two", "elsewhere", id="other", queue="nobody's")
        await until(lambda: len(yard.begun) == 3, "all steps are running")
        (seen,) = await there.workers()
        assert (seen.held_runs, seen.held_steps, seen.state) == (3, 0, WorkerState.SERVING)
        assert seen.renewed_at is not None
        assert seen.started_at <= seen.renewed_at < seen.expires_at
        page = await there.runs(worker=worker.id, limit=2)
        rest = await there.runs(worker=worker.id, limit=2, after=page.next)
        assert [run.id for run in (*page.runs, *rest.runs)] == ["r2", "r1", "r0"]
        assert await there.held_steps(worker.id) == []
        yard.may_end.set()
