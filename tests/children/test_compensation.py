"""Undoing: what a failed or cancelled run did is compensated, in reverse of its completion (SPEC X)."""

from __future__ import annotations

import asyncio
import threading

import pytest

from outlast import Context, InvalidDefinition, Outlast, RunCancelled, current_step
from tests.children.shop import Shop, fails
from tests.homes import everywhere


# SPEC X2, X3
@everywhere
async def test_a_failed_run_is_undone_in_reverse(app: Outlast, shop: Shop, diary):
    """Each success is compensated once, last first, with the step's arguments and its result; the error stays."""

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        await shop.charge(1)
        await shop.charge(2, note="x")
        await shop.boom()

    async with app.worker():
        run = await app.start(order)
        error = await fails(run)
        assert isinstance(error.error, ValueError)
        assert (error.status, error.step) == ("compensated", "boom")
        assert diary == [
            "charge 1",
            "charge 2",
            "refund 2 receipt 2 for charge#1",
            "refund 1 receipt 1 for charge",
        ]
        info = await run.status()
        assert info.status == "compensated"
        assert info.error is not None
        assert [step.key for step in info.steps][-2:] == ["compensate:charge#1", "compensate:charge"]


# SPEC X3
async def test_the_order_is_that_of_completion(app: Outlast, diary):
    """Of parallel steps the one that completed last is undone first, however they were called."""
    gates = {name: asyncio.Event() for name in "abc"}

    @app.step(name="act")
    async def act(name: str) -> str:
        await gates[name].wait()
        return name

    @act.compensation
    async def undo(name: str, result: str) -> None:
        diary.append(result)

    @app.step(name="release")
    async def release(name: str) -> None:
        gates[name].set()

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = {name: group.create_task(act(name)) for name in "abc"}
            for name in "cab":
                await release(name)
                await tasks[name]
        raise ValueError("now")

    async with app.worker():
        await fails(await app.start(order))
        assert diary == ["b", "a", "c"]


# SPEC X7
async def test_a_failure_that_is_caught_undoes_nothing(app: Outlast, shop: Shop, diary):
    """Only the run's own failure unwinds it."""

    @app.workflow(name="order")
    async def order(ctx: Context) -> str:
        await shop.charge(1)
        try:
            await shop.boom()
        except ValueError:
            return "well"
        return ""

    async with app.worker():
        assert await (await app.start(order)).result(timeout=10) == "well"
        assert diary == ["charge 1"]


# SPEC X4
async def test_keep_and_compensate_false_opt_out(app: Outlast, shop: Shop, diary):
    """By key, by step, and per call."""

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        await shop.charge(1)
        await shop.charge(2)
        await shop.charge.options(compensate=False)(3)
        await shop.charge(4)
        ctx.keep("charge")
        await shop.boom()

    @app.workflow(name="all")
    async def keep_all(ctx: Context) -> None:
        await shop.charge(5)
        ctx.keep(shop.charge)
        await shop.charge(6)
        with pytest.raises(InvalidDefinition, match="No step has the key 'charge#9'"):
            ctx.keep("charge#9")
        await shop.boom()

    async with app.worker():
        await fails(await app.start(order))
        assert [line for line in diary if "refund" in line] == [
            "refund 4 receipt 4 for charge#3",
            "refund 2 receipt 2 for charge#1",
        ]
        diary.clear()
        await fails(await app.start(keep_all))
        assert [line for line in diary if "refund" in line] == ["refund 6 receipt 6 for charge#1"]


async def test_nothing_to_undo_is_a_plain_end(app: Outlast, shop: Shop):
    """A run whose only compensation is opted out of fails, and a cancelled one is cancelled."""

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        await shop.charge.options(compensate=False)(3)
        await shop.boom()

    async with app.worker():
        run = await app.start(order)
        assert (await fails(run)).status == "failed"


async def test_a_body_registers_an_undo_of_its_own(app: Outlast, shop: Shop, diary):
    """`ctx.compensate` takes a step or a function with its arguments, and keeps its place in the order."""

    @app.step(name="tidy")
    async def tidy(what: str) -> None:
        diary.append(f"tidy {what} for {current_step().compensating_for}")

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        ctx.compensate(tidy, "desk")
        await shop.charge(1)
        ctx.compensate(diary.append, "closure")
        await shop.boom()

    async with app.worker():
        await fails(await app.start(order))
        assert diary == ["charge 1", "closure", "refund 1 receipt 1 for charge", "tidy desk for undo:tidy"]


