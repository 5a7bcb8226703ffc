"""Watches the thread of the host's loop: a body that holds it too long, and a step that blocks it. Layer: engine.

One daemon thread for each worker. It says where a body is that drains for over 2 s, and raises `BodyBlocked` in the
loop's thread after 10 s, or one lease if that is shorter (SPEC P6); and it says where the host's loop is that has not
ticked for over 1 s outside a drain (SPEC S6). The engine marks each drain, as near as it can to the machine:

    watchdog.drain_began(run_id, machine.loop)
    try:
        commands = machine.feed(stimulus)
    finally:
        watchdog.drain_ended()  # raises BodyBlocked, also when the body swallowed it

What always holds: once `drain_ended` has returned, nothing is raised in the loop's thread. The two threads cannot miss
each other: the one says that it ends, then looks for a shot; the other says that it shoots, then looks for an end.

What remains:

- Python raises between two bytecodes. `time.sleep(3600)`, or a long match of a regular expression, ends when it ends.
- The exception may come anywhere between the two marks, in the machine as well as in the body, and on the way into
  `drain_ended`. Either way the machine is to be evicted, and nothing of it committed.
- A body may swallow it (`except BaseException`). So it is raised again every second, and the loop itself raises it
  before its next callback. A body that swallows every one of them, and never awaits, is not stopped; the log has its
  stack.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Final, NamedTuple

from outlast.core.loop import BodyHandle, BodyLoop
from outlast.core.loop.eviction import close_body
from outlast.errors import BodyBlocked

__all__ = ["Watchdog"]

# Looked up twice, for each look-up gives a function with argument types of its own.
_raise_in: Final = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
_raise_in.argtypes = (ctypes.c_ulong, ctypes.py_object)
_take_back: Final = ctypes.pythonapi["PyThreadState_SetAsyncExc"]
_take_back.argtypes = (ctypes.c_ulong, ctypes.c_void_p)


class _Settled(BaseException):
    """Takes the place of an exception that is not to come, comes at once, and is caught where it was sent from.

    Taking one back and sending none leaves Python 3.11 and 3.12 with a flag that only an exception lowers: whatever
    loops is slower from then on, and on 3.11 the next call that a debugger or coverage traces never returns.
    """


_BODY_BEGINS: Final = frozenset({BodyLoop.run_ready.__code__, close_body.__code__})
_PLAIN_BODIES: Final = "outlast.core.loop.plain_bodies"
"""A plain `def` body begins in there. By name: the module needs greenlet."""


_Drain = tuple[str, BodyLoop | None]
"""The run, and its body's loop. A new one for each drain, so that two of one run are told apart; a plain tuple, for one
is made for each step."""


class _Shot(NamedTuple):
    error: BodyBlocked
    handle: BodyHandle | None
    """The same error, on the queue of the body's loop."""


