"""Runs that go. Layer: stores (postgres).

What is deleted goes in pages, each a short transaction. A run's row and the end of its journal go first, so nobody
finds it any more and nothing that is late lands; the rest of its journal goes after that. What always holds: a journal
whose run is gone is noted in `deleted` until nothing is left of it. When a process dies in between, the next deletion
by anybody goes on with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.stores.postgres.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.core.states import RunStatus
    from outlast.stores.postgres.link import Link

__all__ = ["delete_run", "prune", "sweep"]

_sql = load_statements("deletion")
_journal = load_statements("journal")

_ENTRIES = 5000
"""Deleted in one transaction."""


async def delete_run(link: Link, uid: str) -> bool:
    """The store's `delete_run`, but for the rest of the journal."""
    async with link.transaction():
        found = await link.find(_sql["find"], uid=uid)
        if found is None:
            return True
        if not found[0]:
            return False
        await _delete(link, [uid])
        return True


async def prune(link: Link, statuses: Sequence[RunStatus], finished_before: int, limit: int) -> int:
    """A page of the store's `prune`, but for the rest of the journals."""
    async with link.transaction():
        names = [status.value for status in statuses]
        rows = await link.fetch(_sql["list_old"], statuses=names, before=finished_before, limit=limit)
        await _delete(link, [uid for (uid,) in rows])
        return len(rows)


async def sweep(link: Link) -> bool:
    """Delete a page of what is left of deleted runs. False: there was nothing."""
    async with link.transaction():
        left = _ENTRIES
        gone = []
        uids = [uid for (uid,) in await link.fetch(_sql["list_deleted"], limit=_ENTRIES // 10)]
        for uid in uids:
            asked = left
            left -= await link.run(_journal["delete_journal_page"], uid=uid, limit=asked)
            if left <= 0:
                break
            gone.append(uid)
        if gone:
            await link.run(_sql["forget_deleted"], uids=gone)
        return bool(uids)


async def _delete(link: Link, uids: list[str]) -> None:
    if not uids:
        return
    await link.run(_sql["delete_runs"], uids=uids)
    for uid in uids:
        await link.run(_journal["delete_journal_page"], uid=uid, limit=max(1, _ENTRIES // len(uids)))
