"""Rounds of children, and children of rounds (F30, C2, X5)."""

from __future__ import annotations

import asyncio

import pytest

from outlast import (
    Context,
    Outlast,
    RunCancelled,
    RunFailed,
)
from tests.rounds.bodies import PATIENCE_S, declare_counting, declare_reading


async def test_a_parent_waits_for_the_last_round_of_its_child(any_app: Outlast):
    """Its signals and its cancel follow; the child's step succeeds with what the last round gives."""
    app = any_app
    declare_reading(app)
    declare_counting(app, [])

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> list[object]:
        child = await ctx.start("reading", 3)
        for number in range(3):
            await child.signal("number", number)
            await ctx.sleep(0.03)
        counted = await ctx.call("counting", {"most": 3})
        stopped = await ctx.start("reading", 3)
        await stopped.signal("number", 1)
        await ctx.sleep(0.03)
        await stopped.cancel("enough")
        try:
            await stopped.result()
        except RunCancelled as error:
            return [await child.result(), counted, error.reason]
        return []

    async with app.worker():
        run = await app.start(parent)
        assert await run.result(timeout=PATIENCE_S) == [[0, 1, 2], 3, "enough"]
        steps = {step.key: str(step.status) for step in (await run.status()).steps}
        assert steps == {"reading": "succeeded", "counting": "succeeded", "reading#1": "failed"}


async def test_a_child_of_many_rounds_is_undone_and_retried_in_its_last(app: Outlast):
    """What earlier rounds did stays; a failed last round goes on with its parent's retry."""
    undone: list[int] = []
    mended: list[bool] = []

    @app.step(name="book", retries=0)
    async def book(n: int) -> int:
        return n

    @book.compensation
    async def unbook(n: int, result: int) -> None:
        undone.append(n)

    @app.step(name="fragile", retries=0)
    async def fragile() -> None:
        if not mended:
            raise RuntimeError("not mended")

    @app.workflow(name="booking")
    async def booking(ctx: Context, n: int = 0, fails: bool = False) -> int:
        await book(n)
        if n < 2:
            await ctx.continue_as_new(n + 1, fails)
        if fails:
            ctx.keep(book)
            await fragile()
        return n

    @app.workflow(name="undoes")
    async def undoes(ctx: Context) -> None:
        await booking()
        raise ValueError("all for nothing")

    @app.workflow(name="retries")
    async def retries(ctx: Context) -> int:
        return await booking(0, True)

    async with app.worker():
        run = await app.start(undoes)
        with pytest.raises(RunFailed):
            await run.result(timeout=PATIENCE_S)
        assert (await run.status()).status == "compensated"
        assert undone == [2]
        run = await app.start(retries)
        with pytest.raises(RunFailed, match="not mended"):
            await run.result(timeout=PATIENCE_S)
        mended.append(True)
        await run.retry()
        assert await run.result(timeout=PATIENCE_S) == 2
        assert undone == [2]


async def test_children_that_a_round_left_are_cancelled_and_tell_no_later_round(app: Outlast):
    """A child of the next round has the same key, and its own end."""

    @app.workflow(name="child")
    async def child(ctx: Context, n: int) -> int:
        if n == 0:
            await ctx.wait_for("never")
        return n

    @app.workflow(name="leaves")
    async def leaves(ctx: Context, n: int = 0) -> int:
        handle = await ctx.start(child, n)
        await ctx.sleep(0.02)
        if n == 0:
            await ctx.continue_as_new(1)
        return await handle.result()

    async with app.worker():
        run = await app.start(leaves)
        assert await run.result(timeout=PATIENCE_S) == 1
        rows = (await app.runs(workflow="child")).runs
        async with asyncio.timeout(PATIENCE_S):
            while {str(row.status) for row in rows} != {"completed", "cancelled"}:
                rows = (await app.runs(workflow="child")).runs
                await asyncio.sleep(0.01)
