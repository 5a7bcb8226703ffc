"""What is settled about a queue, for its queued steps. Layer: engine."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from outlast.stores.store import WorkerRow

__all__ = ["QueueSettings", "find_unserved", "group_by_lease"]


class QueueSettings(msgspec.Struct, frozen=True):
    """What `app.queue` was told, checked."""

    lease_us: int = 60_000_000
    """How long a queued step may go without a renewal before it is taken for lost (SPEC L6)."""


_DEFAULT = QueueSettings()


def find_unserved(steps: Iterable[tuple[str, str]], workers: Collection[WorkerRow]) -> list[tuple[str, str]]:
    """Those of these queues and functions of queued steps that no worker of the queue knows."""
    return [
        (queue, function)
        for queue, function in steps
        if not any(queue in worker.queues and function in worker.functions for worker in workers)
    ]


def group_by_lease(queues: Iterable[str], settings: Mapping[str, QueueSettings]) -> list[tuple[int, tuple[str, ...]]]:
    """The queues in groups that one claim can serve: a lease in µs, and those that have it."""
    groups: dict[int, list[str]] = collections.defaultdict(list)
    for queue in queues:
        groups[settings.get(queue, _DEFAULT).lease_us].append(queue)
    return [(lease_us, tuple(names)) for lease_us, names in groups.items()]
