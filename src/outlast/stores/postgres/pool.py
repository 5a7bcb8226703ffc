"""Connections of one role, lent to one user at a time. Layer: stores (postgres).

What always holds: a connection that broke is never lent again; a server that cannot be reached is asked again at most
every so often, however many want a connection; and one that is lent was set for the lease that holds now.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from outlast.errors import StoreError, StoreUnavailable
from outlast.stores.postgres.link import Link, connect

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from outlast.stores.postgres.settings import Role, Settings

__all__ = ["Pool"]

_FIRST_PAUSE_S = 0.05
_LAST_PAUSE_S = 1.0


class Pool:
    """Up to `most` of them, made as they are needed, for one event loop."""

    def __init__(self, settings: Settings, role: Role, most: int = 1) -> None:
        self.settings = settings
        """Replaced when a lease is shorter than was known: connections of before are closed as they come back."""
        self._role = role
        self._places = asyncio.Semaphore(most)
        self._idle: list[Link] = []
        self._lent: set[Link] = set()
        self._is_closed = False
        self._pause_s = 0.0
        self._retry_at = 0.0
        self._trouble = ""

    @contextlib.asynccontextmanager
    async def link(self) -> AsyncGenerator[Link, None]:
        """A connection for as long as the context lasts. Entering it raises what `connect` does."""
        link = await self.take()
        try:
            yield link
        finally:
            self.give_back(link)

    async def close(self) -> None:
        """Drop what is lent, and say good-bye to the others. From then on it lends nothing."""
        self._is_closed = True
        for link in self._lent:
            link.drop()
        idle, self._idle = self._idle, []
        await asyncio.gather(*(link.close() for link in idle))

    async def take(self) -> Link:
        """A connection that `give_back` gets again: as `link`, whose context would cost a commit as much as the rest of
        the pool does."""
        await self._places.acquire()
        try:
            link = self._take_idle() or await self._connect()
        except BaseException:
            self._places.release()
            raise
        self._lent.add(link)
        return link

    def give_back(self, link: Link) -> None:
        """It may be broken, or somebody's transaction may have been."""
        self._lent.discard(link)
        if self._is_closed:
            link.drop()
        elif link.is_usable:
            self._idle.append(link)
        self._places.release()

    def _take_idle(self) -> Link | None:
        if self._is_closed:
            raise StoreUnavailable(self.settings.url, "it is not open")
        while self._idle:
            link = self._idle.pop()
            if link.is_usable and link.settings is self.settings:
                return link
            link.drop()
        return None

    async def _connect(self) -> Link:
        loop = asyncio.get_running_loop()
        if self._trouble and loop.time() < self._retry_at:
            raise StoreUnavailable(self.settings.url, self._trouble)
        try:
            link = await connect(self.settings, self._role)
        except StoreError as error:
            self._pause_s = min(self._pause_s * 2 or _FIRST_PAUSE_S, _LAST_PAUSE_S)
            self._retry_at = loop.time() + self._pause_s
            self._trouble = str(getattr(error, "detail", error))
            raise
        self._trouble, self._pause_s = "", 0.0
        if self._is_closed:
            link.drop()
            raise StoreUnavailable(self.settings.url, "it is not open")
        return link
