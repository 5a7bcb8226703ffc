"""Mistakes, one on each line marked `# E`: mypy and pyright, both strict, find all of them and nothing else."""

from __future__ import annotations

import asyncio

from outlast import Context, Module, Outlast, Run, current_step

app = Outlast("memory://")
billing = Module("billing")


@app.step
async def charge(order: int) -> str:
    return str(order)


@app.step
def pack(item: str) -> str:
    return item


@app.workflow  # E  # without a context
async def noctx(order: int) -> str:
    return str(order)


@app.workflow  # E  # without a context
def plain_noctx(order: int) -> str:
    return str(order)


@app.workflow
def plain(ctx: Context, order: int) -> str:
    receipt: int = ctx.wait(charge(order))  # E
    ctx.wait(charge("x"))  # E
    ctx.wait(3)  # E
    a, b = ctx.gather(charge(order), pack("a"), pack("b"))  # E
    counts: list[int] = ctx.gather(*(pack(item) for item in "ab"))  # E
    charge(order).upper()  # E  # not waited for
    print(receipt, a, b, counts)
    return str(order)


@app.step(retires=3)  # E
async def misspelt() -> None: ...


@app.step(timeout=[1])  # E
async def mistimed() -> None: ...


@app.workflow(version=3)  # E
async def versioned(ctx: Context) -> None: ...


@app.workflow
async def body(ctx: Context, order: int) -> str:
    await charge("x")  # E
    await charge(order, order)  # E
    await charge()  # E
    await charge(amount=order)  # E
    await charge.options(retries="3")(order)  # E
    await charge.options(retries=3)("x")  # E
    await charge.options(nmae="x")(order)  # E
    number: int = await pack("a")  # E
    pack("a").upper()  # E  # not awaited
    await ctx.map(pack, [1, 2])  # E
    await ctx.map(pack, ["a"], on_error="ignore")  # E
    await ctx.do("name", 3)  # E
    await ctx.do("name", lambda one: one)  # E
    text: str = await ctx.do("name", lambda: 3)  # E
    await ctx.do("name", lambda: 3, retires=1)  # E
    await ctx.call(charge, {"order": 1})  # E
    result: int = await ctx.call("charge", {"order": 1}, returns=str)  # E
    paid: int = await ctx.wait_for("paid", str)  # E
    await ctx.wait_for("paid", str, timout=3)  # E
    await ctx.suspend()  # E
    await ctx.approval("ship it?", bool, approvers="anybody")  # E
    print((await ctx.approval("ship it?", bool, expires=3)).value)  # E  # it may have expired
    answer: str = (await ctx.approval("ship it?", bool)).value  # E
    await ctx.sleep([3])  # E
    await ctx.sleep_until("tomorrow")  # E
    ctx.run_id = "x"  # E
    ctx.state["k"] = 1  # E
    await body(ctx, 3)  # E  # ctx is not passed
    await body("x")  # E
    async with asyncio.TaskGroup() as group:
        task: asyncio.Task[int] = group.create_task(pack("a"))  # E
    print(number, paid, answer, text, result, task, current_step().run)  # E
    return ""


async def main() -> None:
    await app.start(body, "x")  # E
    await app.start(body)  # E
    await app.start(plain, "x")  # E
    run = await app.start(body, 3)
    output: int = await run.result()  # E
    await app.start(body, 3, id=3)  # E
    await app.start(body, 3, timeout=[3])  # E
    await run.approve("ship it?", True, by="bob")  # E
    await run.approve("ship it?", True)  # E
    await run.signal(3)  # E
    await app.start(body, 3, idd="a")  # E
    other: Run[int] = await app.start(body, 3)  # E
    app.include("billing")  # E
    print(output, other, app.run_sync(body, "x"))  # E
