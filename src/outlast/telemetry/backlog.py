"""Work for others, done in a thread of its own: what observers put aside. Layer: telemetry.

What always holds: who puts something in never waits, and is never told of an error; what does not fit is dropped and
counted. The thread is a daemon: work that hangs does not keep the process.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from outlast.telemetry.logs import unfailing

__all__ = ["Backlog"]

_log = unfailing("outlast.telemetry")

T = TypeVar("T")


class Backlog(Generic[T]):
    """Hands everything that is put in to `handle`, one after another, in a thread that begins with the first."""

    def __init__(self, name: str, handle: Callable[[T], object], limit: int) -> None:
        """`limit`: how many may wait."""
        self.name = name
        self.dropped = 0
        self.failed = 0
        self._handle = handle
        self._limit = limit
        self._waiting: queue.SimpleQueue[T | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    def __len__(self) -> int:
        return self._waiting.qsize()

    def put(self, item: T) -> None:
        """Handle it soon; or never, if too many wait."""
        if self._waiting.qsize() >= self._limit:
            self.dropped += 1
            if self.dropped == 1:
                _log.warning("%s is behind by %d: what comes is dropped until it has caught up", self.name, self._limit)
            return
        self._waiting.put(item)
        if self._thread is None:
            self._start()

    def close(self, timeout_s: float) -> bool:
        """Let it finish what waits; False: it did not within that time, and is left alone."""
        with self._starting:
            thread = self._thread
        if thread is None:
            return True
        self._waiting.put(None)
        thread.join(timeout_s)
        return not thread.is_alive()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            item = self._waiting.get()
            if item is None:
                with self._starting:
                    self._thread = None
                return
            self.attempt(partial(self._handle, item))

    def attempt(self, work: Callable[[], object]) -> None:
        """Do this part of the work at hand; the others are done whatever becomes of it."""
        try:
            work()
        except Exception:  # noqa: BLE001 - whatever exporters do
            self.failed += 1
            if self.failed == 1:
                _log.exception("%s failed; it goes on, and says no more of it", self.name)
