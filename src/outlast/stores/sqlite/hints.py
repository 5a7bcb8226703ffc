"""Who wants to know that something may have changed. Layer: stores (sqlite).

What this process writes is told by the writer, on the event loop. What others write shows in `PRAGMA data_version`,
which a small thread asks for, and which reads no page of the file: 66 times a second come to about 6 s of one core in a
day, and it runs only while somebody is subscribed. What always holds: a subscriber is called on the event loop, once
for all that happened since it was called last; and nothing is wrong when it never is.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
from typing import TYPE_CHECKING

from outlast.stores.sqlite.connection import connect

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from outlast.stores.sqlite.settings import Settings
    from outlast.stores.sqlite.writer import Writer

__all__ = ["Hints"]

_EVERY_S = 0.015
_AFTER_ERROR_S = 1.0

_log = logging.getLogger("outlast.stores.sqlite")


class Hints:
    """Of one open store. All but the thread is for the event loop."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings
        self._loop = loop
        self._callbacks: list[Callable[[], None]] = []
        self._is_told = False
        self._watch: _Watch | None = None

    def add(self, callback: Callable[[], None], writer: Writer) -> Callable[[], None]:
        """Subscribe; answers the unsubscribing call, which may be made twice."""
        entry = lambda: callback()  # noqa: E731, PLW0108 - the same callback may be added twice, and each goes by itself
        self._callbacks.append(entry)
        if self._watch is None:
            self._watch = _Watch(self._settings, writer, self._tell_from_thread)

        def remove() -> None:
            if entry in self._callbacks:
                self._callbacks.remove(entry)
            if not self._callbacks and self._watch is not None:
                self._watch.stop()
                self._watch = None

        return remove

    def tell(self) -> None:
        """Something may have changed. Callbacks follow in the loop's next turn, once for all that came before."""
        if self._callbacks and not self._is_told:
            self._is_told = True
            self._loop.call_soon(self._call)

    def close(self) -> None:
        """Tell nobody any more."""
        self._callbacks.clear()
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def _call(self) -> None:
        self._is_told = False
        for callback in tuple(self._callbacks):
            callback()

    def _tell_from_thread(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed
            self._loop.call_soon_threadsafe(self.tell)


class _Watch:
    """The thread, with a connection that never writes.

    That connection sees this process's writes as others'. So when there were any since the last look, the writer's own
    connection is asked, to which they are none."""

    def __init__(self, settings: Settings, writer: Writer, tell: Callable[[], None]) -> None:
        self._settings = settings
        self._writer = writer
        self._tell = tell
        self._writers_version: int | None = None
        self._stopped = threading.Event()
        writer.run_aside(self._look_at_writer)
        self._thread = threading.Thread(target=self._run, name="outlast-sqlite-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Returns when the thread has ended: within the time of one look."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                with contextlib.closing(connect(self._settings)) as connection:
                    self._watch(connection)
            except sqlite3.Error as error:
                _log.warning("cannot watch %s for changes, polling goes on: %s", self._settings.path, error)
                self._stopped.wait(_AFTER_ERROR_S)

    def _watch(self, connection: sqlite3.Connection) -> None:
        version = _read_version(connection)
        commits = self._writer.commits
        while not self._stopped.wait(_EVERY_S):
            before, version = version, _read_version(connection)
            own_before, commits = commits, self._writer.commits
            if version == before:
                continue
            if commits == own_before:
                self._tell()
            else:
                self._writer.run_aside(self._look_at_writer)

    def _look_at_writer(self, connection: sqlite3.Connection) -> None:
        """On the writer's thread."""
        before, self._writers_version = self._writers_version, _read_version(connection)
        if before is not None and before != self._writers_version:
            self._tell()


def _read_version(connection: sqlite3.Connection) -> int:
    ((version,),) = connection.execute("pragma data_version").fetchall()
    return int(version)
