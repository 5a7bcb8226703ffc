"""Workers, their leases, and what becomes of what the dead ones held. Layer: stores (sqlite).

What always holds: a worker is marked dead before any of its runs is touched, so what it still sends is refused; and its
row goes only when no run of it is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from outlast.errors import Fenced
from outlast.stores.sqlite.migrate import list_migrations
from outlast.stores.sqlite.statements import load_statements
from outlast.stores.store import Held, HeldTask, Reaped, Renewed, WorkerRow, recovery_delay_us

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.stores.sqlite.transaction import Row, Transaction

__all__ = [
    "ask_drain",
    "count_held",
    "hand_back",
    "list_held_tasks",
    "list_workers",
    "reap",
    "register",
    "renew",
    "require_lease",
]

_sql = load_statements("workers")

_COLUMNS = (
    *("id", "host", "pid", "deploy", "python", "started_at", "expires_at", "dead_at"),
    *("renewed_at", "drain_asked_at", "release"),
)
_LAST_DELAY = 8  # from here on `recovery_delay_us` does not grow
_DELAYS = msgspec.json.encode([recovery_delay_us(n) for n in range(_LAST_DELAY)]).decode()


def require_lease(tx: Transaction, worker: str) -> None:
    """The first statement of every transaction of a worker (PROTOCOL F1). Raises `Fenced`."""
    if not tx.fetch(_sql["is_alive"], (worker,)):
        raise Fenced(worker)


def register(tx: Transaction, worker: WorkerRow, lease_us: int) -> int:
    """The store's `register`."""
    row = {
        "id": worker.id,
        "host": worker.host,
        "pid": worker.pid,
        "queues": _to_json(worker.queues),
        "functions": _to_json(worker.functions),
        "deploy": worker.deploy,
        "python": worker.python,
        "versions": _to_json(worker.versions),
        "release": worker.release,
        "schema": list_migrations()[-1].number,
        "started_at": worker.started_at or tx.now,
        "expires_at": tx.now + lease_us,
        "now": tx.now,
    }
    if tx.run(_sql["register"], row) == 0:
        raise Fenced(worker.id)
    return tx.now


def renew(tx: Transaction, worker_id: str, lease_us: int) -> Renewed | None:
    """The store's `renew`."""
    row = tx.find(_sql["renew"], {"id": worker_id, "now": tx.now, "until": tx.now + lease_us})
    return None if row is None else Renewed(tx.now, row[0])


def ask_drain(tx: Transaction, worker_id: str) -> int | None:
    """The store's `ask_drain`."""
    row = tx.find(_sql["ask_drain"], {"id": worker_id, "now": tx.now})
    return None if row is None else int(row[0])


def hand_back(tx: Transaction, worker_id: str, limit: int) -> int:
    """A page of the store's `retire`: how many runs it released. Fewer than `limit`: the worker is gone."""
    if not tx.fetch(_sql["exists"], (worker_id,)):
        return 0
    tx.run(_sql["mark_dead"], (tx.now, worker_id))
    released = tx.run(_sql["hand_back_runs"], {"worker": worker_id, "now": tx.now, "limit": limit})
    if released < limit:
        tx.run(_sql["delete"], (worker_id,))
    return released


def reap(tx: Transaction, limit: int, *, orphans: bool) -> Reaped | None:
    """The store's `reap`."""
    gone = tx.find(_sql["find_gone"], (tx.now,))
    if gone is None:
        owner = tx.find(_sql["find_orphan_owner"]) if orphans else None
        return None if owner is None else _release(tx, owner[0], limit)
    worker_id, dead_at = gone
    if dead_at is None:
        tx.run(_sql["mark_dead"], (tx.now, worker_id))
    reaped = _release(tx, worker_id, limit)
    if reaped.done:
        tx.run(_sql["delete"], (worker_id,))
    return reaped


def list_workers(tx: Transaction) -> list[WorkerRow]:
    """The store's `list_workers`."""
    return [_to_worker_row(row) for row in tx.fetch(_sql["list"])]


def count_held(tx: Transaction, worker_ids: Sequence[str], most: int) -> list[Held]:
    """The store's `count_held`."""
    counts = [tx.fetch(_sql["count_held"], {"worker": worker_id, "most": most})[0] for worker_id in worker_ids]
    return [Held(worker_id, *count) for worker_id, count in zip(worker_ids, counts, strict=True)]


def list_held_tasks(tx: Transaction, worker_id: str, limit: int) -> list[HeldTask]:
    """The store's `list_held_tasks`."""
    return [HeldTask(*row) for row in tx.fetch(_sql["list_held_tasks"], (worker_id, limit))]


def _release(tx: Transaction, worker_id: str, limit: int) -> Reaped:
    """Take runs from a dead worker."""
    longest = recovery_delay_us(_LAST_DELAY)
    values = {"worker": worker_id, "now": tx.now, "limit": limit, "delays": _DELAYS, "longest": longest}
    released = tx.run(_sql["reap_runs"], values)
    ((more,),) = tx.fetch(_sql["owns_any"], (worker_id,))
    return Reaped(worker_id, released, done=not more)


def _to_worker_row(row: Row) -> WorkerRow:
    *head, queues, functions, versions = row
    lists: dict[str, Any] = {
        "queues": _from_json(queues),
        "functions": _from_json(functions),
        "versions": _from_json(versions),
    }
    return WorkerRow(**dict(zip(_COLUMNS, head, strict=True)), **lists)


def _to_json(names: tuple[str, ...]) -> str:
    return msgspec.json.encode(names).decode()


def _from_json(names: str) -> tuple[str, ...]:
    return msgspec.json.decode(names, type=tuple[str, ...])
