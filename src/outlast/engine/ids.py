"""Where randomness comes from. Layer: engine. Core takes ids and seeds as arguments; these are the ones it gets."""

from __future__ import annotations

import os
import random
import secrets

from outlast.core.keys import uuid7

__all__ = ["new_mark", "new_seed", "new_trace", "new_uid"]

_marks = random.Random(secrets.randbits(128))  # marks tell writers apart; nobody gains by guessing one


def new_uid(at_us: int) -> str:
    """A time-ordered UUID."""
    return uuid7(at_us, secrets.randbits(62))


def new_mark() -> int:
    """What an entry is recognised by: 63 random bits, never 0."""
    return _marks.getrandbits(62) + 1


def new_seed() -> int:
    """What `ctx.random` and `ctx.uuid` of one run start from."""
    return secrets.randbits(62)


def new_trace() -> str:
    """A W3C `traceparent` of a trace that starts here."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def _reseed() -> None:
    """Two processes must not draw the same marks."""
    _marks.seed(secrets.randbits(128))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reseed)
