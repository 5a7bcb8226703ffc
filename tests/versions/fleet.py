"""A shop in two versions, for real worker processes: `test_fleet`."""

from __future__ import annotations

STEPS = """
import os
from outlast import Context, Outlast, current_step

app = Outlast("sqlite:///shop.db")

def note(what: str) -> None:
    line = f"{what} {current_step().invocation_id}\\n"
    with open("ledger.txt", "a") as ledger:
        ledger.write(line)

@app.step(name="first")
async def first(n: int) -> str:
    note(f"first {n}")
    return f"first {n}"

@app.step(name="second")
async def second(n: int) -> str:
    note(f"second {n}")
    return f"second {n}"

@app.step(name="extra")
async def extra(n: int) -> str:
    note(f"extra {n}")
    return f"extra {n}"
"""

OLD = (
    STEPS
    + """
@app.workflow(name="compatible")
async def compatible(ctx: Context, n: int, pause: float) -> list[str]:
    one = await first(n)
    await ctx.sleep(pause)
    return [one, await second(n)]

@app.workflow(name="planned")
async def planned(ctx: Context, n: int, pause: float) -> list[str]:
    one = await first(n)
    await ctx.sleep(pause)
    return [one, *[await second(n) for _ in range(2)]]

@app.workflow(name="incompatible")
async def incompatible(ctx: Context, n: int, pause: float) -> list[str]:
    import math  # no plan has imports
    one = await first(math.floor(n))
    await ctx.sleep(pause)
    return [one, await second(n)]
"""
)
"""Version 1."""

NEW = (
    STEPS
    + """
@app.workflow(name="compatible")
async def compatible(ctx: Context, n: int, pause: float) -> list[str]:
    one = await first(n)
    await ctx.sleep(pause)
    two = await second(n)
    return [one, two, await extra(n)]

@app.workflow(name="planned")
async def planned(ctx: Context, n: int, pause: float) -> list[str]:
    zero = await extra(n)
    await ctx.sleep(pause)
    return [zero]

@app.workflow(name="incompatible")
async def incompatible(ctx: Context, n: int, pause: float) -> list[str]:
    return [await extra(n)]
"""
)
"""Version 2: one workflow goes on after what it did, the others begin otherwise."""
