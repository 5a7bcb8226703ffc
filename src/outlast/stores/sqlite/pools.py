"""Runs that are shared out: which are taken next, and how many may be. Layer: stores (sqlite).

What always holds: places are counted and given in one transaction, and there is one writer at a time; so no two claims
exceed a limit together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.stores.sharing import SERVED_FOR_US
from outlast.stores.sqlite.statements import load_statements

if TYPE_CHECKING:
    from collections.abc import Iterable

    from outlast.stores.sqlite.transaction import Transaction
    from outlast.stores.store import ClaimedRun, Claiming, RunSharing

__all__ = ["leave_pools", "list_pooled", "list_pools", "pool_run"]

_sql = load_statements("pools")


def list_pooled(tx: Transaction, claiming: Claiming, sharing: RunSharing) -> dict[int, str]:
    """Numbers and states of runs of one queue and pool that are to be claimed now, in their order."""
    (queue,) = claiming.queues
    wanted = {
        "queue": queue,
        "pool": sharing.pool,
        "most": sharing.most,
        "queue_most": sharing.queue_most,
        "deploy": f"\n{claiming.deploy}\n",
        "now": tx.now,
        "limit": claiming.limit,
        "oldest_first": claiming.oldest_first,
    }
    due = tx.fetch(_sql["list_pooled"], wanted)
    served = {(sharing.pool, share, tx.now) for _, _, share in due if share}
    if served:
        tx.run_rows(_sql["serve"], sorted(served))
        tx.run(_sql["forget"], (sharing.pool, tx.now - SERVED_FOR_US))
    return {no: status for no, status, _ in due}


def pool_run(tx: Transaction, worker_id: str, claimed: ClaimedRun, pool: str, group: str) -> bool:
    """The store's `pool_run`."""
    values = {
        "worker": worker_id,
        "uid": claimed.uid,
        "epoch": claimed.epoch,
        "was_queued": claimed.was_queued,
        "pool": pool,
        "share": group,
        "now": tx.now,
    }
    return tx.run(_sql["pool_run"], values) == 1


def leave_pools(tx: Transaction, uids: Iterable[str]) -> None:
    """What came for these runs is not to wait for a place."""
    tx.run_rows(_sql["leave_pool"], [(uid,) for uid in uids])


def list_pools(tx: Transaction) -> list[tuple[str, str]]:
    """The store's `list_pools`."""
    return [(queue, pool) for queue, pool in tx.fetch(_sql["list_pools"])]
