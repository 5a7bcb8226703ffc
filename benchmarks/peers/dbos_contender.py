"""DBOS Transact (PyPI `dbos`), in .venv-peers.

Default: coroutines and every setting as it comes. Tuned: plain functions in threads, as many as there are runs, twice
the connections, and queues that are looked at every 10 ms instead of every second. On SQLite the file is as outlast's:
with a write-ahead log, each commit on the disk (`synchronous=full` is SQLite's own default).
"""

# ruff: noqa: D102 - what a contender's methods do stands in protocol.py, once for all

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import sqlite3
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from typing import Any

from protocol import Order, play

dbos: Any = importlib.import_module("dbos")  # this module runs where it is installed, and nowhere else

QUEUE = "steps"
POLLING_S = 0.01
CONNECTIONS = 40


class DbosContender:
    """In one process, a result is had from the run itself; nobody polls for it."""

    def __init__(self, order: Order) -> None:
        self.version = importlib.metadata.version("dbos")
        self._order = order
        config: dict[str, Any] = {"name": "bench", "system_database_url": order.url, "log_level": "ERROR"}
        self._queue: dict[str, Any] = {}
        self._polling: dict[str, Any] = {}
        self.settings = "defaults: async functions, 20 connections, queues polled every 1 s, LISTEN/NOTIFY"
        if order.is_tuned:
            threads = max(64, order.concurrency * 2)
            config |= {"sys_db_pool_size": CONNECTIONS, "max_executor_threads": threads}
            self._queue = {"polling_interval_sec": POLLING_S}
            self._polling = {"polling_interval_sec": POLLING_S}
            self.settings = (
                f"plain functions, {CONNECTIONS} connections, two threads for each run at once, "
                f"queues and results polled every {POLLING_S * 1000:g} ms, LISTEN/NOTIFY"
            )
        if order.url.startswith("sqlite:"):
            self.settings += "; the file in WAL mode"
            with closing(sqlite3.connect(order.url.removeprefix("sqlite:///"))) as connection:
                connection.execute("pragma journal_mode = wal")
        self._client: Any = None
        if order.subject != "client":
            dbos.DBOS(config=config)
            self._bodies = _define_plain() if order.is_tuned else _define()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        if self._order.subject == "client":
            self._client = dbos.DBOSClient(system_database_url=self._order.url)
            yield
            return
        if self._order.is_tuned:
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(self._order.concurrency + 8))
            await asyncio.to_thread(dbos.DBOS.launch)  # where no event loop is seen: it would be given the workflows
        else:
            dbos.DBOS.launch()
        await dbos.DBOS.register_queue_async(QUEUE, **self._queue)
        yield

    async def run(self, subject: str, steps: int) -> Any:
        if self._client is not None:
            options = {"queue_name": QUEUE, "workflow_name": "look"}
            handle = await self._client.enqueue_async(options, steps)
            return await handle.get_result(**self._polling)
        if self._order.is_tuned:
            return await asyncio.to_thread(self._bodies[subject], steps)
        handle = await dbos.DBOS.start_workflow_async(self._bodies[subject], steps)
        return await handle.get_result()

    async def put_to_sleep(self, seconds: float) -> None:
        if self._order.is_tuned:
            await asyncio.to_thread(dbos.DBOS.start_workflow, self._bodies["asleep"], seconds)
        else:
            await dbos.DBOS.start_workflow_async(self._bodies["asleep"], seconds)


def _define() -> dict[str, Any]:
    decorate = dbos.DBOS

    @decorate.step()
    async def step(number: int) -> int:
        return number

    @decorate.workflow()
    async def queued_step(number: int) -> int:
        return await step(number)

    @decorate.step()
    async def look_now() -> int:
        return time.monotonic_ns()

    @decorate.workflow()
    async def sequence(steps: int) -> int:
        for number in range(steps):
            await step(number)
        return steps

    @decorate.workflow()
    async def queued(steps: int) -> int:
        handles = [await decorate.enqueue_workflow_async(QUEUE, queued_step, number) for number in range(steps)]
        return len([await handle.get_result() for handle in handles])

    @decorate.workflow(name="look")
    async def look(_: int) -> int:
        return await look_now()

    @decorate.workflow()
    async def asleep(seconds: float) -> None:
        await decorate.sleep_async(seconds)

    return {"sequence": sequence, "queued": queued, "look": look, "asleep": asleep}


def _define_plain() -> dict[str, Any]:
    decorate = dbos.DBOS

    @decorate.step()
    def step(number: int) -> int:
        return number

    @decorate.workflow()
    def queued_step(number: int) -> int:
        return step(number)

    @decorate.step()
    def look_now() -> int:
        return time.monotonic_ns()

    @decorate.workflow()
    def sequence(steps: int) -> int:
        for number in range(steps):
            step(number)
        return steps

    @decorate.workflow()
    def queued(steps: int) -> int:
        handles = [decorate.enqueue_workflow(QUEUE, queued_step, number) for number in range(steps)]
        return len([handle.get_result(polling_interval_sec=POLLING_S) for handle in handles])

    @decorate.workflow(name="look")
    def look(_: int) -> int:
        return look_now()

    @decorate.workflow()
    def asleep(seconds: float) -> None:
        decorate.sleep(seconds)

    return {"sequence": sequence, "queued": queued, "look": look, "asleep": asleep}


if __name__ == "__main__":
    play(DbosContender)
