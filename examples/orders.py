"""An order: charged, reserved, looked at by somebody, shipped; or undone, whatever comes in between (docs/orders.md).

outlast run orders.py --id A-17 --user ada --input '{"order": {"items": ["book", "lamp"], "amount": 30}}'
"""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from outlast import Context, ExpectedError, Expired, Outlast, current_step

app = Outlast()  # $OUTLAST_URL, else sqlite:///outlast.db


@dataclass
class Order:
    items: list[str]
    amount: int


@dataclass
class Decision:
    ok: bool
    note: str = ""


class NotShipped(ExpectedError):
    """The shop changed its mind. No bug: it is logged as one line."""


def happens(what: str) -> None:
    """In the world: at the bank, in the warehouse, at the carrier's."""
    step = current_step()
    with Path("world.txt").open("a") as world:
        world.write(f"{step.run_id}: {what} [{step.invocation_id}]\n")


@app.step
def charge(amount: int) -> str:
    happens(f"charge {amount}")
    return f"receipt for {amount}"


@charge.compensation
def refund(amount: int, receipt: str) -> None:
    happens(f"refund {amount}, of the {receipt}")


@app.step
def reserve(item: str) -> str:
    happens(f"reserve a {item}")
    return f"shelf of {item}"


@reserve.compensation
def put_back(item: str, shelf: str) -> None:
    happens(f"put the {item} back, on the {shelf}")


@app.step
async def ship(items: list[str]) -> str:
    happens(f"ship {' and '.join(items)}")
    if seconds := os.environ.get("CARRIER_TAKES"):
        print("waiting for the carrier", flush=True)
        await asyncio.sleep(float(seconds))
    return f"parcel of {' and '.join(items)}"


@app.workflow
async def fulfil(ctx: Context, order: Order, decide_within: str = "3d") -> str:
    receipt = await charge(order.amount)
    for item in order.items:
        await reserve(item)
    answer = await ctx.approval("ship it?", Decision, expires=decide_within, approvers="not-initiator")
    if isinstance(answer, Expired):
        raise NotShipped("nobody decided in time")
    if not answer.value.ok:
        raise NotShipped(f"{answer.by.id} says no: {answer.value.note}")
    return f"{await ship(order.items)}, {receipt}"
