"""The threads that read. Layer: stores (sqlite).

Each has a connection that cannot write. What always holds: a read is over when its thread has the rows; none is open
across an `await`, where it would keep the log from being emptied.
"""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.stores.sqlite.connection import connect, wait_while_busy
from outlast.stores.sqlite.errors import to_store_error
from outlast.stores.sqlite.transaction import Job, Transaction

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from outlast.stores.sqlite.connection import Settings

__all__ = ["Readers"]

T = TypeVar("T")


class Readers:
    """Started with the first read."""

    def __init__(self, settings: Settings, clock: Callable[[], int], loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings
        self._clock = clock
        self._loop = loop
        self._queue: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, work: Callable[[Transaction], T]) -> asyncio.Future[T]:
        """Have this read. Each of its statements is a snapshot of its own."""
        if not self._threads:
            self._start()
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(Job(work, future=future))
        return future

    async def close(self) -> None:
        """Do what was submitted, then stop."""
        for _ in self._threads:
            self._queue.put(None)
        threads, self._threads = self._threads, []
        if threads:
            await self._ended
        for thread in threads:
            thread.join()

    def _start(self) -> None:
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._running = self._settings.readers
        for number in range(self._settings.readers):
            thread = threading.Thread(target=self._serve, name=f"outlast-sqlite-reader-{number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self) -> None:
        """The connection is a local name on purpose, as the writer's."""
        connection: sqlite3.Connection | None = None
        while (job := self._queue.get()) is not None:
            try:
                if connection is None:
                    connection = connect(self._settings)
                self._read(connection, job)
            except Exception as error:  # noqa: BLE001 - whoever waits for the job gets it
                job.error = to_store_error(error, self._settings)
                if connection is not None and isinstance(error, sqlite3.Error):
                    connection.close()
                    connection = None
            self._call(job.settle)
        if connection is not None:
            connection.close()
        self._call(self._end)

    def _read(self, connection: sqlite3.Connection, job: Job[Any]) -> None:
        transaction = Transaction(connection, self._settings.url, self._clock())
        job.result = wait_while_busy(self._settings, lambda: job.work(transaction))

    def _end(self) -> None:
        self._running -= 1
        if not self._running and not self._ended.done():
            self._ended.set_result(None)

    def _call(self, callback: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed, and nobody waits any more
            self._loop.call_soon_threadsafe(callback)
