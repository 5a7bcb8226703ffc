"""Apps of several versions on one store, and runs that are in flight between them."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from outlast import Context, Outlast
from outlast.core.states import RunStatus
from outlast.stores.memory import MemoryStore

PATIENCE_S = 20


class Deploys:
    """Apps of several versions on one store."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._ahead = 0
        MemoryStore(url, lambda: time.time_ns() // 1000 + self._ahead)
        self.done: list[str] = []
        """What steps did, whoever ran them."""

    def pass_an_hour(self) -> None:
        """What slept is due for the next worker."""
        self._ahead += 3_600_000_000

    def app(self, body: Any, **settings: Any) -> Any:
        """An app whose workflow `fulfil` is this body; its steps are always the same."""
        app: Any = Outlast(self.url, **settings)

        @app.step(name="charge", retries=0)
        async def charge(order: str, amount: int = 1) -> str:
            self.done.append(f"charge {order} {amount}")
            return f"receipt {order} {amount}"

        @app.step(name="pack", retries=0)
        async def pack(item: str) -> str:
            self.done.append(f"pack {item}")
            return f"parcel {item}"

        app.workflow(name="fulfil")(body(charge, pack))
        return app


async def until(condition: Any) -> Any:
    """What the condition gives, once it is something."""
    async with asyncio.timeout(PATIENCE_S):
        while not (value := await condition()):
            await asyncio.sleep(0.01)
    return value


async def park(deploys: Deploys, app: Any) -> None:
    """Start a run, work it until it sleeps, and let it be due."""
    async with app.worker():
        run = await app.start("fulfil", "a", id="r")

        async def sleeps() -> bool:
            return (await run.status()).waiting_on.startswith("sleep")

        await until(sleeps)
    deploys.pass_an_hour()


async def finish(app: Any) -> Any:
    """Work the run to its end."""
    async with app.worker():
        run = await app.get_run("r")
        return await run.result(timeout=PATIENCE_S)


async def suspended(app: Any) -> Any:
    """Its status, once it is suspended."""

    async def look() -> Any:
        info = await (await app.get_run("r")).status()
        return info if info.status is RunStatus.SUSPENDED else None

    return await until(look)


async def told_in_conflict(app: Any) -> str:
    """Work the run until it is suspended; what that says."""
    async with app.worker():
        assert (await suspended(app)).waiting_on == "VERSION_CONFLICT"
        timeline = await (await app.get_run("r")).timeline()
    told: list[str] = [item.detail for item in timeline if item.kind == "suspended"]
    return told[-1]


async def sleeps(run: Any) -> bool:
    return (await run.status()).waiting_on.startswith("sleep")


async def taken(app: Any) -> list[tuple[str | None, str]]:
    """Which versions a run went on with, and how."""
    timeline = await (await app.get_run("r")).timeline()
    return [(item.name, item.detail) for item in timeline if item.kind == "version"]


def one(charge: Any, pack: Any) -> Any:
    async def fulfil(ctx: Context, order: str) -> list[str]:
        receipt = await charge(order)
        await ctx.sleep("1h")
        return [receipt, await pack(order)]

    return fulfil


def later_changed(charge: Any, pack: Any) -> Any:
    async def fulfil(ctx: Context, order: str) -> list[str]:
        receipt = await charge(order)
        await ctx.sleep("1h")
        return [receipt, await pack(order), await pack("a second parcel")]

    return fulfil


def begun_otherwise(charge: Any, pack: Any) -> Any:
    async def fulfil(ctx: Context, order: str) -> list[str]:
        parcel = await pack(order)
        await ctx.sleep("1h")
        return [parcel]

    return fulfil


def unclosed(charge: Any, pack: Any) -> Any:
    async def fulfil(ctx: Context, order: str) -> list[str]:
        import math  # a plan has no imports

        receipt = await charge(order, math.floor(1.5))
        await ctx.sleep("1h")
        return [receipt]

    return fulfil
