"""Runs as rows: whose they are, what is known of them, and their deletion. Layer: stores (sqlite).

What is deleted goes in pages, each a short transaction. A run's row and the end of its journal go first, so nobody
finds it any more and nothing that is late lands; the rest of its journal goes after that. What always holds: a journal
whose run is gone is noted in `deleted` until nothing is left of it. When a process dies in between, the next deletion
by anybody goes on with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from outlast.core.states import RunStatus
from outlast.stores.sharing import part_lanes
from outlast.stores.sqlite.effects import delimit
from outlast.stores.sqlite.pools import list_pooled
from outlast.stores.sqlite.statements import load_statements
from outlast.stores.sqlite.workers import require_lease
from outlast.stores.store import ClaimedRun, Entry, Look, OwnedRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.stores.sqlite.transaction import Transaction
    from outlast.stores.store import Claiming, RunSharing

__all__ = ["adopt", "claim", "delete_run", "list_owned", "look", "prune", "read_journal", "redue", "refit", "sweep"]

_journal = load_statements("journal")
_pools = load_statements("pools")
_sql = load_statements("runs")
_deletion = load_statements("deletion")

_ENTRIES = 1000
"""Deleted in one transaction; about 20 ms."""


def claim(tx: Transaction, claiming: Claiming, sharing: RunSharing | None) -> list[ClaimedRun]:
    """The store's `claim`."""
    require_lease(tx, claiming.worker)
    due = _list_due(tx, claiming) if sharing is None else list_pooled(tx, claiming, sharing)
    if not due:
        return []
    runs = msgspec.json.encode([*due]).decode()
    rows = tx.fetch(_sql["own"], {"worker": claiming.worker, "now": tx.now, "runs": runs})
    claimed = {no: _to_claimed(values, was=due[no]) for no, *values in rows}
    return [claimed[no] for no in due]


def _list_due(tx: Transaction, claiming: Claiming) -> dict[int, str]:
    """Numbers and states of runs it may claim, in their order."""
    wanted = {
        "queues": msgspec.json.encode(claiming.queues).decode(),
        "deploy": delimit(claiming.deploy),
        "now": tx.now,
        "limit": claiming.limit,
        "oldest_first": claiming.oldest_first,
    }
    return dict(tx.fetch(_sql["list_due"], wanted))


def adopt(tx: Transaction, worker_id: str, uid: str, epoch: int) -> ClaimedRun | None:
    """The store's `adopt`."""
    require_lease(tx, worker_id)
    row = tx.find(_sql["adopt"], (uid, worker_id, epoch))
    return None if row is None else _to_claimed(row)


def list_owned(tx: Transaction, worker_id: str) -> list[OwnedRun]:
    """The store's `list_owned`."""
    return [OwnedRun(uid, epoch) for uid, epoch in tx.fetch(_sql["list_owned"], (worker_id,))]


def look(tx: Transaction, claiming: Claiming) -> Look:
    """The store's `look`."""
    wanted = {
        "queues": msgspec.json.encode(claiming.queues).decode(),
        "deploy": delimit(claiming.deploy),
        "worker": claiming.worker,
        "now": tx.now,
    }
    if claiming.lanes:
        wanted["lanes"] = msgspec.json.encode(claiming.lanes).decode()
        (row,) = tx.fetch(_pools["look"], wanted)
    else:
        (row,) = tx.fetch(_sql["look"], wanted)
    due_at, mail, tasks, stopped, dead, lapsed, *lanes = row
    due_lanes, lanes_at = part_lanes(msgspec.json.decode(lanes[0]) if lanes else (), tx.now)
    return Look(
        now=tx.now,
        due=due_at is not None and due_at <= tx.now,
        next_at=min((at for at in (due_at, lanes_at) if at is not None), default=None),
        lanes=due_lanes,
        mail=tuple(mail.split("\n")) if mail else (),
        tasks=bool(tasks),
        stopped=bool(stopped),
        dead=bool(dead),
        lapsed=bool(lapsed),
    )


def refit(tx: Transaction, deploy: str, limit: int) -> int:
    """A page of the store's `refit`: how many runs it may claim again."""
    return tx.run(_sql["refit"], {"deploy": delimit(deploy), "limit": limit})


def redue(tx: Transaction, waiting_on: Sequence[str], deploy: str, limit: int) -> int:
    """A page of the store's `redue`: how many runs it made due."""
    codes = msgspec.json.encode(waiting_on).decode()
    values = {"waiting_on": codes, "deploy": delimit(deploy), "now": tx.now, "limit": limit}
    return tx.run(_sql["redue"], values)


def read_journal(tx: Transaction, uid: str, after: int, limit: int) -> list[Entry]:
    """The store's `read_journal`."""
    return [Entry(*row) for row in tx.fetch(_journal["read_journal"], (uid, after, limit))]


def delete_run(tx: Transaction, uid: str) -> bool:
    """The store's `delete_run`, but for the rest of the journal."""
    found = tx.find(_deletion["find"], (uid,))
    if found is None:
        return True
    if not found[0]:
        return False
    _delete(tx, [uid])
    return True


def prune(tx: Transaction, statuses: Sequence[RunStatus], finished_before: int, limit: int) -> int:
    """A page of the store's `prune`, but for the rest of the journals."""
    names = msgspec.json.encode(statuses).decode()
    rows = tx.fetch(_deletion["list_old"], {"statuses": names, "before": finished_before, "limit": limit})
    _delete(tx, [uid for (uid,) in rows])
    return len(rows)


def sweep(tx: Transaction) -> bool:
    """Delete a page of what is left of deleted runs. False: there was nothing."""
    left = _ENTRIES
    gone = []
    uids = [uid for (uid,) in tx.fetch(_deletion["list_deleted"], (_ENTRIES // 10,))]
    for uid in uids:
        asked = left
        left -= tx.run(_journal["delete_journal_page"], (uid, asked))
        if left == 0:
            break
        gone.append((uid,))
    if gone:
        tx.run_rows(_deletion["forget_deleted"], gone)
    return bool(uids)


def _to_claimed(row: Sequence[Any], was: str = "") -> ClaimedRun:
    uid, epoch, recoveries, status, workflow, queue, pool = row
    return ClaimedRun(uid, epoch, recoveries, RunStatus(status), workflow, queue, pool, was == RunStatus.QUEUED)


def _delete(tx: Transaction, uids: list[str]) -> None:
    if not uids:
        return
    tx.run_rows(_deletion["delete_runs"], [(uid,) for uid in uids])
    for uid in uids:
        tx.run(_journal["delete_journal_page"], (uid, max(1, _ENTRIES // len(uids))))
