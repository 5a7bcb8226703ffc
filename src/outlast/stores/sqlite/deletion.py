"""What is deleted goes in pages, each a short transaction. Layer: stores (sqlite).

A run's row and the end of its journal go first, so nobody finds it any more and nothing that is late lands. The rest of
its journal goes after that. What always holds: a journal whose run is gone is noted in `deleted` until nothing is left
of it; when a process dies in between, the next deletion by anybody goes on with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from outlast.stores.sqlite.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.core.states import RunStatus
    from outlast.stores.sqlite.transaction import Transaction

__all__ = ["delete_run", "prune", "sweep"]

_journal = load_statements("journal")
_sql = load_statements("deletion")

_ENTRIES = 1000
"""In one transaction; about 20 ms."""


def delete_run(tx: Transaction, uid: str) -> bool:
    """The store's `delete_run`, but for the rest of the journal."""
    found = tx.find(_sql["find"], (uid,))
    if found is None:
        return True
    if not found[0]:
        return False
    _delete(tx, [uid])
    return True


def prune(tx: Transaction, statuses: Sequence[RunStatus], finished_before: int, limit: int) -> int:
    """A page of the store's `prune`, but for the rest of the journals."""
    names = msgspec.json.encode(statuses).decode()
    rows = tx.fetch(_sql["list_old"], {"statuses": names, "before": finished_before, "limit": limit})
    _delete(tx, [uid for (uid,) in rows])
    return len(rows)


def sweep(tx: Transaction) -> bool:
    """Delete a page of what is left of deleted runs. False: there was nothing."""
    left = _ENTRIES
    gone = []
    uids = [uid for (uid,) in tx.fetch(_sql["list_deleted"], (_ENTRIES // 10,))]
    for uid in uids:
        asked = left
        left -= tx.run(_journal["delete_journal_page"], (uid, asked))
        if left == 0:
            break
        gone.append((uid,))
    if gone:
        tx.run_rows(_sql["forget_deleted"], gone)
    return bool(uids)


def _delete(tx: Transaction, uids: list[str]) -> None:
    if not uids:
        return
    tx.run_rows(_sql["delete_runs"], [(uid,) for uid in uids])
    for uid in uids:
        tx.run(_journal["delete_journal_page"], (uid, max(1, _ENTRIES // len(uids))))
