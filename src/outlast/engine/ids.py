"""Where randomness comes from. Layer: engine. Core takes ids and seeds as arguments; these are the ones it gets.

What always holds: no byte of the system's is used twice, and none on both sides of a fork.
"""

from __future__ import annotations

import os
import random
import secrets
import threading

from outlast.core.keys import uuid7
from outlast.core.trace import own_trace

__all__ = ["new_mark", "new_seed", "new_trace", "new_uid"]

_marks = random.Random(secrets.randbits(128))  # marks tell writers apart; nobody gains by guessing one
_get_mark = _marks.getrandbits


class _Bytes:
    """The system's random bytes, drawn many at once: each draw lets Python's lock go, and a start needs three."""

    DRAWN = 1024

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """In a fork's child: draw anew. The lock may have been held by a thread that the child does not have."""
        self._lock = threading.Lock()
        self._left = b""

    def take(self, count: int) -> bytes:
        """So many."""
        with self._lock:
            if len(self._left) < count:
                self._left = secrets.token_bytes(self.DRAWN)
            taken, self._left = self._left[:count], self._left[count:]
            return taken


_bytes = _Bytes()


def new_uid(at_us: int) -> str:
    """A time-ordered UUID."""
    return uuid7(at_us, int.from_bytes(_bytes.take(8)))


def new_mark() -> int:
    """What an entry is recognised by: 63 random bits, never 0."""
    return _get_mark(62) + 1


def new_seed() -> int:
    """What `ctx.random` and `ctx.uuid` of one run start from: 62 bits."""
    return int.from_bytes(_bytes.take(8)) >> 2


def new_trace(uid: str) -> str:
    """A W3C `traceparent` of a trace that starts with this run."""
    return own_trace(_bytes.take(16).hex(), uid)


def _reseed() -> None:
    """Two processes must not draw the same marks, nor the same bytes."""
    _marks.seed(secrets.randbits(128))
    _bytes.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reseed)
