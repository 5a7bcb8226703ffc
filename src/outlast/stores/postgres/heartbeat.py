"""Leases are renewed from a thread of their own, with its own event loop and connection. Layer: stores (postgres).

What always holds: neither a body nor a long commit delays a renewal; only the server does (PROTOCOL F38).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.errors import StoreUnavailable
from outlast.stores.postgres import workers
from outlast.stores.postgres.pool import Pool
from outlast.stores.postgres.settings import Role

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from outlast.stores.postgres.settings import Settings
    from outlast.stores.store import Renewed

__all__ = ["Heartbeats"]

T = TypeVar("T")


class Heartbeats:
    """The thread is started with the first worker."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pool: Pool | None = None
        self._is_closed = False

    async def warm_up(self, lease_us: int) -> None:
        """Have the connection before the first lease runs: a short one could lapse while it is made."""
        await asyncio.wrap_future(self._start(self._connect(), lease_us))

    def renew(self, worker_id: str, lease_us: int) -> Renewed | None:
        """The store's `renew`: blocks, for no longer than a third of the lease or two; from any thread."""
        asked = self._start(self._renew(worker_id, lease_us), lease_us)
        try:
            return asked.result()
        except concurrent.futures.CancelledError:
            raise StoreUnavailable(self._settings.url, "it was closed meanwhile") from None

    async def close(self) -> None:
        """End the thread; a renewal under way fails."""
        with self._lock:
            self._is_closed = True
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is not None and thread is not None:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._end(), loop))
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _start(self, work: Coroutine[Any, Any, T], lease_us: int) -> concurrent.futures.Future[T]:
        """Have it done by the thread."""
        with self._lock:
            if self._is_closed:
                work.close()
                raise StoreUnavailable(self._settings.url, "it is not open")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._pool = Pool(self._settings.with_lease(lease_us), Role.WORK)
                self._thread = threading.Thread(
                    target=self._run, args=(self._loop,), name="outlast-postgres-leases", daemon=True
                )
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        with contextlib.closing(loop):
            loop.run_forever()

    async def _connect(self) -> None:
        assert self._pool is not None
        async with self._pool.link():
            pass

    async def _renew(self, worker_id: str, lease_us: int) -> Renewed | None:
        assert self._pool is not None
        try:
            async with self._pool.link() as link:
                return await workers.renew(link, worker_id, lease_us)
        except StoreUnavailable:
            async with self._pool.link() as link:  # the connection may have died while nobody used it
                return await workers.renew(link, worker_id, lease_us)

    async def _end(self) -> None:
        assert self._pool is not None
        await self._pool.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
