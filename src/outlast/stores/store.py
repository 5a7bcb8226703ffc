"""What the engine asks of a store, and the records that pass between them. Layer: stores.

One protocol, one contract suite (`tests/stores/contract`), many backends. The words are DESIGN's: a run moves only by
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

import enum
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from outlast.core.states import RunStatus

__all__ = [
    "CLIENT",
    "INBOX_LIMIT",
    "LANDED",
    "LOST_MESSAGE",
    "REFUSED",
    "REOPENING",
    "STALE",
    "TASK_MESSAGE",
    "ClaimedRun",
    "ClaimedTask",
    "Claiming",
    "Effects",
    "Entry",
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
    "Reaped",
    "Release",
    "RowChange",
    "RunQuery",
    "RunRow",
    "Send",
    "Sent",
    "Store",
    "TaskOutcome",
    "Verdict",
    "WaitRow",
    "WorkerRow",
    "recovery_delay_us",
]


# --- figures and words that every backend shares ----------------------------------------------------------------------

INBOX_LIMIT = 10_000
"""Unread messages past which `send` is refused. What runs and tasks send is never refused: it would be lost."""

CLIENT = "client"
"""The writer of entries that no worker wrote (start, retry, fork)."""

TASK_MESSAGE = "task"
"""Kind of the message that carries a task's outcome. Its id is `key#attempt`."""

LOST_MESSAGE = "lost"
"""Kind of the message that says a task's attempt is lost, payload `null`. Its id is `key#attempt` too: one of the two
comes."""

REOPENING = frozenset({"unwind"})
"""Kinds of message that a *completed* run still takes: it is live and due again, and whoever claims it writes the
`RunReopened`. Every other message to an ended run is `ended`."""


def recovery_delay_us(recoveries: int) -> int:
    """How long a reaped run stays put, when it was reaped `recoveries` times before without progress (SPEC L9)."""
    if recoveries == 0:
        return 0
    return min(30_000_000 << min(recoveries - 1, 5), 600_000_000)


# --- what a commit carries --------------------------------------------------------------------------------------------


class NewRun(msgspec.Struct, frozen=True, gc=False):
    """The row of a run that starts. Its entry 0 is the `Progress` that carries this."""

    id: str
    workflow: str
    version: str
    queue: str = "default"
    priority: int = 5
    """0 (first) to 9 (last)."""
    wake_at: int | None = None
    """When it is due. None: now. Ignored when `claimed`."""
    claimed: bool = False
    """The committing worker owns it from the start (epoch 1, status running)."""
    deadline: int | None = None
    parent: str | None = None
    root: str | None = None
    user: str | None = None
    attributes: bytes = b"{}"
    """A JSON object."""
    trace: str = ""
    replaces: str | None = None
    """uid of the ended run that holds the id now and gives it up (`on_conflict="restart"`); else the id must be free.
    The old run keeps its uid, its history and its `id` as text, but `find_run` finds the new one."""


class NewMessage(msgspec.Struct, frozen=True, gc=False):
    id: str
    """Chosen before the first try, so that a repeated send counts once."""
    kind: str
    payload: bytes = b"null"


class Send(msgspec.Struct, frozen=True):
    """A message from one run to another, as an effect of the sender's entry."""

    to: str
    """uid. A recipient that is gone or ended is skipped, never an error of the sender."""
    message: NewMessage


class NewTask(msgspec.Struct, frozen=True):
    """One attempt of a queued step."""

    key: str
    attempt: int
    queue: str
    function: str
    arguments: bytes
    due_at: int
    priority: int = 5
    details: bytes = b"{}"
    """JSON the worker that claims it needs beside: user, trace, attempts, deadline."""


class NewWait(msgspec.Struct, frozen=True):
    """An open wait people can look at or answer."""

    key: str
    kind: str
    name: str
    opened_at: int
    deadline: int | None = None
    policy: bytes = b"{}"


class Release(msgspec.Struct, frozen=True, gc=False):
    """Give the run up, if it is still this ownership's (`epoch`): a park.

    The row becomes due at `wake_at` (None: by message only), or at once when mail came that the owner had not `seen`.
    Not owned under this epoch any more: nothing happens, and that is no error."""

    epoch: int
    seen: int
    wake_at: int | None = None


