"""outlast, as it is by default: an app with a worker, on asyncio's own loop."""

# ruff: noqa: D102 - what a contender's methods do stands in protocol.py, once for all

from __future__ import annotations

import asyncio
import importlib.metadata
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from protocol import FAN, Order, play

from outlast import Context, Outlast
from outlast.cli.collector import collect_seldom

QUEUE = "steps"


class OutlastContender:
    """There is nothing to be tuned but how many runs and steps may be at work at once."""

    def __init__(self, order: Order) -> None:
        collect_seldom()  # as `outlast worker` does
        self.version = importlib.metadata.version("outlast")
        self.settings = "defaults; room for as many steps at once as there are runs"
        self._order = order
        self._app = Outlast(order.url)
        self._bodies = _define(self._app)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        if self._order.subject == "client":
            async with self._app:
                yield
            return
        places = max(200, self._order.concurrency * (FAN if self._order.subject == "queued" else 1))
        async with self._app.worker(concurrency=places, queues=("default", QUEUE)):
            yield

    async def run(self, subject: str, steps: int) -> Any:
        run = await self._app.start(self._bodies[subject], steps)
        return await run.result()

    async def put_to_sleep(self, seconds: float) -> None:
        await self._app.start(self._bodies["asleep"], seconds)


def _define(app: Outlast) -> dict[str, Any]:
    @app.step(name="step")
    async def step(number: int) -> int:
        return number

    @app.step(name="queued-step", queue=QUEUE)
    async def queued_step(number: int) -> int:
        return number

    @app.step(name="look")
    async def look() -> int:
        return time.monotonic_ns()  # one clock for all processes of a machine

    @app.workflow(name="sequence")
    async def sequence(_: Context, steps: int) -> int:
        for number in range(steps):
            await step(number)
        return steps

    @app.workflow(name="queued")
    async def queued(_: Context, steps: int) -> int:
        return len(await asyncio.gather(*(queued_step(number) for number in range(steps))))

    @app.workflow(name="look-once")
    async def look_once(_: Context, steps: int) -> int:
        return min([await look() for _number in range(steps)])

    @app.workflow(name="asleep")
    async def asleep(ctx: Context, seconds: float) -> None:
        await ctx.sleep(seconds)

    return {"sequence": sequence, "queued": queued, "look": look_once, "asleep": asleep}


if __name__ == "__main__":
    play(OutlastContender)
