"""Bodies that are hard to read. Their plans are kept in `expected/`; nothing here is run."""

# ruff: noqa: F841, PERF402, RUF059, SIM108 - bodies as authors write them, not as they should

from __future__ import annotations

import asyncio
import functools
from asyncio import gather as together
from collections.abc import AsyncIterator, Callable
from typing import Any

from outlast import Context, Module

app: Any = Module("")  # Any: some of what the bodies call is not in this release
billing: Any = Module("billing")
LIMIT = 3


@app.step
async def charge(order: str, amount: int = 1) -> int:
    return amount


@app.step(name="pack-it")
def pack(item: str) -> str:
    return item


@app.step
async def check(order: str) -> bool:
    return True


@app.step
async def tell(text: str) -> None: ...


@billing.step
async def refund(order: str) -> str:
    return order


app.include(billing)
STEPS: Any = {"charge": charge, "check": check}
quick = functools.partial(charge, amount=5)
tuned = charge.options(retries=1, name="second try")


@app.workflow
async def nested_loops(ctx: Context, orders: list[list[str]]) -> int:
    total = 0
    for row in orders:
        for order in row:
            while not await check(order):
                await ctx.sleep("1min")
                if total > LIMIT:
                    break
            else:
                continue
            total += await charge(order)
    return total


@app.workflow
async def comprehension_in_gather(ctx: Context, items: list[str]) -> list[Any]:
    first, *rest = await asyncio.gather(charge("a"), *[pack(item) for item in items if item])
    return await together(*(pack(item) for item in rest), return_exceptions=True)


@app.workflow
async def matching(ctx: Context, order: dict[str, Any]) -> str:
    match order:
        case {"kind": "book", "id": id} if await check(id):
            return await pack(id)
        case {"kind": "gift" | "card"}:
            await charge("gift")
        case [first, *_]:
            await tell(first)
        case _:
            raise ValueError(order)
    return ""


@app.workflow
async def walrus(ctx: Context, order: str) -> int:
    if (amount := await charge(order)) > 5 and (paid := await check(order)):
        await tell(f"{amount!r:>3} of {order}: {paid}")
    while chunk := await pack(order):
        order = chunk
    return amount


@app.workflow
async def trying(ctx: Context, order: str) -> None:
    try:
        receipt = await charge(order)
    except (ValueError, KeyError) as error:
        await tell(str(error))
        return
    except Exception:
        await refund(order)
        raise
    else:
        await pack(order)
    finally:
        await tell("done")
    await charge(order, receipt)


async def prepare(order: str, *, twice: bool = False) -> int:
    """A helper that calls steps."""
    if twice:
        await charge(order)
    return await charge(order)


def make_calls(items: list[str]) -> Any:
    return [pack(item) for item in items]


async def recurse(order: str, depth: int) -> None:
    await charge(order)
    if depth:
        await recurse(order, depth - 1)


async def apply(step: Callable[..., Any], *args: Any) -> Any:
    return await step(*args)


@app.workflow
async def helpers(ctx: Context, order: str, items: list[str]) -> None:
    await prepare(order, twice=True)
    parcels = await asyncio.gather(*make_calls(items))
    await recurse(order, 3)
    await apply(refund, order)
    await apply(quick, parcels)


@app.workflow
async def conditions(ctx: Context, order: str) -> None:
    if await check(order):
        await pack(order)
    elif await check.options(name="check again")(order) or LIMIT > 2:
        await tell("again")
    elif not (await charge(order)):
        await refund(order)
    else:
        assert await check(order)


@app.workflow
async def ternaries(ctx: Context, order: str, big: bool) -> Any:
    receipt = await charge(order) if big else await refund(order)
    step = charge if big else refund
    await step(order)
    return receipt and await tell("ok")


@app.workflow
async def by_name(ctx: Any, order: str) -> None:
    receipt = await ctx.call("billing:refund", {"order": order}, retries=2, name="give back")
    await ctx.do("fetch", lambda: 5, timeout="3s")
    await ctx.call(order)
    await ctx.do(f"for {order}", dict)
    ctx.compensate(refund, order)
    ctx.keep("charge")
    ctx.keep(receipt)


@app.workflow
async def aliases(ctx: Context, order: str, kind: str) -> None:
    pay = charge
    again = pay.options(name="third try")
    later = functools.partial(again, order)
    await later()
    await quick(order)
    await tuned(order)
    await STEPS["charge"](order)
    await STEPS[kind](order)
    pay = refund
    await pay(order)


