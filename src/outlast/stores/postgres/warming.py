"""An idle worker gets ready for what comes. Layer: stores (postgres).

On a new connection the server prepares and plans each statement anew, and the connection itself must be made: that is
half of what it takes to go on with the runs that another worker hands back. So a worker that finds nothing to do asks
once for what it will ask for then, of nothing. What always holds: it changes nothing, and nobody waits for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from outlast.errors import OutlastError
from outlast.stores.postgres import commits, mail, runs
from outlast.telemetry.logs import unfailing

if TYPE_CHECKING:
    from outlast.stores.postgres.pool import Pool
    from outlast.stores.store import Claiming

__all__ = ["Warming"]

READERS = 2
"""Connections of those that ask. The others are made when they are needed: idle workers are many, and hold no more."""

_log = unfailing("outlast.stores.postgres")


class Warming:
    """Of one open store."""

    def __init__(self, working: Pool, writing: Pool) -> None:
        self._working = working
        self._writing = writing
        self._task: asyncio.Task[None] | None = None

    def begin(self, claiming: Claiming) -> None:
        """In the background, the first time this is called."""
        if self._task is None and not self._working.settings.pooler:  # behind a pooler nothing stays prepared
            self._task = asyncio.get_running_loop().create_task(self._warm_up(claiming), name="outlast-postgres-warm")

    async def close(self) -> None:
        """Leave it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _warm_up(self, claiming: Claiming) -> None:
        nothing = msgspec.structs.replace(claiming, limit=0)
        try:
            await asyncio.gather(self._write(), *(self._read(nothing) for _ in range(READERS)))
        except OutlastError as error:
            _log.debug("could not get ready: %s", error)

    async def _read(self, nothing: Claiming) -> None:
        async with self._working.link() as link:
            await runs.claim(link, nothing)
            await runs.read_journals(link, [""], 1)
            await mail.read_inboxes(link, [("", 0, 1)])
            await runs.look(link, nothing)

    async def _write(self) -> None:
        async with self._writing.link() as link:
            await commits.write_nothing(link)
