"""How queued steps and runs are shared out: limits over all workers, a part for each group (SPEC Q2). Layer: stores.

What always holds: a limit counts what is held when it is asked, whoever holds it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

__all__ = ["POOLED", "SERVED_FOR_US", "RunSharing", "Sharing", "part_lanes"]

POOLED = 10
"""SQL stores add this to the priority of a run of a pool, and so keep it from all that looks for other runs."""

SERVED_FOR_US = 3_600_000_000
"""How long it is kept when a group of a pool was last given a place: who was given none for so long comes first."""


class Sharing(msgspec.Struct, frozen=True):
    """How the tasks of one queue are shared out: for a claim of this queue alone.

    Among those of a priority, a group that has fewer tasks held comes first, whoever holds them; among groups that have
    as many, who has waited for more turns: a task gets its turn when it is queued, one behind its group's last, and not
    before the first of all that wait. (Held tasks alone would not do: with one place nothing is held when it is given.)
    """

    most: int | None = None
    """Tasks of the queue that may be held at once, by all workers together. None: any number."""


class RunSharing(msgspec.Struct, frozen=True):
    """How runs are shared out: for a claim of one queue and one pool. Runs of a pool are claimed so and no other way.

    A run has a place while somebody owns it. Among those of a priority, a group that has fewer places in the pool comes
    first; of groups that have as many, the one that was longest not given any; then who has been due for longest."""

    pool: str
    most: int | None = None
    """Runs of the pool that may be owned at once, in all queues, by all workers together. None: any number."""
    queue_most: int | None = None
    """Runs of the queue that may be, of all its pools."""


def part_lanes(found: Iterable[tuple[str, str, int]], now: int) -> tuple[tuple[tuple[str, str], ...], int | None]:
    """Of queues, pools and when their first run is due: those in which one is, and when one will be in others."""
    due: list[tuple[str, str]] = []
    later: list[int] = []
    for queue, pool, at in found:
        if at <= now:
            due.append((queue, pool))
        else:
            later.append(at)
    return tuple(due), min(later, default=None)
