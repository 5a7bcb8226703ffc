"""Bodies whose journals are kept for every release: all that a body may do. They never change: a body that did would
show nothing of the release that wrote its journal. What is new gets a new one.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from outlast import Context, Outlast, StepFailed, current_step

__all__ = ["app", "broken"]

app = Outlast("memory://")
broken: set[str] = set()
"""Names of what does not work yet."""


@dataclass
class Line:
    """What an order has."""

    what: str
    price: Decimal
    due: datetime | None = None


@app.step(name="add")
async def add(a: int, b: int) -> int:
    return a + b


@app.step(name="price")
def price(line: Line) -> Line:  # a plain function runs in a thread
    return Line(line.what, line.price * 2, datetime(2026, 7, 1, 12, tzinfo=UTC))


@app.step(name="shaky", retries=3, backoff="1s")
async def shaky(until: int) -> int:
    if current_step().attempt < until:
        raise ConnectionError("not yet")
    return current_step().attempt


@app.step(name="mendable", retries=1, backoff="1s")
async def mendable(what: str) -> str:
    if what in broken:
        raise ValueError(f"{what} is broken")
    return what


@app.step(name="book", retries=0)
async def book(what: str) -> str:
    if what == "nothing":
        raise LookupError("there is nothing")
    return f"booked {what}"


@book.compensation
async def cancel_booking(what: str, result: str) -> None:
    return None


@app.step(name="render", queue="gpu")
async def render(scene: str) -> str:
    return f"picture of {scene}"


@app.workflow(name="parallel")
async def parallel(ctx: Context, numbers: list[int]) -> dict[str, Any]:
    gathered = await asyncio.gather(*(add(number, 1) for number in numbers))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(add(number, 2)) for number in numbers]
    done, pending = await asyncio.wait(
        [asyncio.create_task(shaky(3)), asyncio.create_task(add(1, 1))], return_when="FIRST_COMPLETED"
    )
    for task in pending:
        task.cancel()
    try:
        async with asyncio.timeout(0.5):
            await asyncio.sleep(60)
    except TimeoutError:
        gathered.append(-1)
    queue: asyncio.Queue[int] = asyncio.Queue()
    is_over = asyncio.Event()

    async def consume() -> int:
        total = 0
        while not (is_over.is_set() and queue.empty()):
            total = await add(total, await queue.get())
        return total

    consumer = asyncio.create_task(consume())
    for number in numbers:
        await queue.put(await add(number, 0))
    is_over.set()
    queue.put_nowait(0)
    return {
        "gathered": gathered,
        "grouped": [task.result() for task in tasks],
        "first": [task.result() for task in done],
        "consumed": await consumer,
    }


@app.workflow(name="failing")
async def failing(ctx: Context) -> list[Any]:
    found: list[Any] = [await shaky(3)]
    try:
        await book("nothing")
    except LookupError as error:
        found.append(str(error))
    results = await ctx.map(book, ["tea", "nothing", "milk"], limit=2, on_error="collect")
    found += [result.message if isinstance(result, StepFailed) else result for result in results]
    return found


@app.workflow(name="outside")
async def outside(ctx: Context) -> list[Any]:
    paid = await ctx.wait_for("paid", int)
    decided = await ctx.approval("ship it?", bool)
    await ctx.suspend("look at it")
    late = await ctx.approval("late?", bool, expires="1h")
    return [paid, decided.value, type(late).__name__]


@app.workflow(name="saga")
async def saga(ctx: Context) -> None:
    await book("flight")
    kept = await book("insurance")
    ctx.keep(book)
    await book("hotel")
    ctx.compensate(lambda: book("taxi back"))
    await ctx.set_state("kept", kept)
    await book("nothing")


@app.workflow(name="child")
async def child(ctx: Context, n: int) -> int:
    if n < 0:
        raise ValueError("below zero")
    await ctx.sleep("1h")
    return await add(n, n)


@app.workflow(name="family")
async def family(ctx: Context) -> list[Any]:
    first = await child(1)
    handle = await ctx.start(child, 2)
    called = await ctx.call("child", {"n": 3})
    try:
        await child(-1)
    except ValueError as error:
        called = [called, str(error)]
    return [first, await handle.result(), called]


@app.workflow(name="deterministic")
async def deterministic(ctx: Context, line: Line) -> dict[str, Any]:
    began = ctx.now()
    drawn = [ctx.random.randint(1, 6) for _ in range(3)]
    name = str(ctx.uuid())
    await ctx.sleep_until(began + timedelta(days=30))
    is_patched = ctx.patched("since-0.1")
    await ctx.milestone("half way")
    priced = await price(line)
    length = await ctx.do("measure", lambda: len(priced.what))
    await ctx.set_state("priced", str(priced.price))
    await asyncio.sleep(5)
    return {"drawn": drawn, "name": name, "patched": is_patched, "length": length, "took": (ctx.now() - began).days}


@app.workflow(name="queued")
async def queued(ctx: Context) -> str:
    return await render("a house")


@app.workflow(name="cleaning")
async def cleaning(ctx: Context) -> None:
    try:
        await ctx.sleep("10d")
    finally:
        await add(0, 0)


@app.workflow(name="retried")
async def retried(ctx: Context) -> list[str]:
    return [await mendable("first"), await mendable("second"), await mendable("third")]
