"""What time it is, by the store. Layer: engine.

Everything due is compared with the store's clock, but a body is fed before its commit. So a worker keeps an estimate:
the store's time at the last answer, plus what a clock that never jumps has counted since (PROTOCOL F37). What always
holds: the estimate of one process never runs backwards.
"""

from __future__ import annotations

import time

__all__ = ["StoreClock", "boottime_us"]

_read_ns = time.clock_gettime_ns

_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Counts on while a virtual machine is suspended, as leases do elsewhere; monotonic time stops there (PROTOCOL F6)."""


def boottime_us() -> int:
    """Microseconds on a clock of this machine that never jumps."""
    return _read_ns(_CLOCK) // 1000


class StoreClock:
    """The estimate. `set` may be called from any thread."""

    __slots__ = ("_last", "_offset")

    def __init__(self) -> None:
        self._offset = 0
        self._last = 0

    def set(self, store_now_us: int) -> None:
        """The store just answered with its time. The estimate is late by the answer's way back, never early."""
        self._offset = store_now_us - boottime_us()

    def catch_up(self, store_now_us: int) -> None:
        """The store said so some time ago. If it is ahead of the estimate, its clock was set forward."""
        if store_now_us > boottime_us() + self._offset:
            self.set(store_now_us)

    def now_us(self) -> int:
        """The store's time, as far as known here."""
        now = _read_ns(_CLOCK) // 1000 + self._offset
        if now <= self._last:
            return self._last
        self._last = now
        return now
