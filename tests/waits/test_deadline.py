"""`start(timeout=…)`: a run that takes too long is cancelled, wherever it stands (SPEC R4)."""

from __future__ import annotations

import asyncio

import pytest

from outlast import InvalidDuration, Outlast, RunCancelled, RunFailed
from outlast.core.events import StepStarted
from tests.homes import everywhere
from tests.waits.place import Place, journal_of, note_of, parked, until, waits_on


async def ends_late(run) -> None:
    with pytest.raises(RunCancelled, match="its deadline passed, 20"):
        await run.result(timeout=10)


# SPEC R4
async def test_a_run_past_its_deadline_is_cancelled(app: Outlast) -> None:
    """While a step of it executes; the reason says when the deadline was. One that ends in time is not."""
    held = note_of(app)

    @app.workflow(name="holding")
    async def holding(ctx) -> str:
        return await held.step("x")

    run = await app.start(holding, timeout="100ms")
    await ends_late(run)
    held.is_open.set()
    assert await (await app.start(holding, timeout="1h")).result(timeout=10) == "x"
    for wrong in ("soon", -1, True):
        with pytest.raises(InvalidDuration):
            await app.start(holding, timeout=wrong)


# SPEC R4, L11
@everywhere
@pytest.mark.parametrize("where", ["asleep", "at a gate", "set aside", "not started", "delayed"])
async def test_a_deadline_survives_everything(place: Place, where: str) -> None:
    """Nobody worked when it passed: it is found when somebody does, whatever the run was doing."""

    def declare(app: Outlast) -> Outlast:
        @app.workflow(name="sleeping")
        async def sleeping(ctx) -> None:
            await ctx.sleep("30d")

        @app.workflow(name="stuck")
        async def stuck(ctx) -> None:
            await asyncio.get_running_loop().create_future()

        return app

    async with declare(place.make_app()) as asks:
        if where == "delayed":
            run = await asks.start("sleeping", delay="1d", timeout=60)
            place.pass_time(86_400)
        elif where == "not started":
            run = await asks.start("sleeping", timeout=60)
        else:
            name, arguments, text = {
                "asleep": ("sleeping", (), "sleep until"),
                "at a gate": ("gated", (["look"],), "gate look"),
                "set aside": ("stuck", (), "DEADLOCK"),
            }[where]
            run = await asks.start(name, *arguments, timeout=60)
            async with declare(place.make_app()).worker():

                async def is_there() -> bool:
                    return (await run.status()).waiting_on.startswith(text)

                await until(is_there)
        place.pass_time(61)
        async with declare(place.make_app()).worker():
            await ends_late(run)
        is_unbegun = where in {"not started", "delayed"}
        assert is_unbegun == (len(await journal_of(asks, run)) == 3)


# SPEC R4
@everywhere
async def test_a_parked_run_is_due_at_its_deadline(app: Outlast, parks_at_once) -> None:
    """Its row says so, and a worker that is up finds it then."""
    run = await app.start("gated", ["look"], timeout=0.5)
    await parked(app, run)
    row = await app._here("a test").store.find_uid(run.uid)
    assert row is not None
    assert row.wake_at == row.deadline
    await ends_late(run)


# SPEC R4, X1
async def test_the_body_may_clean_up_after_its_deadline(app: Outlast) -> None:
    """It gets CancelledError as with any cancel, and steps of its clean-up run."""

    @app.workflow(name="cleaning")
    async def cleaning(ctx) -> None:
        try:
            await ctx.suspend("look")
        finally:
            await ctx.call("note", {"text": "cleaned"})

    run = await app.start(cleaning, timeout=0.1)
    await ends_late(run)
    started = [event.key for event in await journal_of(app, run) if isinstance(event, StepStarted)]
    assert started == ["note"]


# SPEC R4, R10
async def test_a_run_that_is_retried_after_its_deadline_has_none(place: Place) -> None:
    """Else a retry would be of no use."""
    failing = [True]

    def declare(app: Outlast) -> Outlast:
        @app.step(name="risky", retries=0)
        async def risky() -> int:
            if failing[0]:
                raise ValueError("once")
            return 7

        @app.workflow(name="retried")
        async def retried(ctx) -> int:
            return await risky()

        return app

    async with declare(place.make_app()) as asks:
        run = await asks.start("retried", timeout=60)
        async with declare(place.make_app()).worker():
            with pytest.raises(RunFailed):
                await run.result(timeout=10)
        place.pass_time(61)
        failing.clear()
        failing.append(False)
        async with declare(place.make_app()) as later:
            await (await later.get_run(run.id)).retry()
        async with declare(place.make_app()).worker():
            assert await run.result(timeout=10) == 7


# SPEC W1, W7
async def test_waits_that_are_due_later_cost_no_memory(app: Outlast, parks_at_once) -> None:
    """Many runs that wait are rows, and nothing in the worker."""
    runs = [await app.start("shipped", 3600.0) for _ in range(50)]
    for run in runs:
        await waits_on(run, "approval ship it?")
    worker = app._here("a test").worker
    assert worker is not None
    assert worker.home is not None
    home = worker.home

    async def is_empty() -> bool:
        return len(home) == 0

    await until(is_empty)
    assert len(await app.waits(limit=100)) == 50
