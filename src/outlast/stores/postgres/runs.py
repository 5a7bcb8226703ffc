"""Runs as workers see them: what is due, whose they are, and what is written of them. Layer: stores (postgres).

What always holds: a claim is one statement, and fenced in it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from outlast.core.states import RunStatus
from outlast.errors import Fenced
from outlast.stores.postgres.statements import load_statements
from outlast.stores.store import ClaimedRun, Entry, Look, OwnedRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.stores.postgres.link import Link
    from outlast.stores.store import Claiming

__all__ = ["adopt", "claim", "list_owned", "look", "read_journal", "read_journals", "redue", "refit"]

_claims = load_statements("claims")
_journal = load_statements("journal")
_sql = load_statements("runs")


async def claim(link: Link, claiming: Claiming) -> list[ClaimedRun]:
    """The store's `claim`."""
    rows = await link.fetch(
        _claims["claim_runs"],
        worker=claiming.worker,
        queues=claiming.queues,
        deploy=claiming.deploy,
        limit=claiming.limit,
        oldest_first=claiming.oldest_first,
    )
    if not rows:
        raise Fenced(claiming.worker)
    return [_to_claimed(*row) for row in rows if row[0] is not None]


async def adopt(link: Link, worker_id: str, uid: str, epoch: int) -> ClaimedRun | None:
    """The store's `adopt`."""
    row = await link.find(_sql["adopt"], worker=worker_id, uid=uid, epoch=epoch)
    if row is None:
        raise Fenced(worker_id)
    return None if row[0] is None else _to_claimed(*row)


async def list_owned(link: Link, worker_id: str) -> list[OwnedRun]:
    """The store's `list_owned`."""
    return [OwnedRun(uid, epoch) for uid, epoch in await link.fetch(_sql["list_owned"], worker=worker_id)]


async def look(link: Link, claiming: Claiming) -> Look:
    """The store's `look`."""
    [(now, next_at, mail, tasks, stopped, dead, lapsed)] = await link.fetch(
        _claims["look"], worker=claiming.worker, queues=claiming.queues, deploy=claiming.deploy
    )
    return Look(
        now=now,
        due=next_at is not None and next_at <= now,
        next_at=next_at,
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


def _to_claimed(uid: str, epoch: int, recoveries: int, status: str) -> ClaimedRun:
    return ClaimedRun(uid, epoch, recoveries, RunStatus(status))
