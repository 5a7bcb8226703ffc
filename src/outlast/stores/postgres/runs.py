"""Runs as workers see them: what is due, whose they are, and what is written of them. Layer: stores (postgres).

What always holds: a claim is one statement, and fenced in it. Who counts places that have a limit, and gives some, has
the lock of each limit until what it gave is committed, and counts in a statement behind: it sees what others gave.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from outlast.core.states import RunStatus
from outlast.errors import Fenced
from outlast.stores.postgres.statements import columns, load_statements
from outlast.stores.sharing import SERVED_FOR_US, part_lanes
from outlast.stores.store import ClaimedRun, Entry, Look, OwnedRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.stores.postgres.link import Link, Record
    from outlast.stores.store import Claiming, RunSharing

__all__ = [
    "adopt",
    "claim",
    "leave_pools",
    "list_owned",
    "list_pools",
    "look",
    "pool_run",
    "read_journal",
    "read_journals",
    "redue",
    "refit",
]

_claims = load_statements("claims")
_journal = load_statements("journal")
_pools = load_statements("pools")
_sql = load_statements("runs")

_ANY_NUMBER = 2**62


async def claim(link: Link, claiming: Claiming, sharing: RunSharing | None = None) -> list[ClaimedRun]:
    """The store's `claim`."""
    rows = await (_claim(link, claiming) if sharing is None else _claim_pooled(link, claiming, sharing))
    if not rows:
        raise Fenced(claiming.worker)
    return [_to_claimed(row) for row in rows if row[0] is not None]


async def _claim(link: Link, claiming: Claiming) -> Sequence[Record]:
    return await link.fetch(
        _claims["claim_runs"],
        worker=claiming.worker,
        queues=claiming.queues,
        deploy=claiming.deploy,
        limit=claiming.limit,
        oldest_first=claiming.oldest_first,
    )


async def adopt(link: Link, worker_id: str, uid: str, epoch: int) -> ClaimedRun | None:
    """The store's `adopt`."""
    row = await link.find(_sql["adopt"], worker=worker_id, uid=uid, epoch=epoch)
    if row is None:
        raise Fenced(worker_id)
    return None if row[0] is None else _to_claimed(row)


async def list_owned(link: Link, worker_id: str) -> list[OwnedRun]:
    """The store's `list_owned`."""
    return [OwnedRun(uid, epoch) for uid, epoch in await link.fetch(_sql["list_owned"], worker=worker_id)]


async def look(link: Link, claiming: Claiming) -> Look:
    """The store's `look`."""
    values = {"worker": claiming.worker, "queues": claiming.queues, "deploy": claiming.deploy}
    if claiming.lanes:
        [row] = await link.fetch(_pools["look"], **values, **columns("queue pool", claiming.lanes))
    else:
        [row] = await link.fetch(_claims["look"], **values)
    now, due_at, mail, tasks, stopped, dead, lapsed, *lanes = row
    due_lanes, lanes_at = part_lanes(zip(*lanes, strict=True), now)
    return Look(
        now=now,
        due=due_at is not None and due_at <= now,
        next_at=min((at for at in (due_at, lanes_at) if at is not None), default=None),
        lanes=due_lanes,
        mail=tuple(mail),
        tasks=tasks,
        stopped=stopped,
        dead=dead,
        lapsed=lapsed,
    )


async def refit(link: Link, deploy: str, limit: int) -> int:
    """A page of the store's `refit`: how many runs it may claim again."""
    return await link.run(_sql["refit"], deploy=deploy, limit=limit)


async def redue(link: Link, waiting_on: Sequence[str], deploy: str, limit: int) -> int:
    """A page of the store's `redue`: how many runs it made due."""
    return await link.run(_sql["redue"], waiting_on=[*waiting_on], deploy=deploy, limit=limit)


async def read_journal(link: Link, uid: str, after: int, limit: int) -> list[Entry]:
    """The store's `read_journal`."""
    return [Entry(*row) for row in await link.fetch(_journal["read_journal"], uid=uid, after=after, limit=limit)]


async def read_journals(link: Link, uids: Sequence[str], limit: int) -> list[list[Entry]]:
    """The first pages of these."""
    pages: dict[str, list[Entry]] = {uid: [] for uid in uids}
    for uid, *entry in await link.fetch(_journal["read_journals"], uid=[*pages], limit=limit):
        pages[uid].append(Entry(*entry))
    for page in pages.values():
        page.sort(key=attrgetter("seq"))
    return [pages[uid] for uid in uids]


def _to_claimed(row: Record) -> ClaimedRun:
    uid, epoch, recoveries, status, workflow, queue, pool, *was = row
    was_queued = bool(was) and was[0] == RunStatus.QUEUED
    return ClaimedRun(uid, epoch, recoveries, RunStatus(status), workflow, queue, pool, was_queued)


# --- runs that are shared out -----------------------------------------------------------------------------------------


async def _claim_pooled(link: Link, claiming: Claiming, sharing: RunSharing) -> Sequence[Record]:
    """Rows of runs that the worker was given; none: it lost its lease."""
    (queue,) = claiming.queues
    names = [f"pool {sharing.pool}"] if sharing.queue_most is None else [f"pool {sharing.pool}", f"queue {queue}"]
    async with link.transaction():
        for name in names:
            await link.run(_pools["lock_shared"], name=f"outlast {link.settings.schema} runs of {name}")
        rows = await link.fetch(
            _pools["claim_pooled"],
            worker=claiming.worker,
            queue=queue,
            pool=sharing.pool,
            most=_ANY_NUMBER if sharing.most is None else sharing.most,
            queue_most=_ANY_NUMBER if sharing.queue_most is None else sharing.queue_most,
            deploy=claiming.deploy,
            limit=claiming.limit,
            oldest_first=claiming.oldest_first,
        )
        served = {row[-1] for row in rows if row[0] is not None and row[-1]}
        if served:
            await link.run(_pools["serve"], pool=sharing.pool, share=sorted(served))
            await link.run(_pools["forget"], pool=sharing.pool, kept=SERVED_FOR_US)
    return rows


async def pool_run(link: Link, worker_id: str, claimed: ClaimedRun, pool: str, group: str) -> bool:
    """The store's `pool_run`."""
    changed = await link.run(
        _pools["pool_run"],
        worker=worker_id,
        uid=claimed.uid,
        epoch=claimed.epoch,
        was_queued=claimed.was_queued,
        pool=pool,
        share=group,
    )
    return changed == 1


async def leave_pools(link: Link, uids: Sequence[str]) -> None:
    """What came for these runs is not to wait for a place. Their rows are locked already."""
    await link.run(_pools["leave_pool"], uids=uids)


async def list_pools(link: Link) -> list[tuple[str, str]]:
    """The store's `list_pools`."""
    return [(queue, pool) for queue, pool in await link.fetch(_pools["list_pools"])]
