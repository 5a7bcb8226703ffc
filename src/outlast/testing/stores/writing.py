"""What the contract tests write: entries, parks, messages, with as few words as possible.

Entries made here bear marks that follow from their position, so `entry(uid, 3)` follows `entry(uid, 2)` without either
being at hand. An entry of another writer has a mark of its own: `entry(uid, 3, mark=7)`.
"""

from __future__ import annotations

from typing import Any

from outlast.core.states import RunStatus
from outlast.stores.store import (
    Claiming,
    Effects,
    Message,
    NewMessage,
    NewRun,
    NewTask,
    NewWait,
    Outcome,
    Progress,
    Release,
    RowChange,
    RunRow,
    Send,
    Store,
    TaskOutcome,
    Verdict,
    WorkerRow,
)

SECOND = 1_000_000  # µs
HOUR = 3600 * SECOND
COMPLETED = RunStatus.COMPLETED


def mark_of(seq: int) -> int:
    return 1_000_000 + seq


# --- entries ----------------------------------------------------------------------------------------------------------


def start(uid: str, *, id: str | None = None, beside: dict[str, Any] | None = None, **new: Any) -> Progress:
    """Entry 0 of a run; `new` for its row, `beside` for other effects."""
    run = NewRun(id=f"id of {uid}" if id is None else id, **{"workflow": "shop", "version": "v1", **new})
    return Progress(uid, 0, mark=mark_of(0), events=b"[0]", effects=Effects(start=run, **(beside or {})))


def entry(
    uid: str, seq: int, *, mark: int | None = None, prev: int | None = None, events: bytes = b"[1]", **effects: Any
) -> Progress:
    return Progress(
        uid,
        seq,
        mark=mark_of(seq) if mark is None else mark,
        prev=mark_of(seq - 1) if prev is None else prev,
        events=events,
        effects=Effects(**effects) if effects else None,
    )


def end(uid: str, seq: int = 1, status: RunStatus = COMPLETED, **effects: Any) -> Progress:
    """The last entry."""
    return entry(uid, seq, row=RowChange(status=status, ended=True), **effects)


def release(epoch: int = 1, seen: int = 0, wake_at: int | None = None, **row: Any) -> RowChange:
    return RowChange(release=Release(epoch, seen, wake_at), **row)


def park(uid: str, epoch: int = 1, seen: int = 0, wake_at: int | None = None, **row: Any) -> Progress:
    """A park without an entry."""
    return Progress(uid, -1, effects=Effects(row=release(epoch, seen, wake_at, **row)))


def message(id: str = "m1", kind: str = "signal", payload: bytes = b"1") -> NewMessage:
    return NewMessage(id, kind, payload)


def send_to(to: str, id: str = "m1", kind: str = "signal") -> Send:
    return Send(to, message(id, kind))


def task(key: str = "charge", attempt: int = 1, **changes: Any) -> NewTask:
    fields = {"queue": "default", "function": "charge", "arguments": b"[]", "due_at": 0, **changes}
    return NewTask(key, attempt, **fields)


def wait(key: str = "ok?", **changes: Any) -> NewWait:
    return NewWait(**{"key": key, "kind": "approval", "name": key, "opened_at": 1, **changes})


# --- calls ------------------------------------------------------------------------------------------------------------


async def register(store: Store, id: str, lease_us: int, **fields: Any) -> str:
    await store.register(WorkerRow(id, "host", 1, **fields), lease_us)
    return id


def claiming(worker: str, **changes: Any) -> Claiming:
    return Claiming(**{"worker": worker, "queues": ("default",), "deploy": "deploy-1", "limit": 100, **changes})


async def claim(store: Store, worker: str, **changes: Any) -> list[str]:
    """The uids of what the worker got, in the order it got them."""
    return [claimed.uid for claimed in await store.claim(claiming(worker, **changes))]


async def commit(store: Store, worker: str | None, *batch: Progress) -> list[Verdict]:
    return [outcome.verdict for outcome in await store.commit(worker, batch)]


async def land(store: Store, worker: str | None, *batch: Progress) -> None:
    """Commit what must land."""
    outcomes = await store.commit(worker, batch)
    assert outcomes == [Outcome(Verdict.LANDED)] * len(batch)


async def own(store: Store, worker: str, *uids: str) -> None:
    """Start runs that the worker owns from the first moment, under epoch 1."""
    await land(store, worker, *(start(uid, claimed=True) for uid in uids))


async def queue(store: Store, *uids: str, **new: Any) -> None:
    """Start runs that nobody owns, each in a commit of its own."""
    for uid in uids:
        await land(store, None, start(uid, **new))


async def complete(store: Store, worker: str, outcome: TaskOutcome) -> bool:
    """Complete one task; whether that counted."""
    [counted] = await store.complete_tasks(worker, [outcome])
    return counted


# --- looks ------------------------------------------------------------------------------------------------------------


async def row_of(store: Store, uid: str) -> RunRow:
    row = await store.find_uid(uid)
    assert row is not None, f"there is no run {uid}"
    return row


async def inbox_of(store: Store, uid: str) -> list[Message]:
    return list((await store.read_inbox(uid, limit=100_000)).messages)


async def ids_in_inbox(store: Store, uid: str) -> list[str]:
    return [found.id for found in await inbox_of(store, uid)]


async def marks_of(store: Store, uid: str) -> list[int]:
    """The marks of its journal, whose positions must have no gap."""
    entries = await store.read_journal(uid)
    assert [found.seq for found in entries] == list(range(len(entries)))
    return [found.mark for found in entries]


async def is_due(store: Store, uid: str) -> bool:
    """Whether a worker could claim it now."""
    row = await row_of(store, uid)
    return row.live and row.owner is None and row.wake_at is not None and row.wake_at <= await store.now()
