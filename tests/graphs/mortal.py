"""A world that stops: a store whose process dies at a commit of one's choice, and a clock that goes on without it.

To its own worker such a store looks like one that never answers again; to everybody else, like the death of that
worker. It is no double of a store: what it passes on is done by the real one.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from outlast import Outlast
from outlast.errors import StoreUnavailable
from outlast.stores.memory import MemoryStore
from outlast.stores.postgres import PostgresStore
from outlast.stores.sqlite import SqliteStore
from outlast.stores.store import Progress, Renewed, Store
from tests import postgres_schemas

__all__ = ["Clock", "Mortal", "let_pass", "make_store", "world_stops_at"]


class Clock:
    """This machine's, and what a test has added to it."""

    def __init__(self) -> None:
        self.added_us = 0

    def __call__(self) -> int:
        return time.time_ns() // 1000 + self.added_us


def make_store(kind: str, place: Path, clock: Clock) -> Any:
    """A handle on the store of this kind in this place; PostgreSQL's is the same for all of a process's tests."""
    if kind == "memory":
        return MemoryStore(f"memory://{place}", clock)
    if kind == "postgres":
        return PostgresStore(postgres_schemas.shared_url())
    return SqliteStore(f"sqlite:///{place}/store.db", clock)


async def let_pass(kind: str, clock: Clock, seconds: int) -> None:
    """Time goes by."""
    if kind == "postgres":
        await postgres_schemas.move_clock(seconds * 1_000_000)
    clock.added_us += seconds * 1_000_000


class Mortal:
    """Counts the commits that carry events, and dies at one of them: before it is made, or when it has landed."""

    def __init__(self, store: Any, dies_at: int | None = None, *, landed: bool = False) -> None:
        self.commits = 0
        self.died = asyncio.Event()
        self._store = store
        self._dies_at = dies_at
        self._landed = landed
        self._released = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return functools.partial(self._pass, found) if inspect.iscoroutinefunction(found) else found

    async def _pass(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        await self._live()
        answer = await method(*args, **kwargs)
        await self._live()
        return answer

    async def _live(self) -> None:
        if self.died.is_set():
            await self._released.wait()

    def renew(self, worker_id: str, lease_us: int) -> Renewed | None:
        """From the thread of the heartbeat."""
        if self.died.is_set() and not self._released.is_set():
            raise StoreUnavailable("here", "its process is dead")
        answer: Renewed | None = self._store.renew(worker_id, lease_us)
        return answer

    async def commit(self, worker_id: str | None, batch: Sequence[Progress]) -> Any:
        """The n-th does not come back."""
        await self._live()
        number, self.commits = self.commits, self.commits + any(part.events for part in batch)
        dies = self._dies_at is not None and number == self._dies_at and self.commits > number
        if dies and not self._landed:
            self.died.set()
            await self._live()
        answer = await self._store.commit(worker_id, batch)
        if dies:
            self.died.set()
        await self._live()
        return answer

    def release(self) -> None:
        """So that what is left of the dead can be cleared away."""
        self._released.set()


@asynccontextmanager
async def world_stops_at(make_app: Callable[[], Outlast], store: Mortal):
    """A worker on this store; the block goes on when it has died, or at once where it does not."""
    app = make_app()
    app._store = cast(Store, store)
    async with app.worker(grace="0s"):
        try:
            yield app
        finally:
            store.release()
