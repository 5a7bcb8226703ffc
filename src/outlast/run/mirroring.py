"""The mirrors of one app: fed while it is open, told of, caught up. Layer: run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from outlast.errors import InvalidSetting
from outlast.mirrors.catching_up import CaughtUp, catch_up
from outlast.mirrors.feed import Feed
from outlast.mirrors.mirror import MirrorInfo, find_positions
from outlast.telemetry.observer import Landed, Observers

if TYPE_CHECKING:
    from outlast.mirrors.mirror import Mirror
    from outlast.stores.store import Store

__all__ = ["Mirroring"]

CLOSE_S = 5.0
"""How long closing waits for mirrors."""


class Mirroring:
    """One for each app, opened with its engine."""

    def __init__(self, observers: Observers, mirrors: Iterable[Mirror]) -> None:
        """Raises InvalidSetting for what is no mirror."""
        self.mirrors = tuple(mirrors)
        for mirror in self.mirrors:
            if not callable(getattr(mirror, "write", None)):
                raise InvalidSetting("mirrors", mirror, "objects with `async def write(self, batch)`")
        self._feeds = [Feed(mirror) for mirror in self.mirrors]
        for feed in self._feeds:
            observers.add(feed)

    def open(self) -> None:
        """The engine is open."""
        for feed in self._feeds:
            feed.open()

    async def close(self) -> None:
        """The engine is closed: let what has landed be written, for a while."""
        await asyncio.gather(*(asyncio.to_thread(feed.close, CLOSE_S) for feed in self._feeds))

    def list(self) -> list[MirrorInfo]:
        """How they are doing."""
        return [feed.info() for feed in self._feeds]

    async def catch_up(self, store: Store) -> dict[str, CaughtUp]:
        """Copy to each what it misses, in its own thread; what was done, by its name. Raises what the first raises."""
        return {feed.name: await catch_up(store, _Fed(feed)) for feed in self._feeds}


class _Fed:
    """A `Target` behind its feed."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    async def positions(self, uids: Sequence[str]) -> dict[str, int]:
        return dict(await self._do(lambda mirror: find_positions(mirror, uids)))

    async def write(self, batch: Sequence[Landed]) -> None:
        await self._do(lambda mirror: mirror.write(batch))

    async def _do(self, work: Any) -> Any:
        return await asyncio.wrap_future(self._feed.call(work))
