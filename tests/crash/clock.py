"""The store's clock of one world: this machine's, and whatever the test has added to it, the same for every process.

A test that says "a minute passes" adds a minute here. For a worker that is up it is what it says in DESIGN of a clock
that jumps forward: its lease lapses at once, noisily and safely.
"""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

__all__ = ["SharedClock", "follow_wall_clock"]

_OFFSET = struct.Struct("q")


class SharedClock:
    """µs since the Unix epoch."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_OFFSET.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _OFFSET.size)

    def __call__(self) -> int:
        return time.time_ns() // 1000 + self.added_us

    @property
    def added_us(self) -> int:
        """By `add`, in all."""
        (offset,) = _OFFSET.unpack(self._memory)
        return int(offset)

    def add(self, seconds: float) -> None:
        """Time passes, for all."""
        self._memory[:] = _OFFSET.pack(self.added_us + round(seconds * 1_000_000))


def follow_wall_clock(path: Path) -> None:
    """From here on this process believes the wall clock to be wrong by what others add to the clock in this file."""
    clock, read_ns = SharedClock(path), time.time_ns
    time.time_ns = lambda: read_ns() + clock.added_us * 1000
    time.time = lambda: time.time_ns() / 1e9
