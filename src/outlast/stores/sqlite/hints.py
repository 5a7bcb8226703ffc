"""Who wants to know that something may have changed. Layer: stores (sqlite).

What this process writes is told by the writer, on the event loop. What others write shows in `PRAGMA data_version`,
which a small thread asks for while somebody is subscribed. It reads no page of the file: 7 µs, and with the waking of
the thread 0.1 to 0.2 ms of CPU on a small virtual machine, so about a minute of one core in an hour. What always
holds: a subscriber is called on the event loop, once for all that happened since it was called last, and once
when the watch begins; and nothing is wrong when it never is.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from outlast.stores.sqlite.connection import connect
from outlast.telemetry.logs import unfailing

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.stores.sqlite.connection import Settings
    from outlast.stores.sqlite.writer import Writer

__all__ = ["Hints"]

_EVERY_S = 0.02
_AFTER_ERROR_S = 1.0

_log = unfailing("outlast.stores.sqlite")


class Hints:
    """Of one open store. All but the thread is for the event loop."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings
        self._loop = loop
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._is_told = False
        self._watch: _Watch | None = None
        self._ended: list[asyncio.Future[None]] = []
        """Of each watch that there was: when its thread has let go of the file."""

    def add(self, callback: Callable[[], None], writer: Writer) -> Callable[[], None]:
        """Subscribe; answers the unsubscribing call, which may be made twice."""
        subscription = object()
        self._callbacks[subscription] = callback
        if self._watch is None:
            ended: asyncio.Future[None] = self._loop.create_future()
            self._ended = [*(each for each in self._ended if not each.done()), ended]
            tell, end = partial(self._call_on_loop, self.tell), partial(self._call_on_loop, self._end, ended)
            self._watch = _Watch(self._settings, writer, tell, end)

        def remove() -> None:
            self._callbacks.pop(subscription, None)
            if not self._callbacks:
                self._stop()

        return remove

    def tell(self) -> None:
        """Something may have changed. Callbacks follow in the loop's next turn, once for all that came before."""
        if self._callbacks and not self._is_told:
            self._is_told = True
            self._loop.call_soon(self._call)

    async def close(self) -> None:
        """Tell nobody any more."""
        self._callbacks.clear()
        self._stop()
        await asyncio.gather(*self._ended)

    def _stop(self) -> None:
        if self._watch is not None:
            self._watch.is_stopped = True
            self._watch = None

    def _call(self) -> None:
        self._is_told = False
        for callback in tuple(self._callbacks.values()):
            callback()

    def _call_on_loop(self, callback: Callable[..., None], *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed, and nobody waits any more
            self._loop.call_soon_threadsafe(callback, *arguments)

    @staticmethod
    def _end(ended: asyncio.Future[None]) -> None:
        if not ended.done():
            ended.set_result(None)


class _Watch:
    """The thread, with a connection that never writes; it ends within one look after `is_stopped` was set.

    That connection sees this process's writes as others'. So when there were any since the last look, the writer's own
    connection is asked, to which they are none."""

    def __init__(
        self, settings: Settings, writer: Writer, tell: Callable[[], None], report_end: Callable[[], None]
    ) -> None:
        self._settings = settings
        self._writer = writer
        self._tell = tell
        self._report_end = report_end
        self._writers_version: int | None = None
        self.is_stopped = False
        writer.run_aside(self._look_at_writer)
        threading.Thread(target=self._run, name="outlast-sqlite-watch", daemon=True).start()

    def _run(self) -> None:
        while not self.is_stopped:
            try:
                with contextlib.closing(connect(self._settings)) as connection:
                    self._watch(connection)
            except Exception as error:  # noqa: BLE001 - a hint is never needed; whatever it is, it must not end the thread
                _log.warning("cannot watch %s for changes, trying again: %s", self._settings.path, error)
                time.sleep(_AFTER_ERROR_S)
        self._report_end()

    def _watch(self, connection: sqlite3.Connection) -> None:
        version = _read_version(connection)
        commits = self._writer.commits
        self._tell()  # of what came between the subscription, or an error, and this: it shows in no later version
        while not self.is_stopped:
            time.sleep(_EVERY_S)
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
        if before != self._writers_version:  # so the first look tells as well, as `_watch` does
            self._tell()


def _read_version(connection: sqlite3.Connection) -> int:
    ((version,),) = connection.execute("pragma data_version").fetchall()
    return int(version)
