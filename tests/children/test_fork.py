"""Forks: a new run from a copy of another's journal before a step (SPEC R10)."""

from __future__ import annotations

import asyncio

import pytest

from outlast import Context, InvalidSetting, Outlast, RunExists, RunFailed
from tests.homes import everywhere


# SPEC R10
@everywhere
async def test_a_fork_goes_on_from_before_a_step(app: Outlast, diary):
    """What came before the step is not run again; from there on all runs, and both runs end for themselves."""

    @app.step(name="act")
    async def act(n: int) -> int:
        diary.append(f"act {n}")
        return n * 10

    @app.workflow(name="work")
    async def work(ctx: Context) -> list[int]:
        return [await act(1), await act(2), await act(3)]

    async with app.worker():
        run = await app.start(work, id="a", user="ada")
        assert await run.result(timeout=10) == [10, 20, 30]
        diary.clear()
        fork = await run.fork(at="act#1", id="b")
        assert await fork.result(timeout=10) == [10, 20, 30]
        assert diary == ["act 2", "act 3"]
        edited = await run.fork(at="act#2", results={"act": 7})
        assert await edited.result(timeout=10) == [7, 20, 30]
        info = await fork.status()
        assert (info.forked_from, info.user, info.id) == (run.uid, "ada", "b")
        assert await run.result() == [10, 20, 30]


async def test_a_failed_run_is_forked_with_other_code(app: Outlast, diary):
    """A step that cannot succeed is left out by the code at hand; a fork of a fork works as well."""
    broken = True

    @app.step(name="good")
    async def good() -> str:
        diary.append("good")
        return "kept"

    @app.step(name="bad", retries=0)
    async def bad() -> str:
        if broken:
            raise ValueError("no")
        return "well"

    @app.workflow(name="work")
    async def work(ctx: Context) -> list[str]:
        return [await good(), await bad(), await good()]

    async with app.worker():
        run = await app.start(work)
        with pytest.raises(RunFailed):
            await run.result(timeout=10)
        await run.retry()
        with pytest.raises(RunFailed):
            await run.result(timeout=10)
        broken = False
        fork = await run.fork(at="bad")
        assert await fork.result(timeout=10) == ["kept", "well", "kept"]
        again = await fork.fork(at="good#1")
        assert await again.result(timeout=10) == ["kept", "well", "kept"]
        assert diary == ["good"] * 3


@everywhere
async def test_what_was_open_begins_anew_in_a_fork(app: Outlast, diary):
    """A step and a child that had no outcome when the copy was made are the new run's own."""
    gate = asyncio.Event()

    @app.step(name="slow")
    async def slow() -> str:
        diary.append("slow")
        await gate.wait()
        return "slow"

    @app.step(name="quick")
    async def quick() -> str:
        return "quick"

    @app.workflow(name="child")
    async def child(ctx: Context) -> str:
        return await slow()

    @app.workflow(name="work")
    async def work(ctx: Context) -> list[str]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(slow()), group.create_task(child()), group.create_task(quick())]
        return [task.result() for task in tasks]

    async with app.worker():
        run = await app.start(work)
        async with asyncio.timeout(10):
            while diary.count("slow") < 2:
                await asyncio.sleep(0.005)
        fork = await run.fork(at="quick")
        async with asyncio.timeout(10):
            while diary.count("slow") < 4:
                await asyncio.sleep(0.005)
        gate.set()
        assert await run.result(timeout=10) == await fork.result(timeout=10) == ["slow", "slow", "quick"]
        assert len((await app.runs(workflow="child")).runs) == 2


async def test_a_fork_that_does_not_fit_is_refused(app: Outlast):
    """A step that was not called, a result of a step that had none, and an id that is taken."""

    @app.step(name="act")
    async def act() -> None: ...

    @app.workflow(name="work")
    async def work(ctx: Context) -> None:
        await act()

    async with app.worker():
        run = await app.start(work, id="a")
        await run.result(timeout=10)
        with pytest.raises(InvalidSetting, match="act#1"):
            await run.fork(at="act#1")
        with pytest.raises(InvalidSetting, match="steps that succeeded before 'act': there are none"):
            await run.fork(at="act", results={"act": 1})
        with pytest.raises(RunExists):
            await run.fork(at="act", id="a")
