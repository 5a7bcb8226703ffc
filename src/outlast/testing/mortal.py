"""A store whose process stops at a commit of one's choice. Layer: testing.

To its own worker it looks like one that never answers again; to everybody else, like the death of that worker. It is no
double of a store: what it passes on is done by the real one. What always holds: once it has stopped, nothing reaches
the real store until `release`; what comes then comes late, as a frozen process's would, and is for the store to refuse.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from outlast.errors import StoreUnavailable

if TYPE_CHECKING:
    from outlast.stores.store import Outcome, Progress, Renewed, Store

__all__ = ["MortalStore"]


class MortalStore:
    """Counts the commits that carry events, and stops at one: before it is made, or when it has landed untold."""

    def __init__(self, store: Store, stops_at: int | None = None, *, landed: bool = False) -> None:
        """`stops_at` counts from 0; None: never."""
        self.commits = 0
        self.stopped = asyncio.Event()
        self._store = store
        self._stops_at = stops_at
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
        if self.stopped.is_set():
            await self._released.wait()

    def renew(self, worker_id: str, lease_us: int) -> Renewed | None:
        """From the thread of the heartbeat, which must not wait."""
        if self.stopped.is_set() and not self._released.is_set():
            raise StoreUnavailable(self._store.url, "its process has stopped")
        return self._store.renew(worker_id, lease_us)

    async def commit(self, worker_id: str | None, batch: Sequence[Progress]) -> list[Outcome]:
        """The one it stops at is not answered."""
        await self._live()
        number = self.commits
        self.commits += any(part.events for part in batch)
        stops = number == self._stops_at and self.commits > number
        if stops and not self._landed:
            self.stopped.set()
            await self._live()
        answer = await self._store.commit(worker_id, batch)
        if stops:
            self.stopped.set()
        await self._live()
        return answer

    def release(self) -> None:
        """So that what is left of the stopped process can be cleared away."""
        self._released.set()
