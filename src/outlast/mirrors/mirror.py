"""What a mirror is, and what is told of one. Layer: mirrors.

What always holds: a mirror may be given an entry more than once, and late; `(uid, seq)` tells it from all others, and
an entry never changes. So a mirror that keeps what it has is right, whatever comes in which order.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from outlast.telemetry.observer import Landed

__all__ = ["Mirror", "MirrorInfo", "close_mirror", "find_positions", "name_of", "open_mirror"]


class Mirror(Protocol):
    """Keeps copies of entries. Its methods are called in a thread, and an event loop, of its own: it may block.

    It may have more, and each is called if it is there: `async open()` before the first `write` and after each failure;
    `async close()`; and `async positions(uids)`, which says for each run from which `seq` on entries are missing (a
    run it has nothing of may be left out). Without that, catching up gives it everything.
    """

    async def write(self, batch: Sequence[Landed]) -> None:
        """Keep these. Once it returns they are kept; if it raises, the same batch comes again."""
        ...


class MirrorInfo(msgspec.Struct, frozen=True):
    """How a mirror of this process is doing."""

    name: str
    state: str
    """`idle`, `writing`; `failing`: its last write failed, and it is tried again; `stuck`: a write does not come back;
    `closed`."""
    written: int
    """Entries, since the app was opened first."""
    dropped: int
    """Entries it has missed, for it was behind: `app.mirror_catch_up()` copies them."""
    failures: int
    waiting: int
    """Entries in its buffer."""
    error: str | None
    """Of its latest failure, if it has not written since."""
    busy_since: datetime | None
    """Since when the write at hand is under way."""


def name_of(mirror: object) -> str:
    """For logs and metrics: what it calls itself, else its class."""
    name = getattr(mirror, "name", None)
    return name if isinstance(name, str) else type(mirror).__name__


async def open_mirror(mirror: Any) -> None:
    """Call its `open`, if it has one."""
    if hasattr(mirror, "open"):
        await mirror.open()


async def close_mirror(mirror: Any) -> None:
    """Call its `close`, if it has one."""
    if hasattr(mirror, "close"):
        await mirror.close()


async def find_positions(mirror: Any, uids: Sequence[str]) -> dict[str, int]:
    """From which `seq` on entries of these runs are missing."""
    return dict(await mirror.positions(uids)) if hasattr(mirror, "positions") else {}
