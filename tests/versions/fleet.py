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

@app.step(name="pass_door", retries=1000, backoff=0.5)
async def pass_door(n: int) -> None:
    if os.path.exists("closed"):
        raise ConnectionError("the door is closed")

@app.workflow(name="errand", version="1")
async def errand(ctx: Context, n: int) -> str:
    await ctx.wait_for("go")
    return f"errand {n}"

async def hold(ctx: Context, n: int, pause: float) -> None:
    stage = n // 3 % 4
    if stage == 0:
        await ctx.sleep(pause)
    elif stage == 1:
        await ctx.wait_for("go")
    elif stage == 2:
        await pass_door(n)
    else:
        await errand.options(id=f"errand {n}")(n)
"""

OLD = (
    STEPS
    + """
@app.workflow(name="compatible")
async def compatible(ctx: Context, n: int, pause: float) -> list[str]:
    one = await first(n)
    await hold(ctx, n, pause)
    return [one, await second(n)]

@app.workflow(name="planned")
async def planned(ctx: Context, n: int, pause: float) -> list[str]:
    one = await first(n)
    await hold(ctx, n, pause)
    return [one, *[await second(n) for _ in range(2)]]

@app.workflow(name="incompatible")
async def incompatible(ctx: Context, n: int, pause: float) -> list[str]:
    import math  # no plan has imports
    one = await first(math.floor(n))
    await hold(ctx, n, pause)
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
    await hold(ctx, n, pause)
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