async def test_a_compensation_given_for_one_call(app: Outlast, diary):
    """`compensate=` of a call, also of a closure, undoes that call."""

    async def undo(result: str) -> None:
        diary.append(f"undo {result}")

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        await ctx.do("fetch", lambda: "it", compensate=undo)
        raise ValueError("now")

    async with app.worker():
        await fails(await app.start(order))
        assert diary == ["undo it"]


# SPEC X2
@everywhere
async def test_a_compensation_that_fails_for_good(app: Outlast, diary):
    """It has retries of its own; when they are used up the others still run, and the end names what is left."""

    @app.step(name="first")
    async def first() -> int:
        return 1

    @first.compensation
    async def undo_first(result: int) -> None:
        diary.append("first")

    @app.step(name="second")
    async def second() -> int:
        return 2

    @second.compensation(retries=1, backoff=0)
    async def undo_second(result: int) -> None:
        diary.append("second")
        raise OSError("no")

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        await first()
        await second()
        raise ValueError("now")

    async with app.worker():
        run = await app.start(order)
        error = await fails(run)
        assert error.status == "compensation_failed"
        assert isinstance(error.error, ValueError)
        assert diary == ["second", "second", "first"]
        (last,) = [item for item in await run.timeline() if item.kind == "compensation_failed"]
        assert last.detail == "second"


# SPEC X1
@everywhere
async def test_a_cancelled_run_is_undone(app: Outlast, shop: Shop, diary):
    """The body cleans up first; then what it did is undone, what the clean-up did too; the run is compensated, and
    whoever waits is told of the cancel."""

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        await shop.charge(1)
        try:
            await ctx.sleep("1h")
        finally:
            await shop.charge(2)

    async with app.worker():
        run = await app.start(order)
        async with asyncio.timeout(10):
            while "charge 1" not in diary:
                await asyncio.sleep(0.005)
        assert await run.cancel("enough")
        with pytest.raises(RunCancelled, match="enough"):
            await run.result(timeout=10)
        assert diary[1:] == ["charge 2", "refund 2 receipt 2 for charge#1", "refund 1 receipt 1 for charge"]
        info = await run.status()
        assert info.status == "compensated"
        assert info.error is not None
        assert (info.error.code, info.error.message) == ("RUN_CANCELLED", "enough")


# SPEC X8
@everywhere
async def test_a_cancel_by_force_skips_the_body_alone(app: Outlast, shop: Shop, diary):
    """The body gets no say; what it did is undone all the same."""

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        await shop.charge(1)
        try:
            await ctx.sleep("1h")
        finally:
            await shop.charge(2)

    async with app.worker():
        run = await app.start(order)
        async with asyncio.timeout(10):
            while "charge 1" not in diary:
                await asyncio.sleep(0.005)
        assert await run.cancel("now", force=True)
        with pytest.raises(RunCancelled):
            await run.result(timeout=10)
        assert diary[1:] == ["refund 1 receipt 1 for charge"]


# SPEC X3, X8
@everywhere
async def test_steps_in_flight_are_waited_for_and_undone(app: Outlast, diary):
    """A thread that cannot be stopped succeeds after its run was given up: its effect is undone too."""
    began, gate = threading.Event(), threading.Event()

    @app.step(name="slow")
    def slow() -> str:
        began.set()
        gate.wait(20)
        diary.append("slow")
        return "late"

    @slow.compensation
    async def undo(result: str) -> None:
        diary.append(f"undo {result}")

    @app.step(name="fail", retries=0)
    async def fail() -> None:
        await asyncio.to_thread(began.wait, 20)
        raise ValueError("now")

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(slow())
            await fail()

    async with app.worker():
        run = await app.start(order)
        async with asyncio.timeout(10):
            while not any(item.kind == "cancelled" for item in await run.timeline()):
                await asyncio.sleep(0.005)
        assert (await run.status()).status == "running"
        gate.set()
        assert (await fails(run)).status == "compensated"
        assert diary == ["slow", "undo late"]


async def test_a_compensation_that_cannot_take_the_arguments_is_refused(app: Outlast):
    """At its declaration, naming the step and what it must take."""

    @app.step(name="act")
    async def act(a: int, b: int) -> int:
        return 1

    with pytest.raises(InvalidDefinition, match="undoes the step 'act', and cannot take its arguments"):

        @act.compensation  # pyright: ignore[reportArgumentType, reportCallIssue]
        async def undo(result: int) -> None: ...
