"""The clock of a lab: this machine's, and what was skipped. Layer: testing.

What always holds: it never runs backwards further than the machine's does, and it skips only when it is told to.
"""

from __future__ import annotations

import time

__all__ = ["SkippingClock"]


class SkippingClock:
    """Called, it answers µs since the Unix epoch."""

    def __init__(self) -> None:
        self.skipped_us = 0
        """So far."""

    def __call__(self) -> int:
        """What time it is."""
        return time.time_ns() // 1000 + self.skipped_us

    def skip(self, by_us: int) -> None:
        """So much time has passed."""
        assert by_us >= 0
        self.skipped_us += by_us