@app.workflow
async def never_awaited(ctx: Context, order: str) -> None:
    charge(order)
    forgotten = pack(order)
    asyncio.gather(check(order))
    print(refund)


@app.workflow
async def unreadable(ctx: Context, order: Any, steps: Any) -> None:
    await order.ship()
    await steps[0](order)
    for step in steps:
        await step(order)
    await getattr(billing, "refund")(order)  # noqa: B009
    order.later = charge
    steps.register(check, pack("x"))
    async with order.lock():
        await tell("inside")


@app.workflow
async def closures(ctx: Context, order: str) -> None:
    bound = 3

    async def pay(times: int) -> None:
        for _ in range(times):
            await charge(order, bound)

    async def unused() -> None:
        await tell("never")

    send = lambda text: tell(text)  # noqa: E731
    await pay(2)
    await send("hello")
    await asyncio.gather(pay(1), send("side by side"))


@app.workflow
async def changed_in_loop(ctx: Context, order: str) -> None:
    step = charge
    for _ in range(3):
        await step(order)
        step = refund
    await step(order)
    other = charge
    while True:
        if order:
            other = refund
            break
    await other(order)


@app.workflow
async def keyword_arguments(ctx: Context, order: str, more: dict[str, Any]) -> None:
    await charge(order=order, **more)
    await charge(*more)
    await charge(order, amount=len(order) * 2 if order else -1)
    await tell(f"{order!s} {more['a'].b[1:2]} {[x for x in more if x]}")
    await tell({**more, "k": (1, None, True)})


class Shop:
    """A helper that is an object."""

    def __init__(self) -> None:
        self.step = charge

    async def sell(self, order: str) -> int:
        await self.tell_them(order)
        return await self.step(order)

    @staticmethod
    async def tell_them(order: str) -> None:
        await tell(order)


shop = Shop()


@app.workflow
async def objects(ctx: Context, order: str) -> None:
    await shop.sell(order)
    await Shop.tell_them(order)
    await Shop().sell(order)


@app.workflow
async def deterministic(ctx: Context, order: str) -> int:
    await ctx.milestone("begun")
    receipt = await charge(order)
    first, second = await asyncio.gather(pack("a"), check(order))
    await charge(first, amount=second)
    await ctx.sleep("1h")
    return receipt


@app.workflow
async def choosing_calls(ctx: Context, order: str, big: bool) -> None:
    if big:
        call = charge(order)
    else:
        call = refund(order)
    await call
    maybe = charge(order) if big else None
    if maybe is not None:
        await maybe
    await (check(order) if big else pack(order))


@app.workflow
async def early_returns(ctx: Context, order: str) -> str:
    if not order:
        return ""
    try:
        with_receipt = await charge(order)
    finally:
        if order == "x":
            return await pack(order)  # noqa: B012
    return str(with_receipt)


@app.workflow
async def shadowed(ctx: Context, charge: Any, items: list[Any]) -> None:
    await charge("not the step")
    found = [check for check in items]  # noqa: C416
    for pack in items:
        found.append(pack)
    await tell(str(found))


async def settle(order: str, depth: int) -> int:
    if depth and not await check(order):
        return await settle(order, depth - 1)
    return await charge(order)


@app.workflow
async def recursion(ctx: Context, order: str) -> int:
    return await settle(order, 3)


def each_pack(items: list[str]) -> Any:
    for item in items:
        if item:
            yield pack(item)


async def one_by_one(items: list[str]) -> AsyncIterator[str]:
    for item in items:
        yield await pack(item)


@app.workflow
async def generators(ctx: Context, items: list[str]) -> list[Any]:
    late = [call async for call in one_by_one(items) if await check(call)]
    return [await call for call in each_pack(late)]


@app.workflow
async def spread(ctx: Context, orders: list[str], **more: Any) -> Any:
    calls = (charge(*orders), refund(order=orders[0], **more))
    begun = [asyncio.ensure_future(call) for call in calls]
    results = {order: await pack(order) for order in orders if (known := await check(order))}
    return [*await asyncio.gather(*begun), results, known]


@app.workflow
async def nested_tries(ctx: Context, orders: list[str]) -> None:
    for order in orders:
        try:
            try:
                await charge(order)
            except ValueError as error:
                if not await check(str(error)):
                    continue
                raise LookupError(await pack(order)) from error
            else:
                await tell(order)
            finally:
                await ctx.sleep("1min")
        except (LookupError, TimeoutError):
            await refund(order)
            break
    else:
        await tell("all")
