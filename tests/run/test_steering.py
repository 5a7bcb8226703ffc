"""Acting on a run from outside: cancel, resume, retry, delete (SPEC R9, R10, W2, D4)."""

from __future__ import annotations

import asyncio

import pytest

from outlast import (
    Context,
    InvalidName,
    RunCancelled,
    RunEnded,
    RunFailed,
    RunNotEnded,
    RunNotFailed,
    RunNotFound,
    WaitNotFound,
)
from tests.run.gates import declare_steady


class CardDeclined(Exception):
    """A class that the codec can build again."""


# SPEC R1, W2
async def test_a_suspended_run_is_resumed_by_its_reason(app):
    """Its code is what it waits on; another reason is refused and named; `result` waits on; a cancel ends it."""

    @app.workflow(name="stuck")
    async def stuck(ctx: Context) -> None:
        await asyncio.get_running_loop().create_future()

    run = await app.start(stuck)
    async with asyncio.timeout(10):
        while (await run.status()).status != "suspended":
            await asyncio.sleep(0.005)
    assert (await run.status()).waiting_on == "DEADLOCK"
    with pytest.raises(TimeoutError):
        await run.result(timeout=0.05)
    with pytest.raises(WaitNotFound, match="DEADLOCK"):
        await run.resume("PAYMENT")
    before = len(await run.timeline())
    await run.resume("DEADLOCK")
    async with asyncio.timeout(10):
        while len(await run.timeline()) < before + 2:
            await asyncio.sleep(0.005)
    assert [item.kind for item in await run.timeline()][before : before + 2] == ["resumed", "suspended"]
    assert await run.cancel("enough")
    with pytest.raises(RunCancelled):
        await run.result(timeout=10)
    with pytest.raises(RunEnded):
        await run.resume()


# SPEC W2
async def test_a_run_that_is_not_suspended_cannot_be_resumed(app):
    """There is nothing to open."""
    gate, steady = declare_steady(app)
    run = await app.start(steady, 4)
    with pytest.raises(WaitNotFound, match=r"run '[^']+'\. None of its gates is open\."):
        await run.resume()
    gate.is_open.set()
    await run.result(timeout=10)


# SPEC R10
async def test_a_retried_run_goes_on_from_what_failed(app):
    """What succeeded stays and is not run again; the failed step has a fresh budget; the end is a new one."""
    counts = {"first": 0, "second": 0}

    @app.step(name="first")
    async def first() -> int:
        counts["first"] += 1
        return 1

    @app.step(name="second", retries=0)
    async def second() -> int:
        counts["second"] += 1
        if counts["second"] == 1:
            raise CardDeclined("once")
        return 2

    @app.workflow(name="retried")
    async def retried(ctx: Context) -> int:
        return await first() + await second()

    run = await app.start(retried)
    with pytest.raises(RunFailed):
        await run.result(timeout=10)
    await run.retry()
    assert await run.result(timeout=10) == 3
    assert counts == {"first": 1, "second": 2}
    info = await run.status()
    assert [(step.key, step.status, step.attempts) for step in info.steps] == [
        ("first", "succeeded", 1),
        ("second", "succeeded", 2),
    ]
    history = {(one.key, one.attempt): one.is_current for one in await run.history()}
    assert history == {("first", 1): True, ("second", 1): False, ("second", 2): True}
    with pytest.raises(RunNotFailed):
        await run.retry()


# SPEC R9
async def test_only_an_ended_run_can_be_deleted(app):
    """Before, it is refused; after, nothing of the run is left."""
    gate, steady = declare_steady(app)
    run = await app.start(steady, 4, id="D-1")
    await gate.entered.wait()
    with pytest.raises(RunNotEnded):
        await run.delete()
    gate.is_open.set()
    await run.result(timeout=10)
    await run.delete()
    for ask in (run.status, run.history, run.timeline, run.result, run.cancel, run.resume, run.retry):
        with pytest.raises(RunNotFound, match="D-1"):
            await ask()
    with pytest.raises(RunNotFound):
        await app.get_run("D-1")


# SPEC R6
async def test_a_handle_stays_with_its_run(app):
    """When the id is given to another run, the old handle still shows the old one."""
    gate, steady = declare_steady(app)
    gate.is_open.set()
    old = await app.start(steady, 4, id="again")
    await old.result(timeout=10)
    new = await app.start(steady, 5, id="again", on_conflict="restart")
    assert await new.result(timeout=10) == 10
    assert await old.result(timeout=10) == 8
    assert (await app.get_run("again")).uid == new.uid != old.uid


# SPEC D4
async def test_a_reason_is_a_name(app):
    """Over 512 bytes, or empty, it is refused before anything is sent."""
    gate, steady = declare_steady(app)
    run = await app.start(steady, 4)
    for reason in ("x" * 513, ""):
        with pytest.raises(InvalidName):
            await run.cancel(reason)
        with pytest.raises(InvalidName):
            await run.resume(reason)
    gate.is_open.set()
    assert await run.result(timeout=10) == 8


# SPEC X1
async def test_a_run_can_be_cancelled_before_it_begins(app):
    """A run that is due in an hour ends now, and nothing of it happens in the world."""
    gate, steady = declare_steady(app)
    run = await app.start(steady, 4, delay="1h")
    assert await run.cancel("too late anyway") is True
    with pytest.raises(RunCancelled, match="too late anyway"):
        await run.result(timeout=10)
    assert gate.count == 0
    assert (await run.status()).status == "cancelled"


# SPEC X1
async def test_a_sleeping_run_can_be_cancelled(app):
    """It wakes up for that; what it had done stays on record."""

    @app.workflow(name="sleeper")
    async def sleeper(ctx: Context) -> None:
        await ctx.milestone("in bed")
        await ctx.sleep("30d")

    run = await app.start(sleeper)
    async with asyncio.timeout(10):
        while not (await run.status()).waiting_on.startswith("sleep until"):
            await asyncio.sleep(0.005)
    assert await run.cancel("get up") is True
    with pytest.raises(RunCancelled, match="get up"):
        await run.result(timeout=10)
    assert [mark.name for mark in (await run.state_at(99)).milestones] == ["in bed"]


# SPEC X8
async def test_a_cancel_by_force_asks_nobody(app):
    """A body that will not go is not asked: the run ends, and its step as cancelled."""
    entered, released = asyncio.Event(), asyncio.Event()

    @app.step(name="stubborn")
    async def stubborn() -> None:
        entered.set()
        await released.wait()

    @app.workflow(name="unwilling")
    async def unwilling(ctx: Context) -> None:
        while True:
            try:
                await stubborn()
            except asyncio.CancelledError:
                pass

    run = await app.start(unwilling)
    await entered.wait()
    assert await run.cancel("out", force=True) is True
    with pytest.raises(RunCancelled, match="out"):
        await run.result(timeout=10)
    info = await run.status()
    assert (info.status, info.steps[0].status) == ("cancelled", "cancelled")
    released.set()
