"""The store's clock of one world: this machine's, and whatever the test has added to it, the same for every process.

A test that says "a minute passes" adds a minute here. For a worker that is up it is what it says in DESIGN of a clock
that jumps forward: its lease lapses at once, noisily and safely.
"""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

__all__ = ["SharedClock"]

_OFFSET = struct.Struct("q")


class SharedClock:
    """µs since the Unix epoch."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_OFFSET.size))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _OFFSET.size)

    def __call__(self) -> int:
        (offset,) = _OFFSET.unpack(self._memory)
        return time.time_ns() // 1000 + int(offset)

    def add(self, seconds: float) -> None:
        """Time passes, for all."""
        (offset,) = _OFFSET.unpack(self._memory)
        self._memory[:] = _OFFSET.pack(offset + round(seconds * 1_000_000))
