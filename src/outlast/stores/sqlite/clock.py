"""The time of a SQLite store: this machine's wall clock. Layer: stores (sqlite).

All processes on a file are on one machine, so they share one clock, and everything due is compared with it. It is read
in Python, after a transaction has its lock: a time read before the wait for it would be old, and a lease that lapsed
meanwhile could be renewed with it.

What a jump of the clock does. Forward: every lease lapses at once, so runs are taken over; their workers find out at
their next write, drop them and register anew. Timers due within the jump fire early, by the world's time. That is noisy
and safe: what is fenced stays fenced, whatever a clock says. Backward: leases last longer by the jump, so runs of a
worker that died just then wait that much longer for a new owner, and timers fire that much later. Nothing else depends
on it: positions, marks, epochs and message numbers are counted, not timed.
"""

from __future__ import annotations

import time

__all__ = ["wall_clock_us"]


def wall_clock_us() -> int:
    """µs since the Unix epoch."""
    return time.time_ns() // 1000
