"""Runs that something else happens to while they wait: nothing of them is left executing, lost or shut out."""

from __future__ import annotations

import asyncio

import pytest

from outlast import Context, Module, Outlast, RunCancelled

gates: dict[str, asyncio.Event] = {}
stopped: list[str] = []
flows = Module("left-alone")


@flows.step
async def gate(name: str) -> str:
    try:
        await gates.setdefault(name, asyncio.Event()).wait()
    except asyncio.CancelledError:
        stopped.append(name)
        raise
    return name


@flows.workflow
async def waits(ctx: Context, name: str) -> str:
    return await gate(name)


@flows.workflow
async def spins(ctx: Context) -> None:
    slow = asyncio.create_task(gate("slow"))
    await gate("fast")
    while not slow.done():
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def closed_gates():
    gates.clear()
    stopped.clear()


async def reached(name: str) -> None:
    async with asyncio.timeout(10):
        while name not in gates:
            await asyncio.sleep(0.005)


# SPEC X8
async def test_a_run_that_is_cancelled_by_force_leaves_no_step_executing():
    """Its body is not asked, so nobody gives the step up: it is told to stop all the same."""
    app = Outlast("memory://")
    app.include(flows)
    async with app.worker():
        run = await app.start(waits, "a")
        await reached("a")
        await run.cancel("now", force=True)
        with pytest.raises(RunCancelled):
            await run.result(timeout=10)
        async with asyncio.timeout(10):
            while stopped != ["a"]:
                await asyncio.sleep(0.005)


# SPEC P8
@pytest.mark.parametrize("max_hot", [0, 1])
async def test_a_body_that_is_gone_while_its_step_executes_takes_no_room(max_hot):
    """Else a worker without room for two bodies could not begin the run that such a step waits for."""
    app = Outlast("memory://")
    app.include(flows)
    async with app.worker(max_hot=max_hot):
        runs = [await app.start(waits, name) for name in "abcd"]
        async with asyncio.timeout(10):
            for name in "abcd":
                await reached(name)
        for opened in gates.values():
            opened.set()
        assert [await run.result(timeout=10) for run in runs] == list("abcd")


async def test_a_cancel_that_is_read_while_its_run_is_set_aside_ends_it(monkeypatch):
    """The run was at work when its mail was asked for, and suspended when the answer came: the cancel is not lost."""
    app = Outlast("memory://", dev=False)  # in dev mode a load would read it
    app.include(flows)
    async with app.worker() as worker:
        store, asked, late = worker.engine.store, asyncio.Event(), asyncio.Event()
        read_inbox = store.read_inbox

        async def read_late(uid, **options):
            inbox = await read_inbox(uid, **options)
            if inbox.messages:
                asked.set()
                await late.wait()
            return inbox

        monkeypatch.setattr(store, "read_inbox", read_late)
        run = await app.start(spins)
        await reached("slow")
        await reached("fast")
        await run.cancel("enough")
        async with asyncio.timeout(20):
            await asked.wait()
            gates["fast"].set()
            while (await run.status()).status != "suspended":
                await asyncio.sleep(0.01)
        late.set()
        await asyncio.sleep(0.05)
        gates["slow"].set()
        with pytest.raises(RunCancelled):
            await run.result(timeout=20)
