"""Bodies with parallel parts, waits and children, that are hard to read; see `hard`."""

# ruff: noqa: PERF401, RUF059 - bodies as authors write them, not as they should

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from outlast import Context
from tests.plans.hard import app, charge, check, nested_loops, pack, prepare, refund, tell, walrus


@app.workflow
async def groups(ctx: Context, items: list[str]) -> list[str]:
    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        tasks = [group.create_task(pack(item)) for item in items]
        group.create_task(prepare("x"))
        for item in items:
            tasks.append(group.create_task(pack(item)))
        await tell("begun")
    return [task.result() for task in tasks]


@app.workflow
async def tasks(ctx: Context, order: str) -> None:
    first = asyncio.create_task(charge(order))
    second = asyncio.ensure_future(refund(order))
    await pack(order)
    done, pending = await asyncio.wait({first, second}, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    third = asyncio.create_task(check(order))
    await tell("not waiting for the third")
    if await asyncio.wait_for(asyncio.shield(pack("shielded")), 5):
        await third


@app.workflow
async def as_they_come(ctx: Context, items: list[str]) -> None:
    for parcel in asyncio.as_completed([pack(item) for item in items]):
        await tell(await parcel)
    async for number in numbers(items):
        await charge("n", number)
    results = [await charge(item) async for item in numbers(items)]
    await tell(str(results))


async def numbers(items: list[str]) -> AsyncIterator[int]:
    for item in items:
        yield await charge(item)


@app.workflow
async def waits(ctx: Any, order: str) -> None:
    await ctx.sleep_until(ctx.now())
    await asyncio.sleep(5)
    payment = await ctx.wait_for("paid", dict, timeout="3d")
    await ctx.suspend("look at it")
    answer = await ctx.approval("ship it?", bool, expires="2d", approvers="not-initiator")
    await ctx.milestone("approved")
    await ctx.set_state("payment", payment)
    if ctx.patched("tell twice"):
        await tell(answer)
    queue: asyncio.Queue[int] = asyncio.Queue()
    await queue.put(1)
    await queue.get()
    await ctx.continue_as_new(order)


@app.workflow
async def children(ctx: Any, order: str) -> None:
    count = await nested_loops([[order]])
    handle = ctx.start(walrus, order, id="w")
    other = await ctx.start("matching", {})
    await tell(str(count))
    await handle.result()
    await other.result()
    await walrus.fn(ctx, order)


@app.workflow
async def maps(ctx: Any, items: list[str]) -> None:
    parcels = await ctx.map(pack, items, limit=5)
    await ctx.map(lambda item: charge(item, amount=len(parcels)), items, on_error="collect")
    await ctx.map(prepare, items)
    await asyncio.gather(*map(check, items))


@app.workflow
async def made_before(ctx: Context, order: str) -> None:
    first = charge(order)
    second = pack(order)
    await second
    await first
    calls = [check(order)]
    for _ in range(2):
        calls.append(check(order))
    await asyncio.gather(*calls)
    both = asyncio.gather(charge("x"), charge("y"))
    await tell("meanwhile")
    x, y = await both
    await charge("sum", x + y)


@asynccontextmanager
async def locked(order: str) -> AsyncIterator[str]:
    token = await charge(order)
    try:
        yield str(token)
    finally:
        await refund(order)


@app.workflow
async def contexts(ctx: Context, order: str) -> None:
    lock = asyncio.Lock()
    async with lock:
        await tell("locked")
    async with locked(order) as token:
        await pack(token)
    with open("file") as file:  # noqa: ASYNC230, PTH123
        await tell(file.name)


@app.workflow
async def exception_groups(ctx: Context, order: str) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(charge(order))
            group.create_task(pack(order))
    except* ValueError as errors:
        for error in errors.exceptions:
            await tell(str(error))
