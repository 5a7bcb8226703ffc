"""Absurd (PyPI `absurd-sdk`, its schema from `absurdctl`), in .venv-peers. On PostgreSQL alone.

A worker and what starts tasks have one connection each, so all that runs at once takes turns on it. Default: one
worker, as its README starts it, with room for all. Tuned: several workers in the process, each with a connection and
its part of the room, which poll every 10 ms instead of every 250; and as many connections to start tasks.
"""

# ruff: noqa: D102 - what a contender's methods do stands in protocol.py, once for all

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from protocol import Order, play

absurd_sdk: Any = importlib.import_module("absurd_sdk")  # this module runs where it is installed, and nowhere else
absurdctl: Any = importlib.import_module("absurdctl")
psycopg: Any = importlib.import_module("psycopg")

MAIN, QUEUE = "default", "steps"
WORKERS = 8
POLLING_S = 0.01


class AbsurdContender:
    """In one process, a task's end is told by its handler: a client that polled for it would measure its polling."""

    def __init__(self, order: Order) -> None:
        self.version = importlib.metadata.version("absurd-sdk")
        self._order = order
        self._workers = min(WORKERS, order.concurrency) if order.is_tuned else 1
        self._polling_s = POLLING_S if order.is_tuned else 0.25
        self.settings = (
            f"{self._workers} worker{'s' if self._workers > 1 else ''} in the process, each with a connection, "
            f"polled every {self._polling_s * 1000:g} ms"
        )
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._starters: list[Any] = []

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        is_client = self._order.subject == "client"
        if not is_client:
            await self._prepare()
        self._starters = [absurd_sdk.AsyncAbsurd(self._order.url, MAIN) for _ in range(self._workers)]
        workers = []
        if not is_client:
            workers = [self._make_worker(MAIN) for _ in range(self._workers)]
            if self._order.subject == "queued":
                workers += [self._make_worker(QUEUE) for _ in range(self._workers)]
        room = -(-self._order.concurrency // self._workers)
        loops = [
            asyncio.create_task(worker.start_worker(concurrency=room, poll_interval=self._polling_s))
            for worker in workers
        ]
        try:
            yield
        finally:
            for worker in workers:
                worker.stop_worker()
            await asyncio.wait(loops, timeout=5.0) if loops else None

    async def run(self, subject: str, steps: int) -> Any:
        starter = self._starters[next(self._numbers) % len(self._starters)]
        if self._order.subject == "client":
            spawned = await starter.spawn("look", {"number": 0, "steps": steps}, queue=MAIN)
            found = await starter.await_task_result(spawned["task_id"])
            return found.result
        number, done = next(self._numbers), asyncio.get_running_loop().create_future()
        self._waiting[number] = done
        await starter.spawn(subject, {"number": number, "steps": steps}, queue=MAIN)
        return await done

    async def put_to_sleep(self, seconds: float) -> None:
        await self.run("asleep", int(seconds))

    async def _prepare(self) -> None:
        connection = await psycopg.AsyncConnection.connect(self._order.url, autocommit=True)
        await connection.execute(absurdctl.BUNDLED_SCHEMA_SQL)
        await connection.close()
        client = absurd_sdk.AsyncAbsurd(self._order.url, MAIN)
        for queue in (MAIN, QUEUE):
            await client.create_queue(queue)
        await client.close()

    def _make_worker(self, queue: str) -> Any:
        app = absurd_sdk.AsyncAbsurd(self._order.url, queue)
        spawner = self._starters[0]

        async def say(number: int) -> int:
            return number

        async def spawn(number: int) -> str:
            return str((await spawner.spawn("one", {"number": number}, queue=QUEUE))["task_id"])

        async def look_now() -> int:
            return time.monotonic_ns()

        @app.register_task("one", queue=QUEUE)
        async def one(parameters: Any, context: Any) -> int:
            return await context.step("step", lambda: say(parameters["number"]))

        @app.register_task("sequence", queue=MAIN)
        async def sequence(parameters: Any, context: Any) -> int:
            for number in range(parameters["steps"]):
                await context.step("step", lambda number=number: say(number))
            return self._end(parameters, parameters["steps"])

        @app.register_task("queued", queue=MAIN)
        async def queued(parameters: Any, context: Any) -> int:
            spawned = [
                await context.step("spawn", lambda number=number: spawn(number))
                for number in range(parameters["steps"])
            ]
            for task in spawned:
                await context.await_task_result(task, queue_name=QUEUE)
            return self._end(parameters, len(spawned))

        @app.register_task("look", queue=MAIN)
        async def look(_: Any, context: Any) -> int:
            return await context.step("look", look_now)

        @app.register_task("asleep", queue=MAIN)
        async def asleep(parameters: Any, context: Any) -> None:
            self._end(parameters, None)
            await context.sleep_for("day", parameters["steps"])

        return app

    def _end(self, parameters: Any, value: Any) -> Any:
        """The last that a handler does; what is left is the engine's statement that the task is complete."""
        done = self._waiting.pop(parameters["number"], None)
        if done is not None and not done.done():
            done.set_result(value)
        return value


if __name__ == "__main__":
    play(AbsurdContender)
