"""Copying to a mirror what it misses, from the journals of a store. Layer: mirrors.

What always holds: it only reads the store, and may be stopped, repeated and run beside whatever else: a mirror keeps
what it has. What lands while it runs is the business of who puts it on record.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from outlast.stores.store import RunQuery
from outlast.telemetry.observer import Landed

if TYPE_CHECKING:
    from outlast.stores.store import Store

__all__ = ["CaughtUp", "Target", "catch_up"]

RUNS_AT_ONCE = 200
ENTRIES_AT_ONCE = 500


class Target(Protocol):
    """The mirror, as who catches up reaches it."""

    async def positions(self, uids: Sequence[str]) -> dict[str, int]:
        """See `Mirror`."""
        ...

    async def write(self, batch: Sequence[Landed]) -> None:
        """See `Mirror`."""
        ...


class CaughtUp(msgspec.Struct, frozen=True):
    """What a round of catching up found."""

    runs: int
    """Runs looked at."""
    incomplete: int
    """Those of them of which entries were missing."""
    entries: int
    """Entries that were missing, and are copied, unless it was only looking."""


async def catch_up(
    store: Store,
    target: Target,
    *,
    only_look: bool = False,
    on_progress: Callable[[CaughtUp], None] | None = None,
) -> CaughtUp:
    """Go through all runs, newest first. Raises what the store or the mirror raises; call it again then."""
    runs = incomplete = entries = 0
    after: tuple[int, str] | None = None
    while page := await store.list_runs(RunQuery(after=after, limit=RUNS_AT_ONCE)):
        positions = await target.positions([row.uid for row in page])
        for row in page:
            copied = await _copy_run(store, row.uid, positions.get(row.uid, 0), None if only_look else target.write)
            runs, incomplete, entries = runs + 1, incomplete + (copied > 0), entries + copied
        after = (page[-1].created_at, page[-1].uid)
        if on_progress is not None:
            on_progress(CaughtUp(runs, incomplete, entries))
    return CaughtUp(runs, incomplete, entries)


async def _copy_run(
    store: Store, uid: str, first: int, write: Callable[[Sequence[Landed]], Awaitable[None]] | None
) -> int:
    copied, after = 0, first - 1
    while found := await store.read_journal(uid, after=after, limit=ENTRIES_AT_ONCE):
        if write is not None:
            await write([Landed(uid, entry.seq, entry.at, entry.writer, entry.events) for entry in found])
        copied, after = copied + len(found), found[-1].seq
        if len(found) < ENTRIES_AT_ONCE:
            break
    return copied
