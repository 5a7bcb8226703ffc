"""What a store answers with, and the figures and words that every backend shares. Layer: stores.

What always holds: records are frozen, and say nothing of how a backend keeps them. Instants are µs since the Unix
epoch, on the store's clock; values are JSON as the codec wrote it.
"""

from __future__ import annotations

import enum

import msgspec

from outlast.core.states import RunStatus
from outlast.stores.progress import NewWait

__all__ = [
    "ALL_WAITS",
    "CLIENT",
    "INBOX_LIMIT",
    "KEPT",
    "LOST_MESSAGE",
    "REOPENING",
    "STAYING",
    "TASK_MESSAGE",
    "URGENT",
    "ClaimedRun",
    "ClaimedTask",
    "Claiming",
    "Entry",
    "Inbox",
    "Look",
    "Message",
    "OwnedRun",
    "QueueRow",
    "Reaped",
    "RunQuery",
    "RunRow",
    "Sent",
    "TaskOutcome",
    "TaskRow",
    "VersionRow",
    "VersionStatus",
    "WaitQuery",
    "WaitRow",
    "is_kept_at",
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

STAYING = frozenset({"child", "resume", TASK_MESSAGE, LOST_MESSAGE})
"""Kinds of message that answer what one round asked for, and not whoever comes to ask: they do not go on to the next
(`NewRun.continues`)."""

REOPENING = {"unwind": RunStatus.COMPLETED, "retry": RunStatus.FAILED, "revive": RunStatus.CANCELLED}
"""Kinds of message that an ended run of this status still takes: it is live and due again, and whoever claims it writes
the `RunReopened`. Every other message to an ended run is `ended`."""

URGENT = frozenset({"cancel"})
"""Kinds of message that no limit keeps waiting: a run that nobody owns leaves its pool with one, and is anybody's."""


KEPT = frozenset({"signal", "decision", "resume"})
"""Kinds of message that people, or programs that speak for them, send once and were told are stored. One that is unread
at an end which a retry can take back (`is_kept_at`) is kept, and in the inbox again when the run is live again."""


def is_kept_at(status: RunStatus, *, is_child: bool) -> bool:
    """Whether a run that ends so may be told to go on from where it was: by a retry, or with one of its parent's."""
    return status is RunStatus.FAILED or (status is RunStatus.CANCELLED and is_child)


def recovery_delay_us(recoveries: int) -> int:
    """How long a reaped run stays put, when it was reaped `recoveries` times before without progress (SPEC L9)."""
    if recoveries == 0:
        return 0
    return min(30_000_000 << min(recoveries - 1, 5), 600_000_000)


# --- what is read -----------------------------------------------------------------------------------------------------


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One entry of a run's journal, as it lies there."""

    seq: int
    at: int
    writer: str
    """Id of the worker that wrote it, or `CLIENT`."""
    mark: int
    events: bytes


class Message(msgspec.Struct, frozen=True, gc=False):
    """One message in a run's inbox, unread."""

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
    """A run as its row shows it: never behind when it is parked, suspended or ended, and as its owner took it while it
    is hot."""

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
    origin: str | None = None
    """uid of the first round, for a later one."""
    next: str | None = None
    """uid of the round that followed; of a first round, of the last one so far. None: none did."""
    pool: str | None = None
    """The pool it is of now; None: none (`RunSharing`)."""
    group: str = ""


class RunQuery(msgspec.Struct, frozen=True):
    """Filters; None means any. Newest first, by (created_at, uid)."""

    workflow: str | None = None
    statuses: tuple[RunStatus, ...] = ()
    waiting_on: str | None = None
    """Exact, or a prefix that ends with `*`."""
    user: str | None = None
    parent: str | None = None
    owner: str | None = None
    """Held by this worker now."""
    created_from: int | None = None
    created_until: int | None = None
    """From this instant on; until before this one."""
    attributes: tuple[tuple[str, bytes], ...] = ()
    """Top-level attribute name and its JSON value; all must be equal."""
    after: tuple[int, str] | None = None
    """(created_at, uid) of the last row of the page before."""
    limit: int = 50


class VersionStatus(enum.StrEnum):
    """Whether runs of a version may be started."""

    DRAFT = "draft"
    ACTIVE = "active"
    DECLINED = "declined"


class VersionRow(msgspec.Struct, frozen=True):
    """One version of a workflow, as it was when it was first seen. Only its status changes, by `decide_version`."""

    workflow: str
    version: str
    kind: str
    """`body`, whose code workers have, or `graph`."""
    status: VersionStatus = VersionStatus.ACTIVE
    plan: bytes = b""
    """As `outlast.core.plan` writes it; empty where the source could not be read."""
    definition: bytes = b""
    """Of a graph: what it is made from. Of a body: its program, if there is one. It holds values, of the code's globals
    or of the graph's author, and lies in the store as payloads do."""
    created_at: int = 0
    """`save_versions` sets it."""
    created_by: str = ""
    """Who stored a draft; empty for what a worker brought along."""
    decided_at: int | None = None
    decided_by: str = ""
    """Who activated or declined it, and when."""


class Claiming(msgspec.Struct, frozen=True):
    """Who wants to work, and what."""

    worker: str
    queues: tuple[str, ...]
    deploy: str
    limit: int
    """At most the free places."""
    oldest_first: bool = False
    """Regardless of priority: every eighth claim, so that low priorities do not starve."""
    lanes: tuple[tuple[str, str], ...] = ()
    """Queues and pools that a look is to tell of; a claim takes no notice of them."""


class ClaimedRun(msgspec.Struct, frozen=True):
    """A run that was given to a worker. Its `epoch` names this ownership, and no later one."""

    uid: str
    epoch: int
    recoveries: int
    status: RunStatus
    workflow: str = ""
    queue: str = "default"
    pool: str | None = None
    """It has a place in this one while it is owned."""
    was_queued: bool = False


class OwnedRun(msgspec.Struct, frozen=True):
    """A run whose row names the worker that asks, and under which epoch."""

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
    """A task of its queues is due, whoever knows its function."""
    stopped: bool = False
    """A task it holds is told to stop: its next renewal says which."""
    dead: bool = False
    """A worker is dead or lapsed and has not been reaped."""
    lapsed: bool = False
    """The lease of some task has run out: it is `lapse_tasks`'s."""
    lanes: tuple[tuple[str, str], ...] = ()
    """Of the queues and pools it was asked for, those in which a run is due. `due` does not speak of them; `next_at`
    does, of what will be due."""


class Sent(msgspec.Struct, frozen=True):
    """What became of a message."""

    verdict: str
    """`sent`, `duplicate` (its id is in the inbox already), `ended` or `missing`."""
    uid: str | None = None
    no: int = 0


class Reaped(msgspec.Struct, frozen=True):
    """A worker that was found dead, and how many runs were taken from it this time."""

    worker: str
    runs: int
    done: bool
    """Nothing of the worker is left; False: call again."""


class ClaimedTask(msgspec.Struct, frozen=True):
    """One attempt of a queued step, given to a worker. It counts as started."""

    run: str
    key: str
    attempt: int
    queue: str
    function: str
    arguments: bytes
    details: bytes
    lacks: str = ""
    """What it takes to read the arguments, and is not here; of no concern to a store."""


class TaskOutcome(msgspec.Struct, frozen=True):
    """How that attempt ended."""

    run: str
    key: str
    attempt: int
    payload: bytes
    """Becomes the message `key#attempt` of kind `TASK_MESSAGE` in the run's inbox."""


class TaskRow(msgspec.Struct, frozen=True):
    """An attempt of a queued step that has no outcome yet, as others may look at it."""

    key: str
    attempt: int
    queue: str
    function: str
    due_at: int
    owner: str | None
    claimed_at: int | None
    """When its owner took it; None: nobody has."""
    stop: bool
    progress: bytes
    """JSON that its owner last renewed it with; empty: none."""


class QueueRow(msgspec.Struct, frozen=True):
    """What stands in one queue: its runs, or its tasks of one function."""

    queue: str
    function: str | None
    """None: runs."""
    waiting: int
    """Due, and nobody's."""
    oldest_at: int | None
    """Since when the first of those is due."""
    held: int
    """Owned by a worker that has a row."""


class WaitQuery(msgspec.Struct, frozen=True):
    """Filters; None means any. Oldest first, by (opened_at, run, key)."""

    kind: str | None = None
    name: str | None = None
    workflow: str | None = None
    after: tuple[int, str, str] | None = None
    """(opened_at, run, key) of the last row of the page before."""
    limit: int = 100


ALL_WAITS = WaitQuery()
"""The first page of all of them."""


class WaitRow(msgspec.Struct, frozen=True):
    """An open wait, and the run that waits."""

    run: str
    run_id: str
    workflow: str
    wait: NewWait
    user: str | None = None
    """Whose run it is."""