class RowChange(msgspec.Struct, frozen=True, gc=False):
    """The run row's summary columns. `None` leaves a column as it is.

    With an entry all of it happens but for a `release` that does not hold any more; without one (a park) it happens
    only together with its release."""

    status: RunStatus | None = None
    waiting_on: str | None = None
    """What the run waits for, in a word or two; "" clears it."""
    release: Release | None = None
    ended: bool = False
    """Terminal: no owner, not due, not live; its inbox, unowned tasks and waits are deleted, in this transaction, after
    its row was locked, so that no acknowledged message is left that nobody will answer (PROTOCOL F20). Owned tasks are
    told to stop."""
    error: bytes | None = None
    """JSON summary of the error; b"" clears it."""
    reopened: bool = False
    """Live again, due now if nobody owns it, without finish time and error."""
    recovered: bool = False
    """Progress was made: `recoveries` is 0 again."""
    unfit: str | None = None
    """A deploy fingerprint that cannot serve this run; workers of that deploy do not claim it."""


class Effects(msgspec.Struct, frozen=True, gc=False):
    """What a commit does beside its entry. All of it, with the entry, or none of it.

    As if in this order: start, consumed, children, sends, stop_tasks, tasks, waits_closed, waits_opened, row. So a
    child can be sent to in the entry that starts it, a stop does not hit the tasks of the unwind that comes with it, a
    park sees what was sent, and an end sweeps all."""

    start: NewRun | None = None
    unowned: RunStatus | None = None
    """The writer does not own the run: land only if nobody does and the row's status is this one (retry)."""
    consumed: tuple[int, ...] = ()
    """Numbers of inbox messages that became events, or were dropped as known."""
    sends: tuple[Send, ...] = ()
    children: tuple[Progress, ...] = ()
    """Starts of child runs (`effects.start` set). A uid that exists already is skipped; an id that another run holds
    makes this whole progress TAKEN."""
    tasks: tuple[NewTask, ...] = ()
    """A newer attempt takes the place of an older one of the same key."""
    stop_tasks: bool = False
    """Unowned tasks of the run are deleted, owned ones told to stop."""
    waits_opened: tuple[NewWait, ...] = ()
    waits_closed: tuple[str, ...] = ()
    row: RowChange | None = None


class Progress(msgspec.Struct, frozen=True, gc=False):
    """One run's part of a commit. At most one for a run in a batch.

    An entry lands at `seq` only if nothing is there and the entry before it bears the mark `prev`. The bytes and the
    mark of what was sent once never change: a repeat is recognised by its own mark."""

    uid: str
    seq: int
    """-1: no entry, only effects that may happen twice: `consumed`, and a `row` with its `release` (a park)."""
    at: int = 0
    mark: int = 0
    """Random 63 bits."""
    prev: int = 0
    events: bytes = b""
    effects: Effects | None = None


class Verdict(enum.Enum):
    LANDED = "landed"
    STALE = "stale"
    """Position taken by another, or the mark before it is not what the writer knew. Nothing of it happened."""
    TAKEN = "taken"
    """A start, of the run itself or of a child, whose id another run holds: `Outcome.holder`. Nothing of it happened."""
    REFUSED = "refused"
    """`Effects.unowned` did not hold. Nothing of it happened."""


class Outcome(msgspec.Struct, frozen=True):
    verdict: Verdict
    holder: str | None = None
    """uid of the run that holds the id, with TAKEN."""


LANDED = Outcome(Verdict.LANDED)
STALE = Outcome(Verdict.STALE)
REFUSED = Outcome(Verdict.REFUSED)


# --- what is read -----------------------------------------------------------------------------------------------------


class Entry(msgspec.Struct, frozen=True, gc=False):
    seq: int
    at: int
    writer: str
    """Id of the worker that wrote it, or `CLIENT`."""
    mark: int
    events: bytes


class Message(msgspec.Struct, frozen=True, gc=False):
    no: int
    """Its place in the run's mail: gapless, in the order of commits."""
    id: str
    kind: str
    payload: bytes
    sent_at: int


class Inbox(msgspec.Struct, frozen=True):
    """One snapshot: with `mail` as it stood when these messages were all there was (or the first `limit`)."""

    mail: int
    messages: tuple[Message, ...]
    full: bool = False
    """There are more behind these."""


