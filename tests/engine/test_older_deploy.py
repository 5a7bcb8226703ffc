"""A rolling deploy: workers that do not know a function yet meet runs that have called it already."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from outlast import Context, Module, Outlast, RunCancelled, RunFailed, current_step
from outlast.core.events import RunResumed, decode_events
from outlast.core.verifying.shape import check_shape
from outlast.engine import loading
from outlast.errors import StoreUnavailable
from outlast.run.handle import Run
from outlast.stores.memory import MemoryStore
from outlast.stores.store import RunRow, WorkerRow

flows, later = Module("deploy"), Module("later")


@flows.workflow
async def calls(ctx: Context) -> str:
    got = await ctx.call("later:newer", {"tag": "a"}, returns=str)
    await ctx.suspend("look")
    return got


@flows.step
async def beside() -> str:
    return "never"


@flows.workflow
async def calls_beside(ctx: Context) -> str:
    task = asyncio.create_task(beside.options(queue="nobody's")())
    await asyncio.sleep(0)
    got = await ctx.call("later:newer", {"tag": "a"}, returns=str)
    task.cancel()
    return f"{got}{await ctx.wait_for('word', str)}"


@flows.workflow
async def gives_up(ctx: Context) -> str:
    task = asyncio.create_task(ctx.call("later:newer", {"tag": "a"}, returns=str))
    await asyncio.sleep(0)
    task.cancel()
    return "done"


@flows.workflow
async def child(ctx: Context) -> str:
    return await ctx.call("later:flaky", {"tag": "a"}, returns=str)


@flows.workflow
async def parent(ctx: Context) -> str:
    return await child()


holding = asyncio.Event()
undone: list[str] = []


@flows.step
async def hold() -> str:
    await holding.wait()
    return "held"


@hold.compensation
async def let_go(held: str) -> None:
    undone.append(held)


@flows.step
async def look() -> None:
    pass


@flows.workflow
async def gives_up_what_it_holds(ctx: Context) -> None:
    task = asyncio.create_task(hold())
    await look()
    task.cancel()
    await ctx.call("later:newer", {"tag": "a"}, returns=str)
    raise ValueError("enough")


@flows.workflow
async def holds_and_calls(ctx: Context) -> None:
    await hold()
    await ctx.call("later:endless", {}, returns=str)


@later.step
async def endless() -> str:
    await asyncio.Event().wait()
    return "never"


@later.step
async def newer(tag: str) -> str:
    return f"{tag}!"


@later.step(retries=0)
async def flaky(tag: str) -> str:
    if current_step().attempt == 1:
        raise ValueError("no")
    return f"{tag}!"


def app_with(store: MemoryStore, *modules: Module) -> Outlast:
    app = Outlast("memory://", dev=False)
    for module in modules:
        app.include(module)
    return app.on_store(store.again())


async def until(run: Run[Any], waits_on: str) -> None:
    async with asyncio.timeout(10):
        while waits_on not in (await run.status()).waiting_on:
            await asyncio.sleep(0.01)


async def store_row(app: Outlast, run: Run[Any]) -> RunRow:
    row = await app._store.find_uid(run.uid)
    assert row is not None
    return row


async def kinds(app: Outlast, run: Run[Any]) -> list[str]:
    entries = await app._store.read_journal(run.uid)
    return [type(event).__name__ for entry in entries for event in decode_events(entry.events)]


# SPEC S13
async def test_a_run_that_has_called_what_an_older_worker_does_not_know_waits_for_one_that_does():
    """Its code has not changed, so it is not for a person to mend: the next worker that knows the function goes on."""
    store = MemoryStore()
    older, newest = app_with(store, flows), app_with(store, flows, later)
    async with newest.worker():
        id = (await newest.start(calls)).id
        await until(await newest.get_run(id), "gate look")
    async with older.worker():
        run = await older.get_run(id)
        await run.resume("look")
        await until(run, "FUNCTION_NOT_FOUND later:newer")
        assert (await run.status()).status == "suspended"
    async with newest.worker():
        assert await (await newest.get_run(id)).result(timeout=10) == "a!"


# SPEC S13
async def test_a_body_that_ends_although_it_called_what_is_not_known_here_is_not_forgotten():
    """What such a body does is not on record here, nor is its end: the run waits for one that does know."""
    store = MemoryStore()
    older, newest = app_with(store, flows), app_with(store, flows, later)
    async with older.worker():
        run = await older.start(gives_up)
        await until(run, "FUNCTION_NOT_FOUND later:newer")
    async with newest.worker():
        assert await (await newest.get_run(run.id)).result(timeout=10) == "done"


# SPEC X8
async def test_what_succeeded_while_set_aside_is_undone_although_the_body_had_given_it_up():
    """Its success is on record as that of a step somebody waits for. Found by the simulation, 20261208/18576r."""
    store = MemoryStore()
    older, newest = app_with(store, flows), app_with(store, flows, later)
    async with older.worker():
        run = await older.start(gives_up_what_it_holds)
        await until(run, "FUNCTION_NOT_FOUND later:newer")
        holding.set()
        async with asyncio.timeout(10):
            while not any(attempt.result == "held" for attempt in await run.history()):
                await asyncio.sleep(0.01)
    async with newest.worker():
        run = await newest.get_run(run.id)
        with pytest.raises(RunFailed, match="enough"):
            await run.result(timeout=10)
        assert (await run.status()).status == "compensated"
    assert undone == ["held"]


# SPEC X8, L5
async def test_a_step_that_is_given_up_by_a_cancel_heard_elsewhere_is_settled_when_its_worker_is_dead():
    """Nobody will tell how it ended, and the unwind would wait for that. Found by the simulation, 20261207/36124r."""
    store = MemoryStore()
    older, newest = app_with(store, flows), app_with(store, flows, later)
    holding.set()
    undone.clear()
    async with newest.worker() as worker:
        run = await newest.start(holds_and_calls)
        async with asyncio.timeout(10):
            while "later:endless" not in [attempt.key for attempt in await run.history()]:
                await asyncio.sleep(0.01)
        assert worker.home is not None
        worker.home.abandon_all()  # as if its process were gone, and its lease over
        await asyncio.to_thread(newest._store.renew, worker.id, 0)
    async with older.worker():
        peer = WorkerRow("peer", "elsewhere", 1, functions=("later:endless",), deploy="newer")
        await older._store.register(peer, 60_000_000)
        run = await older.get_run(run.id)
        async with asyncio.timeout(10):
            while not (await older._store.list_workers())[1:]:
                await asyncio.sleep(0.01)
            await run.cancel("enough")
            while (await store_row(older, run)).owner is not None or "CancelRequested" not in await kinds(older, run):
                await asyncio.sleep(0.01)
    assert undone == []
    async with newest.worker(max_hot=0):
        run = await newest.get_run(run.id)
        with pytest.raises(RunCancelled, match="enough"):
            await run.result(timeout=10)
        assert (await run.status()).status == "compensated"
    assert undone == ["held"]


# SPEC L9
async def test_a_load_that_fails_for_the_store_keeps_nothing_of_what_it_had_found(monkeypatch):
    """That the run goes on was to be on record with the entry of that load: the next one finds it again."""
    store = MemoryStore()
    older, newest = app_with(store, flows), app_with(store, flows, later)
    async with older.worker():
        run = await older.start(calls_beside)
        await until(run, "FUNCTION_NOT_FOUND later:newer")
        await run.signal("word", "b")
    ask, failures = newest._store.lost_attempts, [StoreUnavailable(newest.url, "the line is cut")]

    async def lost_attempts(uid: str, attempts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        if failures:
            raise failures.pop()
        return await ask(uid, attempts)

    monkeypatch.setattr(newest._store, "lost_attempts", lost_attempts)
    monkeypatch.setattr(loading, "RETRY_AFTER_US", 1000)
    async with newest.worker():
        assert await (await newest.get_run(run.id)).result(timeout=10) == "a!b"
        journal = [(entry, decode_events(entry.events)) for entry in await newest._store.read_journal(run.uid)]
    assert failures == []
    assert list(check_shape(journal)) == []
    assert [type(event) for _, events in journal for event in events].count(RunResumed) == 1


# SPEC R10, S13
async def test_a_child_that_is_reopened_where_its_function_is_not_known_has_not_ended():
    """It is reopened and suspended in one entry; its row says both, so that lists show no end of a run that goes on."""
    store = MemoryStore()
    older, newest = app_with(store, flows), app_with(store, flows, later)
    async with newest.worker():
        run = await newest.start(parent)
        with pytest.raises(RunFailed, match="ValueError: no"):
            await run.result(timeout=10)
    async with older.worker():
        await (await older.get_run(run.id)).retry()
        (row,) = (await older.runs(parent=run.uid)).runs
        await until(await older.get_run(row.id), "FUNCTION_NOT_FOUND later:flaky")
        (row,) = (await older.runs(parent=run.uid)).runs
        assert (row.status, row.finished_at) == ("suspended", None)
    async with newest.worker():
        assert await (await newest.get_run(run.id)).result(timeout=10) == "a!"
