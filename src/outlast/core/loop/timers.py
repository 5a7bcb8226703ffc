"""The timers of a body: which is due next, by when and by ordinal. Layer: core.

What always holds: a timer is known by the ordinal of the call that armed it, timers due together go by ordinal, and
arming or cancelling costs the same whatever was armed before. A timer never fires before its time.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from typing import Final, NamedTuple

__all__ = ["BodyTimer", "BodyTimerHandle", "BodyTimers"]

_FOREVER_US: Final = 253_402_300_799_000_000
"""The end of the year 9999. What is due later, `sleep(math.inf)` above all, is never due."""
_TIDY: Final = 64
"""The heap is not tidied below this size."""


class BodyTimer(NamedTuple):
    """A timer that is due at `due_us`, in microseconds since the Unix epoch."""

    ordinal: int
    due_us: int


_NO_TIMER: Final = BodyTimer(0, 0)


class BodyTimerHandle(asyncio.TimerHandle):
    """What `call_at` returns. `when()` is in the loop's seconds, as asyncio has it."""

    __slots__ = ("due_us", "ordinal")
    due_us: int
    ordinal: int


class BodyTimers:
    """All armed timers of one body."""

    __slots__ = ("_armed", "_earliest", "_live", "_start_us", "heap")

    def __init__(self, start_us: int) -> None:
        self._start_us = start_us
        self._armed = 0
        self._live: dict[int, BodyTimerHandle] = {}
        self.heap: list[tuple[int, int]] = []
        """(due, ordinal) of all that live, and of some that were cancelled or have fired since. Others look at it to
        see that it is empty, as it is for most steps."""
        self._earliest = _NO_TIMER
        """The latest answer of `next`."""

    def arm(self, handle: BodyTimerHandle) -> None:
        """Number the timer, and take it in."""
        self._armed = handle.ordinal = ordinal = self._armed + 1
        handle.due_us = due_us = self._start_us + _to_us(handle.when())
        if due_us >= _FOREVER_US:
            return
        live, heap = self._live, self.heap
        live[ordinal] = handle
        heapq.heappush(heap, (due_us, ordinal))
        if len(heap) > _TIDY and len(heap) > 2 * len(live):
            heap[:] = [(timer.due_us, timer.ordinal) for timer in live.values()]
            heapq.heapify(heap)

    def take(self, ordinal: int) -> BodyTimerHandle | None:
        """Take this timer out; None if it was cancelled, has fired or never was."""
        return self._live.pop(ordinal, None)

    def next(self) -> BodyTimer | None:
        """The earliest timer."""
        heap, live = self.heap, self._live
        while heap:
            due_us, ordinal = heap[0]
            if ordinal in live:
                if self._earliest.ordinal != ordinal:
                    self._earliest = BodyTimer(ordinal, due_us)
                return self._earliest
            heapq.heappop(heap)
        return None

    def clear(self) -> None:
        """Forget all timers; ordinals go on."""
        self._live.clear()
        self.heap.clear()


def _to_us(when: float) -> int:
    """The first microsecond that is not before `when` seconds, as a body that compares `loop.time()` sees it."""
    if when == math.inf:
        return _FOREVER_US
    due_us = round(when * 1e6)  # not ceil: 0.000123 * 1e6 is a little over 123
    return due_us if due_us / 1e6 >= when else due_us + 1
