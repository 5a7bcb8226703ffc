"""The queue of callbacks, the time and the timers of a body's loop. Layer: core.

What always holds: callbacks run in the order in which they became ready, time moves only by what is fed, and nothing a
callback raises gets out but what concerns the process or the engine.
"""

# A loop reads its handles, as asyncio's own loops do.
# ruff: noqa: SLF001
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, Final, NamedTuple, NoReturn, TypeVarTuple, cast

from outlast.core.loop.refusals import RefusingLoop
from outlast.core.loop.timers import BodyTimer, BodyTimerHandle, BodyTimers
from outlast.errors import BodyStopped, EffectInBody

__all__ = ["BUDGET", "BodyHandle", "CallbackLoop", "Unhandled"]

BUDGET: Final = 100_000
"""How many callbacks a body may run without a command (SPEC P6)."""
MOST_UNHANDLED: Final = 20

_Args = TypeVarTuple("_Args")


class BodyHandle(asyncio.Handle):
    """A callback on the queue."""

    __slots__ = ()
    _callback: Callable[..., object]
    _context: Context
    _loop: asyncio.AbstractEventLoop


_new_handle = cast(Callable[[type[BodyHandle]], BodyHandle], object.__new__)


_NOWHERE: Final[deque[BodyHandle]] = deque(maxlen=0)
"""What a loop that is closing puts its callbacks on."""


class Unhandled(NamedTuple):
    """What asyncio would have told a loop's exception handler."""

    message: str
    error: BaseException | None


class CallbackLoop(RefusingLoop):
    """The part of a body's loop that knows of callbacks alone.

    Times are microseconds since the Unix epoch, but for `time()` and `call_at`: those are asyncio's seconds, which are
    0.0 at `start_us`.
    """

    __slots__ = (
        "_ready",
        "_time",
        "budget",
        "closing",
        "foreign_call",
        "now_us",
        "start_us",
        "system_exit",
        "timers",
        "unhandled",
    )

    def __init__(self, start_us: int) -> None:
        self.start_us = start_us
        self.now_us = start_us
        """The body's time: that of the latest stimulus."""
        self.closing = False
        """The body is being evicted, or was."""
        self.foreign_call: BaseException | None = None
        """The first `call_soon_threadsafe`. It raised there; the body may wait for what it was to tell for ever."""
        self.system_exit: SystemExit | None = None
        """The first one raised in the body, by whichever task."""
        self.unhandled: list[Unhandled] = []
        """The first twenty errors that nobody in the body took."""
        self._ready: deque[BodyHandle] = deque()
        self.timers = BodyTimers(start_us)
        self._time = 0.0
        self.budget = BUDGET
        """How many callbacks it may still run. The machine fills it up with each command."""

    # --- what the machine calls ---------------------------------------------------------------------------------------

    def advance_to(self, at_us: int) -> None:
        """Set the body's time. It never runs backwards: an earlier instant changes nothing."""
        if at_us > self.now_us:
            self.now_us = at_us
            self._time = (at_us - self.start_us) / 1e6

    def next_timer(self) -> BodyTimer | None:
        """The earliest timer."""
        return self.timers.next()

    def fire_timer(self, ordinal: int) -> bool:
        """Make this timer's callback ready, at its due time, or now if that is later. False: there is no such timer."""
        handle = self.timers.take(ordinal)
        if handle is None:
            return False
        self.advance_to(handle.due_us)
        self._ready.append(cast(BodyHandle, handle))
        return True

    def interrupt(self, error: BodyStopped) -> BodyHandle:
        """From any thread: let the drain at hand raise `error` when its present callback returns, whatever the body
        makes of exceptions. To take it back, cancel the handle: one that came too late would meet the next drain.
        """
        handle = BodyHandle(_raise, (error,), self, Context())
        self._ready.appendleft(handle)
        return handle

    # --- what asyncio and the body call -------------------------------------------------------------------------------

    def time(self) -> float:
        """Seconds since the body's beginning. They stand still while it runs."""
        return self._time

    def call_soon(
        self, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> BodyHandle:
        """Put a callback on the queue."""
        handle = _new_handle(BodyHandle)  # and filled in by hand: two thirds of what an __init__ takes
        handle._callback = callback
        handle._args = args
        handle._context = copy_context() if context is None else context
        handle._loop = self
        handle._cancelled = False
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> BodyTimerHandle:
        """Arm a durable timer, `delay` seconds from the body's time."""
        return self.call_at(self._time + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[*_Args], object], *args: *_Args, context: Context | None = None
    ) -> BodyTimerHandle:
        """Arm a durable timer. Its callback runs when the machine fires it."""
        handle = BodyTimerHandle(when, callback, args, self, context)
        if self.closing:
            handle.ordinal, handle.due_us = 0, 0
        else:
            self.timers.arm(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*_Args], object],  # noqa: ARG002 - any call is refused
        *args: *_Args,  # noqa: ARG002
        context: Context | None = None,  # noqa: ARG002
    ) -> NoReturn:
        """Refused, and noted in `foreign_call`: an effect has happened, and the body would wait for it for ever."""
        error = EffectInBody("loop.call_soon_threadsafe(), which is what a thread calls, or the future of one")
        if self.foreign_call is None and not self.closing:
            self.foreign_call = error
        raise error

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Note an error that nobody took."""
        self.note_unhandled(str(context.get("message")), context.get("exception"))

    # --- inside -------------------------------------------------------------------------------------------------------

    def run_ready(self) -> bool:
        """Run what is ready, and what becomes ready by it, until nothing is. False: the budget is used up."""
        ready = self._ready
        while ready:
            if self.budget <= 0:
                return False
            self.budget -= 1
            handle = ready.popleft()
            if handle._cancelled:
                continue
            try:
                handle._context.run(handle._callback, *handle._args)
            except BaseException as error:  # noqa: BLE001 - sorted there
                self._sort(error)
        return True

    def drop_callbacks(self) -> None:
        """Forget what is ready and what is armed; whatever becomes ready from now on drops out."""
        self._ready.clear()
        self._ready = _NOWHERE
        self.timers.clear()

    def note_unhandled(self, message: str, error: BaseException | None) -> None:
        """Keep it, if it is among the first."""
        if len(self.unhandled) < MOST_UNHANDLED and not self.closing:
            self.unhandled.append(Unhandled(message, error))

    def _sort(self, error: BaseException) -> None:
        """Keep what a callback raised, but for what is not the body's own affair."""
        if isinstance(error, KeyboardInterrupt | MemoryError | BodyStopped):
            raise error
        if isinstance(error, SystemExit):
            self.system_exit = self.system_exit or error
        else:
            self.note_unhandled("A callback of the body failed", error)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """What `TimerHandle.cancel` calls."""
        self.timers.take(cast(BodyTimerHandle, handle).ordinal)


def _raise(error: BaseException) -> NoReturn:
    raise error
