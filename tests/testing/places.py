"""Where crashes are explored: in memory, in a file, on a server."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

from outlast.stores.postgres import PostgresStore
from outlast.stores.sqlite import SqliteStore
from outlast.stores.store import Store
from outlast.testing.clock import SkippingClock
from outlast.testing.crashes import Place, in_memory
from tests import postgres_schemas

__all__ = ["PLACES"]


@asynccontextmanager
async def in_a_file(clock: SkippingClock) -> AsyncGenerator[Callable[[], Store]]:
    """A file for each stop of the world."""
    with tempfile.TemporaryDirectory() as folder:
        yield lambda: SqliteStore(f"sqlite:///{folder}/store.db", clock)


class _Skipping:
    """A store whose server's clock skips what the lab's has skipped: before anything is asked of it."""

    def __init__(self, store: PostgresStore, clock: SkippingClock, skipped: list[int]) -> None:
        self._store = store
        self._clock = clock
        self._skipped = skipped
        """What the server has skipped, known to all handles."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def ask(*args: Any, **kwargs: Any) -> Any:
            behind = self._clock.skipped_us - sum(self._skipped)
            if behind:
                self._skipped.append(behind)
                await postgres_schemas.move_clock(behind)
            return await found(*args, **kwargs)

        return ask


@asynccontextmanager
async def on_a_server(clock: SkippingClock) -> AsyncGenerator[Callable[[], Store]]:
    """The schema of this process's tests, emptied for each stop."""
    url, skipped = postgres_schemas.shared_url(), list[int]()
    await postgres_schemas.empty_schema()
    yield lambda: cast(Store, _Skipping(PostgresStore(url), clock, skipped))
    await postgres_schemas.empty_schema()


PLACES: dict[str, Place] = {"memory": in_memory, "sqlite": in_a_file, "postgres": on_a_server}
