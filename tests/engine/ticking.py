"""This machine's clock, moved by a test."""

from __future__ import annotations


class BootClock:
    """Stands in for `time.clock_gettime_ns`: it counts on when the test says so."""

    def __init__(self) -> None:
        self.now_us = 5_000_000_000

    def __call__(self, _clock: int) -> int:
        return self.now_us * 1000

    def advance(self, us: int) -> None:
        self.now_us += us
