"""The one thread of a process that writes to the file. Layer: stores (sqlite).

Jobs wait in a queue; the thread takes what is there as one transaction, so many small jobs share one fsync. What always
holds:

- A transaction begins with `BEGIN IMMEDIATE` (a read that turns into a write fails at once when another process wrote
  in between, whatever the timeout), or is one statement. It awaits nothing, for all processes wait for it.
- A job that fails in company is undone with the others, and each runs alone: it hurts none but itself.
- A renewal of a lease is done first in the next transaction, however long the queue is (PROTOCOL F38).
"""

from __future__ import annotations

import collections
import contextlib
import queue
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.errors import StoreUnavailable
from outlast.stores.sqlite.session import Session
from outlast.stores.sqlite.transaction import Job, Quick
from outlast.telemetry.logs import unfailing

if TYPE_CHECKING:
    import asyncio
    import sqlite3
    from collections.abc import Callable, Sequence

    from outlast.stores.sqlite.connection import Settings
    from outlast.stores.sqlite.transaction import Transaction

__all__ = ["Writer"]

_MOST_ROWS = 1000
"""Of the jobs in one transaction, so that it stays under 100 ms."""

T = TypeVar("T")

_log = unfailing("outlast.stores.sqlite")


class Writer:
    """One for each open store. `commits` counts what this process has written, in transactions."""

    def __init__(self, settings: Settings, clock: Callable[[], int], on_change: Callable[[], None]) -> None:
        """`on_change` is called on the event loop after a job that `tells`."""
        self._settings = settings
        self._clock = clock
        self._on_change = on_change
        self._queue: queue.SimpleQueue[Job[Any] | None] = queue.SimpleQueue()  # None: there is something elsewhere
        self._urgent: collections.deque[Job[Any]] = collections.deque()
        self._asides: collections.deque[Callable[[sqlite3.Connection], object]] = collections.deque()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread: threading.Thread | None = None
        self.commits = 0

    async def open(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start the thread; return when the schema is up to date. Raises what `Store.open` promises."""
        self._loop = loop
        opened: asyncio.Future[None] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._thread = threading.Thread(target=self._serve, args=(opened,), name="outlast-sqlite-writer", daemon=True)
        self._thread.start()
        try:
            await opened
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Do what was submitted, then stop."""
        with self._lock:
            self._is_closed = True
            self._queue.put(None)
        if self._thread is not None:
            await self._ended
            self._thread.join()
            self._thread = None

    def submit(
        self,
        work: Callable[[Transaction], T],
        *,
        quick: Quick[T] | None = None,
        weight: int = 1,
        tells: bool = True,
    ) -> asyncio.Future[T]:
        """Have this done in a transaction. Called on the event loop."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(Job(work, future=future, quick=quick, weight=weight, tells=tells))
        return future

    def run_urgently(self, work: Callable[[Transaction], T]) -> T:
        """Have this done before all that waits, and wait for it. From any thread but the event loop's."""
        job = Job(work, tells=False)
        with self._lock:
            if self._is_closed:
                raise StoreUnavailable(self._settings.url, "it is not open")
            self._urgent.append(job)
            self._queue.put(None)
        return job.wait()

    def run_aside(self, look: Callable[[sqlite3.Connection], object]) -> None:
        """Have this done with the writer's connection, soon, between two transactions."""
        self._asides.append(look)
        self._queue.put(None)

    # --- on the thread ---

    def _serve(self, opened: asyncio.Future[None]) -> None:
        session = Session(self._settings, self._clock, self._urgent, self._answer, self._count_commit)
        try:
            session.open()
        except Exception as error:  # noqa: BLE001 - it is raised where `open` is awaited
            self._tell_loop(opened, error)
        else:
            self._tell_loop(opened, None)
            while not (self._is_closed and self._queue.empty()):
                try:
                    self._serve_once(session)
                except Exception:  # noqa: BLE001 - a bug in one turn must not silence the thread for good
                    _log.exception("outlast failed to write to %s; it goes on", self._settings.path)
            session.close()
        self._tell_loop(self._ended, None)

    def _serve_once(self, session: Session) -> None:
        """Wait for work, and do what there is."""
        group: list[Job[Any]] = []
        rows = 0
        job = self._queue.get()
        while True:
            if job is not None:
                group.append(job)
                rows += job.weight
                if rows >= _MOST_ROWS:
                    break
            try:
                job = self._queue.get_nowait()
            except queue.Empty:
                break
        if group or self._urgent:
            session.write(group)
        while self._asides:
            session.look(self._asides.popleft())
        session.rest()

    def _count_commit(self) -> None:
        self.commits += 1

    def _answer(self, jobs: Sequence[Job[Any]]) -> None:
        """Wake all who wait for these jobs: the event loop with one call."""
        waiting = [job for job in jobs if not job.settle_thread()]
        if waiting:
            with contextlib.suppress(RuntimeError):  # the loop was closed, and nobody waits any more
                self._loop.call_soon_threadsafe(self._settle, waiting)

    def _settle(self, jobs: Sequence[Job[Any]]) -> None:
        """On the event loop."""
        tells = False
        for job in jobs:
            job.settle()
            tells = tells or job.tells
        if tells:
            self._on_change()

    def _tell_loop(self, future: asyncio.Future[None], error: Exception | None) -> None:
        def settle() -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(None)

        with contextlib.suppress(RuntimeError):  # the loop was closed, and nobody waits any more
            self._loop.call_soon_threadsafe(settle)
