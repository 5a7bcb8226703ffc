"""Queued steps: one row is one attempt. Layer: stores (sqlite).

What always holds: an attempt's task goes in the same transaction that sends its outcome, so each attempt has one
outcome, and until then its task.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.stores.sqlite.mail import deliver
from outlast.stores.sqlite.statements import load_statements
from outlast.stores.sqlite.workers import require_lease
from outlast.stores.store import LOST_MESSAGE, TASK_MESSAGE, ClaimedTask, NewMessage, QueueRow, Send, TaskRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.stores.sqlite.transaction import Transaction
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


def claim_tasks(
    tx: Transaction, claiming: Claiming, functions: Sequence[str], lease_us: int, sharing: Sharing | None
) -> list[ClaimedTask]:
    """The store's `claim_tasks`."""
    require_lease(tx, claiming.worker)
    wanted = {
        "functions": msgspec.json.encode(functions).decode(),
        "now": tx.now,
        "limit": claiming.limit,
        "oldest_first": claiming.oldest_first,
    }
    if sharing is None:
        rows = tx.fetch(_sql["list_due"], wanted | {"queues": msgspec.json.encode(claiming.queues).decode()})
    else:
        (queue,) = claiming.queues
        rows = tx.fetch(_sql["list_shared"], wanted | {"queue": queue, "most": sharing.most})
    due = [rowid for (rowid,) in rows]
    if not due:
        return []
    tasks = msgspec.json.encode(due).decode()
    owning = {"worker": claiming.worker, "now": tx.now, "until": tx.now + lease_us, "tasks": tasks}
    rows = tx.fetch(_sql["claim"], owning)
    claimed = {rowid: ClaimedTask(*values) for rowid, *values in rows}
    return [claimed[rowid] for rowid in due]


def renew_tasks(
    tx: Transaction, worker_id: str, held: Sequence[tuple[str, str, int, bytes]], lease_us: int
) -> list[tuple[str, str, int]]:
    """The store's `renew_tasks`."""
    rows = tx.fetch_rows(_sql["renew"], held, (worker_id, tx.now + lease_us))
    kept = {(uid, key, attempt) for uid, key, attempt, stop in rows if not stop}
    return [(uid, key, attempt) for uid, key, attempt, _ in held if (uid, key, attempt) not in kept]


def release_tasks(
    tx: Transaction, worker_id: str, held: Sequence[tuple[str, str, int]], delay_us: int
) -> list[tuple[str, str, int]]:
    """The store's `release_tasks`."""
    released = set(tx.fetch_rows(_sql["release"], held, (worker_id, tx.now + delay_us)))
    return [attempt for attempt in held if attempt not in released]


def complete_tasks(tx: Transaction, worker_id: str, outcomes: Sequence[TaskOutcome]) -> list[bool]:
    """The store's `complete_tasks`."""
    attempts = [(outcome.run, outcome.key, outcome.attempt) for outcome in outcomes]
    deleted = set(tx.fetch_rows(_sql["complete"], attempts, (worker_id,)))
    counts = [attempt in deleted for attempt in attempts]
    sends = [
        _to_send(outcome.run, outcome.key, outcome.attempt, TASK_MESSAGE, outcome.payload)
        for outcome, counted in zip(outcomes, counts, strict=True)
        if counted
    ]
    if sends:
        deliver(tx, sends)
    return counts


def lapse_tasks(tx: Transaction, limit: int) -> int:
    """The store's `lapse_tasks`."""
    lapsed = tx.fetch(_sql["list_lapsed"], (tx.now, limit))
    if lapsed:
        tx.run_rows(_sql["delete_tasks"], lapsed)
        deliver(tx, [_to_send(uid, key, attempt, LOST_MESSAGE, b"null") for uid, key, attempt in lapsed])
    return len(lapsed)


def find_lost_attempts(tx: Transaction, uid: str, attempts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """The store's `lost_attempts`."""
    rows = tx.fetch_rows(_sql["fetch_attempts"], [(uid, key, attempt) for key, attempt in attempts])
    known = {(key, attempt) for key, attempt in rows}
    return [(key, attempt) for key, attempt in attempts if (key, attempt) not in known]


def list_tasks(tx: Transaction, uid: str) -> list[TaskRow]:
    """The store's `list_tasks`."""
    return [_to_task_row(*row) for row in tx.fetch(_sql["list_tasks"], (uid,))]


def list_queues(tx: Transaction) -> list[QueueRow]:
    """The store's `list_queues`."""
    rows = tx.fetch(_sql["count_runs"], {"now": tx.now}) + tx.fetch(_sql["count_tasks"], {"now": tx.now})
    return sorted(itertools.starmap(QueueRow, rows), key=lambda row: (row.queue, row.function or ""))


def _to_task_row(*row: Any) -> TaskRow:
    *_, stop, _ = row
    return msgspec.structs.replace(TaskRow(*row), stop=bool(stop))


def _to_send(uid: str, key: str, attempt: int, kind: str, payload: bytes) -> Send:
    return Send(uid, NewMessage(f"{key}#{attempt}", kind, payload))
