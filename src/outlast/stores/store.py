"""What the engine asks of a store; what they exchange (`progress`, `records`) can be had from here too. Layer: stores.

One protocol, one contract suite (`outlast.testing.stores`), many backends. The words are DESIGN's: a run moves only by
`commit`; a late writer is refused by one of three fences (the worker's own row; the entry's position together with the
mark of the entry before it; the run's epoch). What always holds, for every method of every backend:

- Atomic: it happens wholly or not at all, also when the process dies inside.
- Repeatable: sending the same call again after a lost answer is safe; `commit` and `send` recognise what landed.
- Durable: once it returned, a power cut does not undo it (at default settings).
- A driver's exceptions do not leave the store: they become `StoreError`s of `outlast.errors`.

Instants are µs since the Unix epoch, on the store's clock. A `uid` is a run's own UUID as text and keys everything;
an `id` is the user's name for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from outlast.core.states import RunStatus
from outlast.stores.progress import (
    LANDED,
    REFUSED,
    STALE,
    Effects,
    NewMessage,
    NewRun,
    NewTask,
    NewWait,
    Outcome,
    Progress,
    Release,
    RowChange,
    Send,
    Verdict,
)
from outlast.stores.records import (
    ALL_WAITS,
    CLIENT,
    INBOX_LIMIT,
    KEPT,
    LOST_MESSAGE,
    REOPENING,
    STAYING,
    TASK_MESSAGE,
    URGENT,
    ClaimedRun,
    ClaimedTask,
    Claiming,
    Entry,
    Inbox,
    Look,
    Message,
    OwnedRun,
    QueueRow,
    Reaped,
    RunQuery,
    RunRow,
    Sent,
    TaskOutcome,
    TaskRow,
    VersionRow,
    VersionStatus,
    WaitQuery,
    WaitRow,
    is_kept_at,
    recovery_delay_us,
)
from outlast.stores.sharing import RunSharing, Sharing
from outlast.stores.workers import Held, HeldTask, Renewed, WorkerRow

__all__ = [
    "ALL_WAITS",
    "CLIENT",
    "INBOX_LIMIT",
    "KEPT",
    "LANDED",
    "LOST_MESSAGE",
    "REFUSED",
    "REOPENING",
    "STALE",
    "STAYING",
    "TASK_MESSAGE",
    "URGENT",
    "ClaimedRun",
    "ClaimedTask",
    "Claiming",
    "Effects",
    "Entry",
    "Held",
    "HeldTask",
    "Inbox",
    "Look",
    "Message",
    "NewMessage",
    "NewRun",
    "NewTask",
    "NewWait",
    "Outcome",
    "OwnedRun",
    "Progress",
    "QueueRow",
    "Reaped",
    "Release",
    "Renewed",
    "RowChange",
    "RunQuery",
    "RunRow",
    "RunSharing",
    "Send",
    "Sent",
    "Sharing",
    "Store",
    "TaskOutcome",
    "TaskRow",
    "Verdict",
    "VersionRow",
    "VersionStatus",
    "WaitQuery",
    "WaitRow",
    "WorkerRow",
    "is_kept_at",
    "recovery_delay_us",
]


class Store(Protocol):
    """What remembers. Every method but `renew` is called from the event loop that opened the store."""

    url: str
    is_remote: bool
    """A server does the work: while it commits, the worker's process has both hands free."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date. Two processes that do so at once are safe.

        Raises: `SchemaTooNew` for a store of a newer release; `StoreCorrupt`, `StoreReadOnly`, `StoreUnavailable`.
        """
        ...

    async def close(self) -> None:
        """Finish what was sent, and let go. Closing twice is fine. A closed store answers `StoreUnavailable`."""
        ...

    async def now(self) -> int:
        """The store's clock."""
        ...

    # --- workers and leases ---

    async def register(self, worker: WorkerRow, lease_us: int) -> int:
        """Add a worker whose lease ends `lease_us` from now. Answers the store's now.

        Raises `Fenced` for an id that is dead or lapsed: it never comes back to life.
        """
        ...

    def renew(self, worker_id: str, lease_us: int) -> Renewed | None:
        """Extend the lease; answers the store's now, and whether it was asked to drain, or None: fenced (dead, gone, or
        lapsed already).

        Blocking, and called from the heartbeat's own thread: no body can delay it. A lapsed lease never revives.
        """
        ...

    async def retire(self, worker_id: str) -> int:
        """Hand back: the worker is dead, what it still owned is due at once (no recovery is counted), its row is gone.
        Tasks it still held are `lapse_tasks`'s: a claimed attempt counts as started.

        Answers how many runs were handed back. An unknown worker: 0.
        """
        ...

    async def reap(self, *, limit: int = 500, orphans: bool = False) -> Reaped | None:
        """Take one dead or lapsed worker's runs from it; None when there is no such worker.

        In this order, in one transaction: its row locked, marked dead, then at most `limit` of its runs released with
        `epoch+1`, `recoveries+1`, due after `recovery_delay_us` of the recoveries it had, and its row deleted only when
        no run of it is left. Its tasks are `lapse_tasks`'s. With `orphans`: when no worker is dead, runs whose owner
        has no row at all are released likewise.
        """
        ...

    async def ask_drain(self, worker_id: str) -> int | None:
        """Put on record that a worker is to drain; its next renewal tells it. Answers when it was first asked: asked
        twice is asked once, and registering again does not undo it. None: no worker of this id holds a lease.
        """
        ...

    async def list_workers(self) -> list[WorkerRow]:
        """All workers that have a row: alive, lapsed, or dead and not wholly reaped."""
        ...

    async def count_held(self, worker_ids: Sequence[str], *, most: int) -> list[Held]:
        """How many runs and tasks each of these workers holds, neither counted past `most`; in the order asked for."""
        ...

    async def list_held_tasks(self, worker_id: str, *, limit: int = 100) -> list[HeldTask]:
        """Tasks this worker holds, the first ones taken first."""
        ...

    async def look(self, claiming: Claiming) -> Look:
        """One cheap statement."""
        ...

    # --- runs ---

    async def commit(self, worker_id: str | None, batch: Sequence[Progress]) -> list[Outcome]:
        """Move runs forward; one outcome for each, in order.

        Atomic:  each run's entry and effects all happen, or none do.
        Refuses: per run as `Verdict` says; `Fenced`, the whole batch, for a worker that lost its lease.
                 `worker_id=None` is a client: it may only start and write with `Effects.unowned`; else `ValueError`.
        Repeats: a commit that landed before is recognised by its mark: LANDED. A repeated park does nothing.
        Durable: once this returns, a power cut does not undo it.
        Raises:  `StoreRefused` when the store cannot take some entry of the batch (nothing landed; halve it to find
                 which); `StoreUnavailable` when it is not known whether it landed (send the same again).
        """
        ...

    async def claim(self, claiming: Claiming, sharing: RunSharing | None = None) -> list[ClaimedRun]:
        """Take due runs of these queues that are of no pool: owner set, epoch raised, a queued run is running.

        With `sharing`, of one queue and that pool, as it says; two claims at once never exceed its limits. Raises
        `Fenced`.
        """
        ...

    async def pool_run(self, worker_id: str, claimed: ClaimedRun, pool: str, group: str) -> bool:
        """Give up a run that was claimed, and not looked at: it is of this pool from now on, due at once, and queued if
        it was. False: it is not this ownership's, or is of a pool; nothing happened."""
        ...

    async def list_pools(self) -> list[tuple[str, str]]:
        """The queues and pools in which a run is due, or will be."""
        ...

    async def list_owned(self, worker_id: str) -> list[OwnedRun]:
        """All runs whose owner is this worker (reconcile)."""
        ...

    async def adopt(self, worker_id: str, uid: str, epoch: int) -> ClaimedRun | None:
        """Own anew, under `epoch+1`, a run this worker owns without knowing it. None: it does not. Raises `Fenced`."""
        ...

    async def read_journal(self, uid: str, *, after: int = -1, limit: int = 1000) -> list[Entry]:
        """Entries behind position `after`, in order. Empty: no more, or no such run."""
        ...

    async def read_inbox(self, uid: str, *, after: int = 0, limit: int = 500) -> Inbox:
        """Unread messages behind number `after`, in order, and `mail`, in one snapshot."""
        ...

    async def send(self, to: str, message: NewMessage) -> Sent:
        """Put a message from outside into the inbox of the run with this *uid*, and make an unowned run due now.
        Any deploy may look at it then: its unfit list is emptied.

        For a run that went on, it is put into the inbox of its last round, which `Sent.uid` names (`NewRun.continues`).

        Of a run that ends at the same time, it is in its inbox before that, and swept or kept (`RowChange.ended`); or
        it is refused: `ended`. One that is kept is a `duplicate` when it is sent again.

        Raises `InboxFull` past 10,000 unread messages.
        """
        ...

    async def find_run(self, id: str) -> RunRow | None:
        """The run that holds this id."""
        ...

    async def find_uid(self, uid: str) -> RunRow | None:
        """The run with this uid, whoever holds its id now."""
        ...

    async def list_runs(self, query: RunQuery) -> list[RunRow]:
        """One page of the runs that fit, newest first."""
        ...

    async def count_runs(self) -> dict[RunStatus, int]:
        """How many runs have not ended, by status. It costs a walk through an index of those."""
        ...

    async def delete_run(self, uid: str) -> bool:
        """Delete an ended, unowned run and all that is its own; False: it or its root has not ended, or it is the first
        round of a run that has not. Missing: True."""
        ...

    async def prune(self, statuses: Sequence[RunStatus], finished_before: int, limit: int = 500) -> int:
        """Delete up to `limit` such runs; answers how many. Call until 0."""
        ...

    async def redue(self, waiting_on: Sequence[str], deploy: str) -> int:
        """Make suspended, unowned runs due whose `waiting_on` is one of these and whose unfit list lacks `deploy`."""
        ...

    async def refit(self, deploy: str) -> int:
        """Let workers of this deploy claim again what was left to others: live runs that are not suspended."""
        ...

    # --- waits and tasks ---

    async def list_waits(self, query: WaitQuery = ...) -> list[WaitRow]:
        """One page of the open waits that fit, across runs, oldest first."""
        ...

    async def claim_tasks(
        self, claiming: Claiming, functions: Sequence[str], lease_us: int, sharing: Sharing | None = None
    ) -> list[ClaimedTask]:
        """Take due tasks of these queues whose function is known here: by priority, then the longest due.

        With `sharing`, of one queue, as that says; two claims at once never exceed its limit. Raises `Fenced`.
        """
        ...

    async def renew_tasks(
        self, worker_id: str, held: Sequence[tuple[str, str, int, bytes]], lease_us: int
    ) -> list[tuple[str, str, int]]:
        """Extend the leases of held tasks (run, key, attempt, progress); answers those to give up: stopped, or lost."""
        ...

    async def release_tasks(
        self, worker_id: str, held: Sequence[tuple[str, str, int]], delay_us: int
    ) -> list[tuple[str, str, int]]:
        """Give back tasks (run, key, attempt) that this worker was given and has not begun: as if nobody had claimed
        them, they are due again after `delay_us`. Answers those that it keeps until they lapse, since they are stopped,
        or that are not its any more."""
        ...

    async def complete_tasks(self, worker_id: str, outcomes: Sequence[TaskOutcome]) -> list[bool]:
        """Delete each task and send its outcome to its run, all in one transaction. False: that attempt is superseded,
        and nothing happened; or, of a call sent again after a lost answer, it was completed then.

        Any number from one, of any runs. Raises `StoreRefused` when the store cannot take one of them (nothing
        happened; halve them to find which).
        """
        ...

    async def lapse_tasks(self, *, limit: int = 100) -> int:
        """Turn tasks whose lease lapsed, or whose worker is dead or gone, into a `LOST_MESSAGE` for their run; answers
        how many."""
        ...

    async def lost_attempts(self, uid: str, open_attempts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """Of these open queued attempts, those with neither a task row nor a message: lost."""
        ...

    async def list_tasks(self, uid: str) -> list[TaskRow]:
        """The run's tasks, by key."""
        ...

    async def list_queues(self) -> list[QueueRow]:
        """What stands in the queues now, by queue and function. A queue that nothing is in has no row."""
        ...

    # --- versions ---

    async def save_versions(self, rows: Sequence[VersionRow]) -> int:
        """Keep versions that are not kept yet; those that are stay as they are. Answers how many were new."""
        ...

    async def find_version(self, workflow: str, version: str) -> VersionRow | None:
        """One version."""
        ...

    async def list_versions(
        self, workflow: str | None = None, *, status: VersionStatus | None = None, limit: int = 100
    ) -> list[VersionRow]:
        """Versions, those decided or stored last first; without their plans and definitions."""
        ...

    async def decide_version(self, workflow: str, version: str, status: VersionStatus, by: str) -> bool:
        """Activate or decline, at the store's now. Of two decisions at once the later one stands, wholly.

        False: it has this status already, or there is no such version; nothing happened then. `DRAFT`: `ValueError`.
        """
        ...

    # --- hints ---

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back, on the event loop, soon after something may have changed; answers the unsubscribing call.

        A hint is never needed for correctness: it may come late, twice, for nothing, or not at all.
        """
        ...