class RunRow(msgspec.Struct, frozen=True):
    uid: str
    id: str
    workflow: str
    version: str
    status: RunStatus
    waiting_on: str
    live: bool
    owner: str | None
    epoch: int
    wake_at: int | None
    deadline: int | None
    mail: int
    priority: int
    queue: str
    parent: str | None
    root: str | None
    user: str | None
    recoveries: int
    created_at: int
    started_at: int | None
    updated_at: int
    finished_at: int | None
    attributes: bytes
    trace: str
    error: bytes | None


class RunQuery(msgspec.Struct, frozen=True):
    """Filters; None means any. Newest first, by (created_at, uid)."""

    workflow: str | None = None
    statuses: tuple[RunStatus, ...] = ()
    waiting_on: str | None = None
    """Exact, or a prefix that ends with `*`."""
    user: str | None = None
    parent: str | None = None
    created_from: int | None = None
    created_until: int | None = None
    """From this instant on; until before this one."""
    attributes: tuple[tuple[str, bytes], ...] = ()
    """Top-level attribute name and its JSON value; all must be equal."""
    after: tuple[int, str] | None = None
    """(created_at, uid) of the last row of the page before."""
    limit: int = 50


class WorkerRow(msgspec.Struct, frozen=True):
    id: str
    """New for each incarnation: a worker that was fenced comes back under another."""
    host: str
    pid: int
    queues: tuple[str, ...] = ("default",)
    functions: tuple[str, ...] = ()
    """Names of the workflows and steps it knows."""
    deploy: str = ""
    """Fingerprint of its code, for `RowChange.unfit`."""
    python: str = ""
    started_at: int = 0
    expires_at: int = 0
    dead_at: int | None = None


class Claiming(msgspec.Struct, frozen=True):
    worker: str
    queues: tuple[str, ...]
    deploy: str
    limit: int
    """At most the free places."""
    oldest_first: bool = False
    """Regardless of priority: every eighth claim, so that low priorities do not starve."""


class ClaimedRun(msgspec.Struct, frozen=True):
    uid: str
    epoch: int
    recoveries: int
    status: RunStatus


class OwnedRun(msgspec.Struct, frozen=True):
    uid: str
    epoch: int


class Look(msgspec.Struct, frozen=True):
    """What an idle worker needs to know, in one statement."""

    now: int
    due: bool = False
    """A run it may claim is due."""
    next_at: int | None = None
    """When the next run it may claim will be due."""
    mail: tuple[str, ...] = ()
    """uids of runs it owns that have unread messages (at most 500)."""
    tasks: bool = False
    dead: bool = False
    """A worker is dead or lapsed and has not been reaped."""


class Sent(msgspec.Struct, frozen=True):
    verdict: str
    """`sent`, `duplicate` (its id is in the inbox already), `ended` or `missing`."""
    uid: str | None = None
    no: int = 0


class Reaped(msgspec.Struct, frozen=True):
    worker: str
    runs: int
    done: bool
    """Nothing of the worker is left; False: call again."""


class ClaimedTask(msgspec.Struct, frozen=True):
    run: str
    key: str
    attempt: int
    queue: str
    function: str
    arguments: bytes
    details: bytes


class TaskOutcome(msgspec.Struct, frozen=True):
    run: str
    key: str
    attempt: int
    payload: bytes
    """Becomes the message `key#attempt` of kind `TASK_MESSAGE` in the run's inbox."""


class WaitRow(msgspec.Struct, frozen=True):
    run: str
    run_id: str
    workflow: str
    wait: NewWait


# --- the protocol -----------------------------------------------------------------------------------------------------


