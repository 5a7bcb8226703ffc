"""Runs that are shared out: which are taken next, and how many may be. Layer: stores (memory)."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from outlast.stores.sharing import part_lanes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.stores.memory.tables import Run, Tables
    from outlast.stores.store import Claiming, RunSharing

__all__ = ["look_at_lanes", "take_pooled"]


def take_pooled(tables: Tables, claiming: Claiming, sharing: RunSharing, now: int) -> list[Run]:
    """Take out due runs of one queue and pool, as it is shared out."""
    (queue,) = claiming.queues
    placed = [run for runs in tables.owned.values() for run in runs.values() if run.pool is not None]
    held = collections.Counter(run.group for run in placed if run.pool == sharing.pool)
    places = claiming.limit
    if sharing.most is not None:
        places = min(places, sharing.most - held.total())
    if sharing.queue_most is not None:
        places = min(places, sharing.queue_most - sum(run.queue == queue for run in placed))
    due = [(at, run) for at, run in _list_waiting(tables, claiming, queue, sharing.pool) if at <= now]
    due.sort(key=lambda entry: (entry[0], entry[1].uid))
    ranks: collections.Counter[tuple[int, str]] = collections.Counter()
    ordered = []
    for at, run in due:
        ranks[run.priority, run.group] += 1
        has = held[run.group] + ranks[run.priority, run.group]
        level = 0 if claiming.oldest_first else run.priority
        ordered.append((level, has, tables.served.get((sharing.pool, run.group), 0), at, run.uid, run))
    ordered.sort(key=lambda entry: entry[:-1])
    taken = [entry[-1] for entry in ordered[: max(0, places)]]
    for run in taken:
        tables.served[sharing.pool, run.group] = now
    return taken


def look_at_lanes(tables: Tables, claiming: Claiming, now: int) -> tuple[tuple[tuple[str, str], ...], int | None]:
    """In which of them a run is due, and when one will be in others."""
    found = []
    for queue, pool in claiming.lanes:
        at = min((at for at, _ in _list_waiting(tables, claiming, queue, pool)), default=None)
        if at is not None:
            found.append((queue, pool, at))
    return part_lanes(found, now)


def _list_waiting(tables: Tables, claiming: Claiming, queue: str, pool: str) -> Iterator[tuple[int, Run]]:
    """Those that it may serve, and when they are due."""
    for run in tables.pools.get((queue, pool), {}).values():
        if run.wake_at is not None and claiming.deploy not in run.unfit:
            yield run.wake_at, run