class Watchdog:
    """See the module's docstring. All limits are microseconds."""

    def __init__(
        self,
        loop_thread_id: int,
        *,
        lease_us: int,
        log: logging.Logger,
        describe_current: Callable[[], str] = lambda: "",
        slow_drain_us: int = 2_000_000,
        blocked_us: int = 10_000_000,
        stalled_us: int = 1_000_000,
        tick_us: int = 250_000,
    ) -> None:
        """`describe_current` names the steps under way, for the warning; it is called in the watchdog's own thread."""
        self._thread_id = loop_thread_id
        self._log = log
        self._describe_current = describe_current
        self._slow_s = slow_drain_us / 1e6
        self._blocked_s = min(blocked_us, lease_us) / 1e6
        self._stalled_s = stalled_us / 1e6
        self._tick_s = tick_us / 1e6
        self._look_s = min(0.25, self._tick_s, self._slow_s / 4, self._blocked_s / 4, self._stalled_s / 4)
        self.last_tick = time.monotonic()
        """When the host's loop last came by, in seconds of `time.monotonic`."""
        self._told_tick = 0.0
        """The tick after which a stall was told of: once each."""
        self._timer: asyncio.TimerHandle | None = None
        self._thread = threading.Thread(target=self._watch, name="outlast-watchdog", daemon=True)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._drain: _Drain | None = None
        self._shot: _Shot | None = None
        # Of the drain that was seen at the last look; the thread's own.
        self._seen: _Drain | None = None
        self._looked_at = 0.0
        self._age_s = 0.0
        self._next_shot_s = 0.0
        self._is_told = False

    # --- in the loop's thread -----------------------------------------------------------------------------------------

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch from now on, and let `loop` tick. Call it in the loop's thread."""
        self._tick_on(loop)
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer. Returns when the thread has ended."""
        if self._timer is not None:
            self._timer.cancel()
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def tick(self) -> None:
        """The host's loop came by."""
        self.last_tick = time.monotonic()

    @property
    def stalled_us(self) -> int:
        """For how long the host's loop has not come by. To be read in any thread."""
        return int((time.monotonic() - self.last_tick) * 1e6)

    def drain_began(self, run_id: str, loop: BodyLoop | None = None) -> None:
        """A body is about to run. `loop` is its own: it helps to stop one that swallows the first `BodyBlocked`."""
        if self._shot is not None:  # the end of the drain before was not marked
            self._settle()
        self._drain = (run_id, loop)

    def drain_ended(self) -> None:
        """The body has stopped. Raises `BodyBlocked` if that was raised meanwhile, whatever the body made of it, but
        lets a KeyboardInterrupt or MemoryError on its way out pass.
        """
        self._drain = None  # first: see the module's docstring
        if self._shot is not None:
            error = self._settle()
            if error is not None and not isinstance(sys.exception(), KeyboardInterrupt | MemoryError):
                raise error from None

    def _settle(self) -> BodyBlocked | None:
        """Take back what has not been raised yet. Gives what was shot, raised or not."""
        error = None
        while True:
            try:
                with self._lock:
                    if self._shot is not None:
                        error, handle = self._shot
                        if handle is not None:
                            handle.cancel()
                        self._shot = None
                    _raise_in(self._thread_id, _Settled)
                    for _ in range(100):  # it comes at once, behind that call
                        pass
            except BodyBlocked:  # it came just before its place was taken
                continue
            except _Settled:
                pass
            except BaseException:
                _take_back(self._thread_id, None)
                raise
            return error

    def _tick_on(self, loop: asyncio.AbstractEventLoop) -> None:
        self.tick()
        self._timer = loop.call_later(self._tick_s, self._tick_on, loop)

    # --- in the watchdog's thread -------------------------------------------------------------------------------------

    def _watch(self) -> None:
        self._looked_at = time.monotonic()
        while not self._stopping.wait(self._look_s):
            try:
                self._look(time.monotonic())
            except Exception:  # noqa: BLE001 - it must not end for a bad describe_current
                self._log.exception("The watchdog could not look at the event loop; it goes on")

    def _look(self, now: float) -> None:
        # A process that was frozen (SIGSTOP, a laptop's lid) is no body's fault: such a gap counts as two looks.
        passed_s = min(now - self._looked_at, 2 * self._look_s)
        self._looked_at = now
        drain = self._drain
        if drain is None:
            self._look_at_host(now)
        elif drain is not self._seen:
            self._age_s, self._next_shot_s, self._is_told = 0.0, self._blocked_s, False
        else:
            self._age_s += passed_s
            self._look_at_drain(drain)
        self._seen = drain

    def _look_at_host(self, now: float) -> None:
        tick = self.last_tick
        if now - tick < self._stalled_s or tick == self._told_tick:
            return
        self._told_tick = tick
        steps = self._describe_current()
        during = f", during {steps}" if steps else ""
        message = (
            "The event loop has been blocked for %.1f s%s. Make the step a plain def, or await in it. It is at:\n%s"
        )
        self._log.warning(message, now - tick, during, self._format_stack()[0])

    def _look_at_drain(self, drain: _Drain) -> None:
        if self._age_s >= self._slow_s and not self._is_told:
            self._is_told = True
            message = "The body of run %s has held its worker's event loop for %.1f s. It is at:\n%s"
            self._log.warning(message, drain[0], self._age_s, self._format_stack()[0])
        if self._age_s >= self._next_shot_s:
            self._next_shot_s = self._age_s + min(1.0, self._blocked_s)
            self._shoot(drain)

    def _shoot(self, drain: _Drain) -> None:
        """Raise BodyBlocked in the loop's thread, unless this very drain has ended."""
        stack, is_in_body = self._format_stack()
        if not is_in_body:
            return  # the end of the drain was not marked, or the engine itself is slow
        run_id, loop = drain
        error = BodyBlocked(run_id, self._age_s, stack)
        # Python makes the exception itself, from a class and without arguments: so its fields are the class's.
        kind = type(BodyBlocked.__name__, (BodyBlocked,), dict(vars(error), __module__=BodyBlocked.__module__))
        with self._lock:
            before = self._shot
            self._shot = before or _Shot(error, None)  # first: see the module's docstring
            if self._drain is not drain:
                self._shot = before
                return
            _raise_in(self._thread_id, kind)
            if before is None and loop is not None:
                self._shot = _Shot(error, loop.interrupt(error))
        self._log.error("The body of run %s is stopped: it blocked its worker for %.1f s", run_id, self._age_s)

    def _format_stack(self) -> tuple[str, bool]:
        """Where the loop's thread is, and whether that is in a body. Then it is only what the body calls."""
        # Frames first and texts after: reading the source takes long, and the thread goes on meanwhile.
        frames: list[tuple[FrameType, int]] = []
        current = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # noqa: SLF001 - documented all the same
        frame = current.get(self._thread_id)
        while frame is not None and not _begins_body(frame):
            frames.append((frame, frame.f_lineno))
            frame = frame.f_back
        return "".join(traceback.StackSummary.extract(iter(frames[::-1])).format()), frame is not None


def _begins_body(frame: FrameType) -> bool:
    return frame.f_code in _BODY_BEGINS or frame.f_globals.get("__name__") == _PLAIN_BODIES