class Store(Protocol):
    """What remembers. Every method but `renew` is called from the event loop that opened the store."""

    url: str

    async def open(self) -> None:
        """Connect, and bring the schema up to date. Two processes that do so at once are safe.

        Raises: `SchemaTooNew` for a store that a newer release wrote; `StoreCorrupt`, `StoreReadOnly`, `StoreUnavailable`.
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

    def renew(self, worker_id: str, lease_us: int) -> int | None:
        """Extend the lease; answers the store's now, or None: fenced (dead, gone, or lapsed already).

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

    async def list_workers(self) -> list[WorkerRow]: ...

    async def look(self, claiming: Claiming) -> Look:
        """One cheap statement."""
        ...

    # --- runs ---

    async def commit(self, worker_id: str | None, batch: Sequence[Progress]) -> list[Outcome]:
        """Move runs forward; one outcome for each, in order.

        Atomic:  each run's entry and effects all happen, or none do.
        Refuses: per run as `Verdict` says; `Fenced`, the whole batch, for a worker that lost its lease.
                 `worker_id=None` is a client: it may only start and write with `Effects.unowned`; else `ValueError`.
        Repeats: a commit that landed before is recognised by its mark and answered LANDED. A repeated park does nothing.
        Durable: once this returns, a power cut does not undo it.
        Raises:  `StoreRefused` when the store cannot take some entry of the batch (nothing landed; halve it to find which);
                 `StoreUnavailable` when it is not known whether it landed (send the same again).
        """
        ...

    async def claim(self, claiming: Claiming) -> list[ClaimedRun]:
        """Take due runs: owner set, epoch raised, a queued run is running. Raises `Fenced`."""
        ...

    async def list_owned(self, worker_id: str) -> list[OwnedRun]:
        """All runs whose owner is this worker (reconcile)."""
        ...

    async def adopt(self, worker_id: str, uid: str, epoch: int) -> ClaimedRun | None:
        """Own again a run this worker owns and did not know of, under `epoch+1`. None: not so any more. Raises `Fenced`."""
        ...

    async def read_journal(self, uid: str, *, after: int = -1, limit: int = 1000) -> list[Entry]:
        """Entries behind position `after`, in order. Empty: no more, or no such run."""
        ...

    async def read_inbox(self, uid: str, *, after: int = 0, limit: int = 500) -> Inbox:
        """Unread messages behind number `after`, in order, and `mail`, in one snapshot."""
        ...

    async def send(self, to: str, message: NewMessage) -> Sent:
        """Put a message from outside into the inbox of the run with this *uid*, and make an unowned run due now.

        Raises `InboxFull` past 10,000 unread messages.
        """
        ...

    async def find_run(self, id: str) -> RunRow | None:
        """The run that holds this id."""
        ...

    async def find_uid(self, uid: str) -> RunRow | None: ...

    async def list_runs(self, query: RunQuery) -> list[RunRow]: ...

    async def delete_run(self, uid: str) -> bool:
        """Delete an ended, unowned run and all that is its own. False: it is not ended, or its root is not. Missing: True."""
        ...

    async def prune(self, statuses: Sequence[RunStatus], finished_before: int, limit: int = 500) -> int:
        """Delete up to `limit` such runs; answers how many. Call until 0."""
        ...

    async def redue(self, waiting_on: Sequence[str], deploy: str) -> int:
        """Make suspended, unowned runs due whose `waiting_on` is one of these and whose unfit list lacks `deploy`."""
        ...

    # --- waits and tasks ---

    async def list_waits(self, *, limit: int = 100) -> list[WaitRow]:
        """Open waits across runs, oldest first."""
        ...

    async def claim_tasks(self, claiming: Claiming, functions: Sequence[str], lease_us: int) -> list[ClaimedTask]:
        """Take due tasks of these queues whose function is known here. Raises `Fenced`."""
        ...

    async def renew_tasks(self, worker_id: str, held: Sequence[tuple[str, str, int, bytes]], lease_us: int) -> list[tuple[str, str, int]]:
        """Extend the leases of held tasks (run, key, attempt, progress). Answers those to give up: stopped, or not ours."""
        ...

    async def complete_task(self, worker_id: str, outcome: TaskOutcome) -> bool:
        """Delete the task and send its outcome to its run, in one transaction. False: superseded, nothing happened."""
        ...

    async def lapse_tasks(self, *, limit: int = 100) -> int:
        """Turn tasks whose lease lapsed, or whose worker is dead or gone, into a `LOST_MESSAGE` for their run; answers
        how many."""
        ...

    async def lost_attempts(self, uid: str, open_attempts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        """Of these open queued attempts, those with neither a task row nor a message: lost."""
        ...

    # --- hints ---

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back, on the event loop, soon after something may have changed; answers the unsubscribing call.

        A hint is never needed for correctness: it may come late, twice, for nothing, or not at all.
        """
        ...
