"""Connections to the file, set as the store needs them. Layer: stores (sqlite).

What always holds: a connection is made, used and closed by one thread, and only in the process that made it.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from outlast.errors import InvalidSetting, StoreBusy
from outlast.stores.sqlite.errors import is_busy
from outlast.stores.sqlite.holders import describe_holder
from outlast.stores.sqlite.migrate import check_file, migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from outlast.stores.sqlite.settings import Settings

__all__ = ["LOG_LIMIT_BYTES", "connect", "prepare", "wait_while_busy"]

LOG_LIMIT_BYTES = 64 * 1024 * 1024
"""Past it the write-ahead log is cut."""

_OLDEST_SQLITE = (3, 35, 0)  # RETURNING
_INNER_WAIT_MS = 8
"""How long SQLite itself waits for a lock: at 1, 3 and 8 ms. No longer, for it goes on with ever longer sleeps, and
starves beside a process that takes the lock again at once; `wait_while_busy` asks every other millisecond instead."""

T = TypeVar("T")


def connect(settings: Settings, *, writes: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode. One that does not write cannot."""
    connection = sqlite3.connect(
        settings.path,
        timeout=_INNER_WAIT_MS / 1000,
        isolation_level=None,
        cached_statements=256,
        check_same_thread=True,
    )
    try:
        for pragma in _list_pragmas(settings, writes=writes):
            wait_while_busy(settings, partial(connection.execute, f"pragma {pragma}"))  # some read the file
    except BaseException:
        connection.close()
        raise
    return connection


def _list_pragmas(settings: Settings, *, writes: bool) -> Iterator[str]:
    yield "temp_store = memory"
    if not writes:
        yield "query_only = on"
        return
    yield f"synchronous = {settings.synchronous}"
    if sys.platform == "darwin" and settings.synchronous == "full":
        yield "fullfsync = on"  # there an fsync leaves the data in the drive's cache
    yield "wal_autocheckpoint = 0"  # `Checkpoints` does it
    yield f"journal_size_limit = {LOG_LIMIT_BYTES}"
    yield "cache_size = -16000"  # 16 MB


def prepare(connection: sqlite3.Connection, settings: Settings, clock: Callable[[], int]) -> None:
    """See that it is a store of ours, in WAL mode, of this release's schema. Many processes may do so at once.

    Raises what `Store.open` promises, and `InvalidSetting` for another program's file."""
    if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
        raise InvalidSetting("SQLite library", sqlite3.sqlite_version, "version 3.35 or newer")
    wait_while_busy(settings, lambda: check_file(connection, settings))
    wait_while_busy(settings, lambda: _switch_to_wal(connection, settings))
    wait_while_busy(settings, lambda: connection.execute("begin immediate"))
    try:
        migrate(connection, settings, clock())
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


def _switch_to_wal(connection: sqlite3.Connection, settings: Settings) -> None:
    """Once in a file's life. It needs the file for itself, and SQLite does not wait for that: the caller does."""
    ((mode,),) = connection.execute("pragma journal_mode").fetchall()
    if mode != "wal":
        ((mode,),) = connection.execute("pragma journal_mode = wal").fetchall()
    if mode != "wal":
        expected = f"a file on a local disk; its file system allows the journal mode {mode!r} only"
        raise InvalidSetting("store URL", settings.url, expected)


def wait_while_busy(settings: Settings, attempt: Callable[[], T]) -> T:
    """Try until another process lets go of the file.

    Every 1 to 2 ms at random: whoever asks at a moment nobody holds the lock gets it, so nobody waits for long beside
    others who write all the time. Raises `StoreBusy` past the settings' patience."""
    until: float | None = None
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            now = time.monotonic()
            if until is None:
                until = now + settings.busy_us / 1_000_000
            elif now > until:
                seconds = settings.busy_us / 1_000_000
                detail = f"another process has held {settings.path} for {seconds:g} s; {describe_holder(settings.path)}"
                raise StoreBusy(settings.url, detail) from error
        time.sleep(random.uniform(0.0005, 0.002))
