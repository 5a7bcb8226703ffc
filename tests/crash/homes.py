"""Where the runs of a world live: an SQLite file in its folder, or a schema of its own in a PostgreSQL server.

Every process of a world finds it by the file `url` in the folder; without one it is SQLite. Each has a clock that the
test moves for all of them, and a way to look into a journal from within a step.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from pathlib import Path

import asyncpg

from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.errors import DRIVER_ERRORS
from outlast.stores.postgres.settings import Settings, parse_url
from outlast.stores.sqlite import SqliteStore
from outlast.stores.store import Store
from tests.crash.clock import SharedClock
from tests.postgres_schemas import change_schema, make_movable, new_url, run_apart

__all__ = ["connect_plainly", "home_of", "make_home"]

PATIENCE_S = 2.0
"""For a look into a journal from within a step, which holds everything else up."""

connect_plainly = sqlite3.connect
"""As it is before crash points are laid: looks of our own at the store are no place to die."""


def make_home(folder: Path, backend: str) -> SqliteHome | PostgresHome:
    """For a new world. `backend` is sqlite, postgres, or the URL of a store in another server."""
    if backend != "sqlite":
        url = new_url() if backend == "postgres" else backend
        run_apart(make_movable(url))
        (folder / "url").write_text(url)
    return home_of(folder)


def home_of(folder: Path) -> SqliteHome | PostgresHome:
    """Of the world in this folder."""
    url = folder / "url"
    return PostgresHome(url.read_text()) if url.exists() else SqliteHome(folder)


class SqliteHome:
    """`read_journal` gives a run's entries from any thread, on a connection of its own; None: the store is away."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "store.db"
        self.url = f"sqlite:///{self._path}"
        self.clock = SharedClock(folder / "clock")
        self._here = threading.local()

    def make_store(self, through: str = "") -> Store:
        return SqliteStore(through or self.url, self.clock)

    def read_journal(self, uid: str) -> list[bytes] | None:
        connection = getattr(self._here, "connection", None)
        if connection is None:
            connection = self._here.connection = connect_plainly(self._path, isolation_level=None, timeout=10)
        return [events for (events,) in connection.execute("select events from journal where run_uid = ?", (uid,))]


class PostgresHome:
    """Likewise."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._settings = parse_url(url)
        self.clock = PostgresClock(url)
        self._looker: _Looker | None = None

    def make_store(self, through: str = "") -> Store:
        return PostgresStore(through or self.url)

    def read_journal(self, uid: str) -> list[bytes] | None:
        if self._looker is None:
            self._looker = _Looker(self._settings)
        return self._looker.read(uid)


class PostgresClock:
    """The server's, which a test moves by a row that `now_us` looks at."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._added_us = 0

    def __call__(self) -> int:
        return time.time_ns() // 1000 + self._added_us

    def add(self, seconds: float) -> None:
        us = round(seconds * 1_000_000)
        run_apart(change_schema(self._url, f'update "{{schema}}".moved set us = us + {us}'))
        self._added_us += us


class _Looker:
    """A thread with an event loop and a connection; others wait for what it reads."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._connection: asyncpg.Connection[asyncpg.Record] | None = None
        self._turn = asyncio.Lock()
        threading.Thread(target=self._loop.run_forever, name="looker", daemon=True).start()

    def read(self, uid: str) -> list[bytes] | None:
        return asyncio.run_coroutine_threadsafe(self._read(uid), self._loop).result(30)

    async def _read(self, uid: str) -> list[bytes] | None:
        """The second try is on another connection: the first may have been cut."""
        sql = f'select events from "{self._settings.schema}".journal where run_uid = $1'
        async with self._turn:
            for _ in range(2):
                try:
                    if self._connection is None:
                        self._connection = await asyncpg.connect(self._settings.dsn, timeout=PATIENCE_S)
                    return [row["events"] for row in await self._connection.fetch(sql, uid, timeout=PATIENCE_S)]
                except DRIVER_ERRORS:
                    if self._connection is not None:
                        self._connection.terminate()
                        self._connection = None
        return None
