"""Where a SQLite store is and how it is set, and connections to it. Layer: stores (sqlite).

What always holds: a connection is made, used and closed by one thread, and only in the process that made it.
"""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import parse_qsl, unquote

from outlast.errors import InvalidSetting, StoreBusy
from outlast.stores.sqlite.errors import describe_holder, is_busy
from outlast.stores.sqlite.migrate import check_file, migrate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["LOG_LIMIT_BYTES", "Settings", "connect", "parse_url", "prepare", "wait_while_busy"]

LOG_LIMIT_BYTES = 64 * 1024 * 1024
"""Past it the write-ahead log is cut."""

_OLDEST_SQLITE = (3, 35, 0)  # RETURNING
_INNER_WAIT_MS = 8
"""How long SQLite itself waits for a lock: at 1, 3 and 8 ms. No longer, for it goes on with ever longer sleeps, and
starves beside a process that takes the lock again at once; `wait_while_busy` asks every other millisecond instead."""

_SCHEME = "sqlite://"
_SHAPE = "sqlite:///relative/path.db or sqlite:////absolute/path.db"

T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """What the query of the URL may say, and its defaults."""

    url: str
    path: Path
    """Absolute: a process that changes its folder keeps its store."""
    synchronous: str = "full"
    """`full`: what a commit has answered survives a power cut. `normal`: it survives the death of every process, but a
    power cut may undo the last moments (never tear them); commits are several times as fast."""
    readers: int = 2
    """Threads that read. One would do for a worker; the second keeps it from waiting behind a console's lists."""
    busy_us: int = 30_000_000
    """How long to wait for another process that holds the file, before `StoreBusy`."""


def parse_url(url: str) -> Settings:
    """Settings from `sqlite:///shop.db?synchronous=normal`. Raises `InvalidSetting`."""
    rest = url.removeprefix(_SCHEME)
    location, _, query = rest.partition("?")
    if not url.startswith(_SCHEME) or not location.startswith("/"):
        raise InvalidSetting("store URL", url, f"{_SHAPE} (three slashes before a path, a fourth if it is absolute)")
    name = unquote(location[1:])
    if name == ":memory:":
        raise InvalidSetting("store URL", url, "memory:// for a store in memory, which workers and clients share")
    if not name or "\0" in name:
        raise InvalidSetting("store URL", url, _SHAPE)
    return Settings(url, Path(name).absolute(), **_parse_options(query))  # type: ignore[arg-type]


def _parse_options(query: str) -> dict[str, object]:
    options: dict[str, object] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name == "synchronous":
            options[name] = _choose(name, value, ("full", "normal"))
        elif name == "readers":
            options[name] = int(_choose(name, value, ("1", "2", "3", "4")))
        elif name == "busy_timeout":
            options["busy_us"] = _parse_seconds(name, value)
        else:
            raise InvalidSetting(
                "option of the store URL", name, "synchronous=full|normal, readers=1..4 or busy_timeout=SECONDS"
            )
    return options


def _choose(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value.lower() not in allowed:
        raise InvalidSetting(f"{name} of the store URL", value, " or ".join(allowed))
    return value.lower()


def _parse_seconds(name: str, value: str) -> int:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise InvalidSetting(f"{name} of the store URL", value, "seconds, from 0 to 3600")
    return int(seconds * 1_000_000)


def connect(settings: Settings, *, writes: bool = False) -> sqlite3.Connection:
    """A connection in autocommit mode. One that does not write cannot."""
    connection = sqlite3.connect(
        settings.path,
        timeout=_INNER_WAIT_MS / 1000,
        isolation_level=None,
        cached_statements=512,  # those for many rows exist in several sizes; all of all come to 50 MB
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
        # On a file that is read-only `begin immediate` succeeds; the first statement that might write does not.
        connection.execute("delete from migrations where false")
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
