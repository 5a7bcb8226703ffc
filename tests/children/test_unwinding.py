"""An unwind that reaches children, and one that outlives its worker (SPEC X4, X5)."""

from __future__ import annotations

import asyncio

from outlast import Context, Outlast
from tests.children.shop import Shop, fails
from tests.homes import everywhere


# SPEC X5
@everywhere
async def test_a_completed_child_undoes_itself_when_its_parent_is_undone(app: Outlast, shop: Shop, diary):
    """In its place in the order; grandchildren too; a child without anything to undo is left alone."""

    @app.workflow(name="plain")
    async def plain(ctx: Context) -> None: ...

    @app.workflow(name="grandchild")
    async def grandchild(ctx: Context, n: int) -> None:
        await shop.charge(n)

    @app.workflow(name="child")
    async def child(ctx: Context, n: int) -> None:
        await shop.charge(n)
        await grandchild.options(id=f"g{n}")(n + 1)

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        await plain.options(id="plain")()
        await shop.charge(1)
        await child.options(id="c")(2)
        await shop.charge(4)
        await shop.boom()

    async with app.worker():
        error = await fails(await app.start(order, id="o"))
        assert error.status == "compensated"
        assert [line.split()[1] for line in diary if "refund" in line] == ["4", "3", "2", "1"]
        statuses = {row.id: str(row.status) for row in (await app.runs()).runs}
        assert statuses == {"o": "compensated", "c": "compensated", "g2": "compensated", "plain": "completed"}


# SPEC X4
@everywhere
async def test_an_unwind_outlives_its_worker(app: Outlast, shop: Shop, diary, tmp_path):
    """A worker that leaves in the middle of an unwind hands it back; the next one goes on where it was."""
    is_gone = asyncio.Event()
    began = asyncio.Event()

    @app.step(name="act")
    async def act() -> int:
        return 1

    @act.compensation(retries=5, backoff=0)
    async def undo(result: int) -> None:
        began.set()
        if not is_gone.is_set():
            await asyncio.sleep(3600)
        diary.append("undone")

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        await shop.charge(1)
        await act()
        await shop.charge(2)
        raise ValueError("now")

    async with app:
        async with app.worker(grace=0.05):
            run = await app.start(order)
            async with asyncio.timeout(10):
                await began.wait()
            assert (await run.status()).status == "compensating"
        is_gone.set()
        async with app.worker():
            assert (await fails(run)).status == "compensated"
        assert diary == [
            "charge 1",
            "charge 2",
            "refund 2 receipt 2 for charge#1",
            "undone",
            "refund 1 receipt 1 for charge",
        ]
