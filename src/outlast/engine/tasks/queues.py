"""What is settled about a queue, for its queued steps and its runs. Layer: engine.

What always holds: the settings are those of the code at hand. Workers of two deploys that disagree each keep to their
own, so a limit is the larger of the two while both are there.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from outlast.authoring.sharing import find_group
from outlast.stores.store import Sharing

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from outlast.core.events import RunStarted
    from outlast.stores.store import WorkerRow

__all__ = ["DEFAULT", "QueueSettings", "TaskClaim", "find_unserved", "group_of", "plan_claims"]


class QueueSettings(msgspec.Struct, frozen=True):
    """What `app.queue` was told, checked."""

    lease_us: int = 60_000_000
    """How long a queued step may go without a renewal before it is taken for lost (SPEC L6)."""
    limit: int | None = None
    """Steps of it that may execute at once, on all workers together; and runs of it that they may have in hand."""
    fair_by: str = ""
    """`user`, `workflow` or `attributes.NAME`: each of these gets as many places as the others, while both wait."""

    @property
    def is_shared(self) -> bool:
        """It is claimed from alone, as it is to be shared out."""
        return self.limit is not None or bool(self.fair_by)


DEFAULT = QueueSettings()


class TaskClaim(NamedTuple):
    """One call of `Store.claim_tasks`: for which queues, under what lease, and how they are shared out."""

    queues: tuple[str, ...]
    lease_us: int
    sharing: Sharing | None = None


def plan_claims(queues: Iterable[str], settings: Mapping[str, QueueSettings]) -> list[TaskClaim]:
    """The calls that ask all these queues: plain ones together where their lease is the same, shared ones alone."""
    together: dict[int, list[str]] = collections.defaultdict(list)
    claims = []
    for queue in queues:
        known = settings.get(queue, DEFAULT)
        if known.is_shared:
            claims.append(TaskClaim((queue,), known.lease_us, Sharing(known.limit)))
        else:
            together[known.lease_us].append(queue)
    return claims + [TaskClaim(tuple(names), lease_us) for lease_us, names in together.items()]


def group_of(settings: QueueSettings, started: RunStarted) -> str:
    """Whom a step of this run is for, where the queue is shared out among groups."""
    user, workflow = started.user, started.workflow
    return find_group(settings.fair_by, user=user, workflow=workflow, attributes=started.attributes)


def find_unserved(steps: Iterable[tuple[str, str]], workers: Collection[WorkerRow]) -> list[tuple[str, str]]:
    """Those of these queues and functions of queued steps that no worker of the queue knows."""
    return [
        (queue, function)
        for queue, function in steps
        if not any(queue in worker.queues and function in worker.functions for worker in workers)
    ]
