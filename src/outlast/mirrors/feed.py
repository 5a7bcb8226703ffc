"""What stands between the engine and a mirror: a buffer, and a thread that empties it. Layer: mirrors.

What always holds: the engine only ever puts entries into the buffer, and never waits; what does not fit is dropped and
counted. A mirror that fails gets the same batch again, ever later; one that hangs holds up its own thread and nothing
else. What it missed, also for the death of this process, stays in the store's journals, to be copied from there.
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from outlast.mirrors.mirror import MirrorInfo, close_mirror, name_of, open_mirror
from outlast.telemetry.logs import unfailing
from outlast.telemetry.observer import Commit, Landed

__all__ = ["Feed"]

MOST_ENTRIES = 10_000
MOST_BYTES = 64 * 1024 * 1024
"""What a buffer holds."""
BATCH_ENTRIES = 500
BATCH_BYTES = 4 * 1024 * 1024
HANG_S = 30.0
"""How long one write may take."""
FIRST_RETRY_S = 0.5
LAST_RETRY_S = 60.0

_log = unfailing("outlast.mirrors")

Job = tuple[Callable[[Any], Awaitable[Any]], "concurrent.futures.Future[Any]"]


class Feed:
    """An observer that feeds one mirror."""

    def __init__(self, mirror: Any) -> None:
        self.name = name_of(mirror)
        self._mirror = mirror
        self._buffer: collections.deque[Landed] = collections.deque()
        self._bytes = 0
        self._jobs: collections.deque[Job] = collections.deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self._written = self._dropped = self._failures = 0
        self._error: str | None = None
        self._is_behind = False
        self._busy_since: float | None = None

    # --- from the engine's side ---------------------------------------------------------------------------------------

    def open(self) -> None:
        """Begin to feed, in a thread of its own; unless one is left from before, which then goes on."""
        with self._changed:
            self._is_closing = False
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name=f"outlast-mirror-{self.name}", daemon=True)
                self._thread.start()

    def landed(self, commit: Commit) -> None:
        """See `Observer`."""
        with self._changed:
            for entry in commit.entries:
                if len(self._buffer) >= MOST_ENTRIES or self._bytes >= MOST_BYTES:
                    self._drop()
                else:
                    self._buffer.append(entry)
                    self._bytes += len(entry.events)
            self._changed.notify()

    def recalled(self, uid: str, entries: Sequence[Landed]) -> None:
        """See `Observer`."""

    def call(self, work: Callable[[Any], Awaitable[Any]]) -> concurrent.futures.Future[Any]:
        """Do this with the mirror, in its thread, between two writes."""
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        with self._changed:
            if self._is_closing or self._thread is None:
                done.set_exception(RuntimeError(f"mirror {self.name} is closed"))
            else:
                self._jobs.append((work, done))
                self._changed.notify()
        return done

    def close(self, timeout_s: float) -> bool:
        """Let it write what waits, for so long; False: it has not, and what is left has to be caught up on."""
        with self._changed:
            self._is_closing = True
            thread = self._thread
            self._changed.notify()
        if thread is not None:
            thread.join(timeout_s)
            if thread.is_alive():
                _log.warning("mirror %s is closed with %d entries unwritten", self.name, self.info().waiting)
                return False
        return True

    def info(self) -> MirrorInfo:
        """How it is doing."""
        with self._changed:
            busy = self._busy_since
            return MirrorInfo(
                name=self.name,
                state=self._state(busy),
                written=self._written,
                dropped=self._dropped,
                failures=self._failures,
                waiting=len(self._buffer),
                error=self._error,
                busy_since=None if busy is None else datetime.fromtimestamp(busy, UTC),
            )

    def _state(self, busy: float | None) -> str:
        if busy is not None and time.time() - busy > HANG_S:
            return "stuck"
        if self._error is not None:
            return "failing"
        if self._is_closing or self._thread is None:
            return "closed"
        return "idle" if busy is None else "writing"

    def _drop(self) -> None:
        self._dropped += 1
        if not self._is_behind:
            self._is_behind = True
            _log.warning("mirror %s is behind: what comes is dropped until there is room again", self.name)

    # --- from the mirror's side ---------------------------------------------------------------------------------------

    def _run(self) -> None:
        """The thread. Whatever happens in it, the engine goes on."""
        try:
            with asyncio.Runner() as runner:
                self._feed(runner)
        except BaseException:  # noqa: BLE001 - a daemon's last words; its entries can be caught up on
            _log.exception("mirror %s has ended", self.name)

    def _feed(self, runner: asyncio.Runner) -> None:
        is_open, delay = False, FIRST_RETRY_S
        while True:
            batch, job = self._wait()
            if job is None and not batch:
                break
            try:
                if not is_open:
                    self._do(runner, open_mirror(self._mirror))
                    is_open = True
                if job is not None:
                    self._do_job(runner, job)
                    continue
                self._do(runner, self._mirror.write(batch))
            except Exception as error:  # noqa: BLE001 - whatever a mirror does
                if job is not None:
                    job[1].set_exception(error)
                self._failed(error, delay)
                is_open = self._give_up(runner) and False
                if self._pause(delay):
                    break
                delay = min(delay * 2, LAST_RETRY_S)
            else:
                self._wrote(batch)
                delay = FIRST_RETRY_S
        if is_open:
            self._give_up(runner)

    def _wait(self) -> tuple[list[Landed], Job | None]:
        """The next thing to do. Entries stay in the buffer until they are written; nothing at all: it is closed."""
        with self._changed:
            while not self._buffer and not self._jobs:
                if self._is_closing:
                    return [], None
                self._changed.wait()
            if self._jobs:
                return [], self._jobs.popleft()
            batch: list[Landed] = []
            size = 0
            for entry in self._buffer:
                if len(batch) >= BATCH_ENTRIES or (batch and size + len(entry.events) > BATCH_BYTES):
                    break
                batch.append(entry)
                size += len(entry.events)
            return batch, None

    def _do(self, runner: asyncio.Runner, work: Awaitable[Any]) -> Any:
        async def within_limit() -> Any:
            async with asyncio.timeout(HANG_S):
                return await work

        self._busy_since = time.time()
        try:
            return runner.run(within_limit())
        finally:
            self._busy_since = None

    def _do_job(self, runner: asyncio.Runner, job: Job) -> None:
        work, done = job
        try:
            done.set_result(self._do(runner, work(self._mirror)))
        except Exception as error:  # noqa: BLE001 - told to who asked for it
            done.set_exception(error)

    def _wrote(self, batch: Sequence[Landed]) -> None:
        with self._changed:
            for entry in batch:
                self._buffer.popleft()
                self._bytes -= len(entry.events)
            self._written += len(batch)
            was_failing, self._error = self._error is not None, None
            if self._is_behind and not self._buffer:
                self._is_behind = False
        if was_failing:
            _log.info("mirror %s writes again", self.name)

    def _failed(self, error: Exception, delay: float) -> None:
        with self._changed:
            self._failures += 1
            is_first, self._error = self._error is None, f"{type(error).__name__}: {error}"
        if is_first:
            text = "mirror %s failed: it is tried again in %.1f s, then ever later; runs go on without it"
            _log.warning(text, self.name, delay, exc_info=error)

    def _pause(self, delay: float) -> bool:
        """Wait before the next try. True: it is closed meanwhile, and what is left stays unwritten."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closing, delay)
            return self._is_closing

    def _give_up(self, runner: asyncio.Runner) -> bool:
        """Close it, as well as it can be."""
        try:
            self._do(runner, close_mirror(self._mirror))
        except Exception as error:  # noqa: BLE001 - it is to be opened anew, or forgotten
            _log.debug("mirror %s did not close", self.name, exc_info=error)
        return True
