"""Queued steps: one row is one attempt. Layer: stores (postgres).

What always holds: an attempt's task goes in the same transaction that sends its outcome, so each attempt has one
outcome, and until then its task; and where both are locked, the run's row is before its task (PROTOCOL F25).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.errors import Fenced
from outlast.stores.delivery import Recipient
from outlast.stores.postgres.mail import deliver
from outlast.stores.postgres.statements import columns, load_statements
from outlast.stores.store import LOST_MESSAGE, TASK_MESSAGE, ClaimedTask, NewMessage, QueueRow, Send, TaskRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.stores.postgres.link import Link, Record
    from outlast.stores.store import Claiming, Sharing, TaskOutcome

__all__ = [
    "claim_tasks",
    "complete_tasks",
    "find_lost_attempts",
    "lapse_tasks",
    "list_queues",
    "list_tasks",
    "release_tasks",
    "renew_tasks",
]

_sql = load_statements("tasks")
_claims = load_statements("claims")
_queues = load_statements("queues")
_runs = load_statements("runs")

_ANY_NUMBER = 2**62


async def claim_tasks(
    link: Link, claiming: Claiming, functions: Sequence[str], lease_us: int, sharing: Sharing | None
) -> list[ClaimedTask]:
    """The store's `claim_tasks`."""
    wanted = {
        "worker": claiming.worker,
        "functions": [*functions],
        "limit": claiming.limit,
        "oldest_first": claiming.oldest_first,
        "lease": lease_us,
    }
    if sharing is None:
        rows = await link.fetch(_claims["claim_tasks"], queues=claiming.queues, **wanted)
    else:
        rows = await _claim_shared(link, claiming.queues[0], sharing, wanted)
    if not rows:
        raise Fenced(claiming.worker)
    return [ClaimedTask(*row) for row in rows if row[0] is not None]


async def _claim_shared(link: Link, queue: str, sharing: Sharing, wanted: dict[str, Any]) -> list[Record]:
    if sharing.most is None:
        return await link.fetch(_claims["claim_shared"], queue=queue, most=_ANY_NUMBER, **wanted)
    async with link.transaction():
        # A statement of its own: what is counted next must see what whoever held the lock has claimed.
        await link.run(_claims["lock_queue"], name=f"outlast queue {link.settings.schema} {queue}")
        return await link.fetch(_claims["claim_shared"], queue=queue, most=sharing.most, **wanted)


async def renew_tasks(
    link: Link, worker_id: str, held: Sequence[tuple[str, str, int, bytes]], lease_us: int
) -> list[tuple[str, str, int]]:
    """The store's `renew_tasks`."""
    if not held:
        return []
    rows = await link.fetch(
        _sql["renew"], worker=worker_id, lease=lease_us, **columns("uid key attempt progress", held)
    )
    kept = {(uid, key, attempt) for uid, key, attempt, stop in rows if not stop}
    return [(uid, key, attempt) for uid, key, attempt, _ in held if (uid, key, attempt) not in kept]


async def release_tasks(
    link: Link, worker_id: str, held: Sequence[tuple[str, str, int]], delay_us: int
) -> list[tuple[str, str, int]]:
    """The store's `release_tasks`."""
    if not held:
        return []
    rows = await link.fetch(_sql["release"], worker=worker_id, delay=delay_us, **columns("uid key attempt", held))
    released = {tuple(row) for row in rows}
    return [attempt for attempt in held if attempt not in released]


async def complete_tasks(link: Link, worker_id: str, outcomes: Sequence[TaskOutcome]) -> list[bool]:
    """The store's `complete_tasks`: one statement."""
    if not outcomes:
        return []
    attempts = [(outcome.run, outcome.key, outcome.attempt, outcome.payload) for outcome in outcomes]
    rows = await link.fetch(
        _sql["complete"], worker=worker_id, kind=TASK_MESSAGE, **columns("uid key attempt payload", attempts)
    )
    done = {tuple(row) for row in rows}
    return [(outcome.run, outcome.key, outcome.attempt) in done for outcome in outcomes]


async def lapse_tasks(link: Link, limit: int) -> int:
    """The store's `lapse_tasks`."""
    found = await link.fetch(_sql["list_lapsed"], limit=limit)
    if not found:
        return 0
    async with link.transaction():
        runs = await link.fetch(_runs["lock"], uids=sorted({uid for uid, _, _ in found}))
        recipients = {uid: Recipient(live, status, mail, name) for uid, live, status, mail, name, *_ in runs}
        lapsed = await link.fetch(_sql["delete_lapsed"], **columns("uid key attempt", [tuple(row) for row in found]))
        lost = [Send(uid, NewMessage(f"{key}#{attempt}", LOST_MESSAGE)) for uid, key, attempt in lapsed]
        if lost:
            await deliver(link, recipients, lost)
        return len(lapsed)


async def find_lost_attempts(link: Link, uid: str, attempts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The store's `lost_attempts`."""
    if not attempts:
        return []
    rows = await link.fetch(_sql["fetch_attempts"], uid=uid, **columns("key attempt", attempts))
    known = {(key, attempt) for key, attempt in rows}
    return [(key, attempt) for key, attempt in attempts if (key, attempt) not in known]


async def list_tasks(link: Link, uid: str) -> list[TaskRow]:
    """The store's `list_tasks`."""
    return [TaskRow(*row) for row in await link.fetch(_sql["list_tasks"], uid=uid)]


async def list_queues(link: Link) -> list[QueueRow]:
    """The store's `list_queues`."""
    rows = await link.fetch(_queues["count_runs"]) + await link.fetch(_queues["count_tasks"])
    found = [QueueRow(queue, function, waiting, at, int(held)) for queue, function, waiting, at, held in rows]
    return sorted(found, key=lambda row: (row.queue, row.function or ""))
