"""Apps on one store, each as a process of its own would have it: its own handle, worker and copy of the functions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from outlast.app import Outlast
from outlast.authoring.module import Module
from outlast.engine.worker import Worker
from outlast.run.handle import Run
from outlast.run.records import AttemptInfo, StepSummary
from tests.tasks.flows import flows

__all__ = ["Elsewhere", "World", "attempts_of", "eventually", "step_of"]

PATIENCE_S = 20.0


class World:
    """One store; `home` works the runs, and further apps work queues."""

    def __init__(self, url: str, settings: dict[str, Any] | None = None) -> None:
        """`settings` of the queue `gpu`."""
        self.url = url
        self._settings = settings or {}

    def app(self, *modules: Module) -> Outlast:
        """Another process's app; it knows these modules, or all there is."""
        app = Outlast(self.url)
        for module in modules or (flows,):
            app.include(module)
        app.queue("gpu", **self._settings)
        return app

    @asynccontextmanager
    async def working(
        self, *queues: str, modules: tuple[Module, ...] = (), **settings: Any
    ) -> AsyncIterator[Elsewhere]:
        """A worker of these queues, for as long as the block lasts."""
        app = self.app(*modules)
        async with app.worker(queues=queues or ("default",), **settings) as worker:
            yield Elsewhere(app, worker)


class Elsewhere:
    """An app and its worker."""

    def __init__(self, app: Outlast, worker: Worker) -> None:
        self.app = app
        self.worker = worker

    async def start(self, workflow: str, *args: object, **options: Any) -> Run[Any]:
        return await self.app.start(f"t:{workflow}", *args, **options)


async def eventually(condition: Callable[[], Awaitable[object] | object], what: str = "it") -> Any:
    """Wait for something that nobody tells of; gives what it came to."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = condition()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, f"{what} did not come"
        await asyncio.sleep(0.005)


async def step_of(run: Run[Any], key: str) -> StepSummary:
    return next(step for step in (await run.status()).steps if step.key == key)


async def attempts_of(run: Run[Any], key: str) -> list[AttemptInfo]:
    return [attempt for attempt in await run.history() if attempt.key == key]
