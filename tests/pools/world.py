"""Workflows that are shared out, and a count of how many of their steps execute at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from outlast.app import Outlast
from outlast.authoring.context import Context
from outlast.engine.worker import Worker

__all__ = ["World"]


class World:
    """One store, and apps on it, each as a process of its own would have it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.open = asyncio.Event()
        self.order: list[str] = []
        """Names of the runs whose step began."""
        self.inside: Counter[str] = Counter()
        """Steps that execute now, by workflow."""
        self.most: Counter[str] = Counter()
        self.undone: list[str] = []

    def app(self, *, queue: dict[str, Any] | None = None, **limits: Any) -> Outlast:
        """Workflows with these limits, and some without; `queue` for what is said of the queue `gpu`."""
        app = Outlast(self.url)
        if queue is not None:
            app.queue("gpu", **queue)

        @app.step(name="hold", retries=0)
        async def hold(name: str, workflow: str) -> str:
            return await self.hold(name, workflow)

        self._declare_work(app, hold, limits)
        self._declare_waiting(app, hold, limits)
        return app

    async def hold(self, name: str, workflow: str) -> str:
        """What a step does: it lasts until the world opens."""
        self.order.append(name)
        self.inside[workflow] += 1
        self.most[workflow] = max(self.most[workflow], self.inside[workflow])
        try:
            await self.open.wait()
        finally:
            self.inside[workflow] -= 1
        return name

    @staticmethod
    def _declare_work(app: Outlast, hold: Any, limits: dict[str, Any]) -> None:
        @app.workflow(name="work", **limits)
        async def work(ctx: Context, name: str) -> str:
            result: str = await hold(name, "work")
            return result

        @app.workflow(name="free")
        async def free(ctx: Context, name: str) -> str:
            result: str = await hold(name, "free")
            return result

        @app.workflow(name="parent")
        async def parent(ctx: Context, names: list[str]) -> list[str]:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(work(name)) for name in names]
            return [task.result() for task in tasks]

        @app.workflow(name="rounds", **limits)
        async def rounds(ctx: Context, left: int) -> int:
            await hold(f"round {left}", "rounds")
            if left:
                await ctx.continue_as_new(left - 1)
            return left

    def _declare_waiting(self, app: Outlast, hold: Any, limits: dict[str, Any]) -> None:
        @app.step(name="undo")
        async def undo(name: str) -> None:
            self.undone.append(name)

        @app.workflow(name="nest", **limits)
        async def nest(ctx: Context, depth: int) -> int:
            """A run of its own kind below it, and so on."""
            return 0 if depth == 0 else 1 + await nest(depth - 1)

        @app.workflow(name="doze", **limits)
        async def doze(ctx: Context, name: str, naps: int, nap_s: float) -> str:
            """It works for no time at all, again and again."""
            for _ in range(naps):
                await ctx.sleep(nap_s)
            result: str = await hold(name, "doze")
            return result

        @app.workflow(name="ask", **limits)
        async def ask(ctx: Context, name: str) -> str:
            answer = await ctx.wait_for("answer", str)
            result: str = await hold(f"{name} {answer}", "ask")
            return result

        @app.workflow(name="tidy", **limits)
        async def tidy(ctx: Context) -> None:
            try:
                await ctx.wait_for("never", str)
            finally:
                await undo("tidied")

    @asynccontextmanager
    async def working(
        self, *queues: str, limits: dict[str, Any] | None = None, queue: dict[str, Any] | None = None, **settings: Any
    ) -> AsyncIterator[tuple[Outlast, Worker]]:
        """An app with a worker of these queues."""
        app = self.app(queue=queue, **(limits or {}))
        async with app.worker(queues=queues or ("default",), **settings) as worker:
            yield app, worker
