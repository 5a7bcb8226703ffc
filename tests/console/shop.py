"""A shop whose bank is busy at times: what the pictures of the console show (tests/console/pictures.py)."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

from outlast import Context, Expired, Graph, Outlast, current_step, ref


@dataclass
class Order:
    id: str
    items: list[str]
    amount: int


@dataclass
class Decision:
    ok: bool
    note: str | None = None


def make_app(url: str) -> Outlast:
    """The app, on the store of that URL."""
    app = Outlast(url)

    @app.step(name="charge", retries=3, backoff="300ms")
    async def charge(order: Order) -> str:
        if current_step().attempt == 1 and order.amount % 2:
            raise ConnectionError("the bank is busy")
        await asyncio.sleep(0.3)
        return f"receipt for {order.amount}"

    @charge.compensation(name="refund")
    async def refund(order: Order, receipt: str) -> None:
        await asyncio.sleep(0.2)

    @app.step(name="pack")
    async def pack(item: str) -> str:
        await asyncio.sleep(random.uniform(0.2, 0.9))
        return f"parcel of {item}"

    @app.step(name="reserve", retries=0)
    async def reserve(order: Order) -> None:
        if order.amount > 90:
            raise LookupError(f"{order.items[0]} is sold out")

    deliver = add_delivery(app)

    @app.workflow(name="fulfil")
    async def fulfil(ctx: Context, order: Order) -> str:
        """Charge, pack and ship an order; a person looks at the large ones."""
        await charge(order)
        await reserve(order)
        async with asyncio.TaskGroup() as group:
            parcels = [group.create_task(pack(item)) for item in order.items]
        await ctx.milestone("packed")
        if order.amount > 50:
            answer = await ctx.approval("ship it?", Decision, expires="3d", approvers="not-initiator")
            if isinstance(answer, Expired) or not answer.value.ok:
                raise ValueError("nobody wanted it shipped")
        return await deliver(len(parcels))

    @app.step(name="inspect", retries=0)
    async def inspect(order: Order) -> str:
        """What came back is as good as new, or is not."""
        return "good" if order.amount < 50 else "worn"

    app.graph(RETURNS)
    return app


def add_delivery(app: Outlast) -> Any:
    """What fulfilling an order ends with; and a cold store, whose workers are elsewhere. Gives the first."""

    @app.step(name="load")
    async def load(parcels: int) -> str:
        await asyncio.sleep(0.2)
        return f"van with {parcels} parcels"

    @app.step(name="drive", retries=2, backoff="200ms")
    async def drive(van: str) -> str:
        if current_step().attempt == 1:
            raise TimeoutError("the road is closed")
        await asyncio.sleep(0.3)
        return f"{van}, arrived"

    @app.workflow(name="deliver")
    async def deliver(ctx: Context, parcels: int) -> str:
        van = await load(parcels)
        await ctx.sleep("1s")
        return await drive(van)

    @app.step(name="freeze", queue="cold")
    async def freeze(box: str) -> None:
        await asyncio.sleep(600)

    @app.workflow(name="store_cold")
    async def store_cold(ctx: Context, box: str) -> None:
        """Keep a box in the cold store, whose workers are elsewhere."""
        await freeze(box)

    return deliver


RETURNS = (
    Graph("take_back")
    .node("inspect", "inspect", input={"order": ref.input.order}, next={"good": "shelve", "worn": "refurbish"})
    .node("refurbish", "pack", for_each=ref.input.order["items"], input={"item": ref.item}, next="shelve")
    .node("shelve", "pack", input={"item": ref.input.order.id})
)
DRAFT = Graph("write_off").node("inspect", "inspect", input={"order": ref.input.order}).output(ref.nodes.inspect)
"""Stored, and to be decided by somebody."""
