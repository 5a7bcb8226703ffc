"""What a commit carries: one run's entry, and everything that happens with it or not at all. Layer: stores.

What always holds: the bytes and the mark of what was sent once never change, so that a repeat is recognised.
"""

from __future__ import annotations

import enum

import msgspec

from outlast.core.states import RunStatus

__all__ = [
    "LANDED",
    "REFUSED",
    "STALE",
    "Effects",
    "NewMessage",
    "NewRun",
    "NewTask",
    "NewWait",
    "Outcome",
    "Progress",
    "Release",
    "RowChange",
    "Send",
    "Verdict",
]


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
    origin: str | None = None
    """uid of the first round, for a later one; see `continues`."""
    continues: str | None = None
    """uid of the round that ends in the entry which starts this one (`ctx.continue_as_new`). This one gets its id, its
    queue and its mail: the number of the last message, and all that is unread, but for the kinds in `STAYING`. From
    then on what is sent to any round before reaches this one, but for those kinds."""
    pool: str | None = None
    """The pool it is of, if it is shared out: then it is claimed with that alone (`RunSharing`). A next round is of the
    pool of the one before."""
    group: str = ""
    """Whom it is for, in its pool: of each group as many are held as of the others, while both wait."""
    replaces: str | None = None
    """uid of the ended run that holds the id now and gives it up (`on_conflict="restart"`); else the id must be free.
    The old run keeps its uid, its history and its `id` as text, but `find_run` finds the new one."""


class NewMessage(msgspec.Struct, frozen=True, gc=False):
    """What somebody outside a run has to say to it. Its owner, and nobody else, turns it into an event."""

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
    group: str = ""
    """Whom it is for: a queue that is shared out gives each group its part. "": it is not shared out so."""


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
    told to stop. Of the inbox, what is of a kind in `KEPT` is put aside at an end that can be taken back
    (`is_kept_at`): nobody reads it there, until the run is live again, or gone."""
    error: bytes | None = None
    """JSON summary of the error; b"" clears it."""
    reopened: bool = False
    """Live again, due now if nobody owns it, without finish time and error; what was kept of its inbox at its end is
    there again, under its numbers. (So it is when a message makes the run live: `REOPENING`.)"""
    recovered: bool = False
    """Progress was made: `recoveries` is 0 again."""
    unfit: str | None = None
    """A deploy fingerprint that cannot serve this run; workers of that deploy do not claim it. Not added by a release
    that has not seen all mail: they are to look at that."""


class Effects(msgspec.Struct, frozen=True, gc=False):
    """What a commit does beside its entry. All of it, with the entry, or none of it.

    As if in this order: start, consumed, children, sends, stops, tasks, waits_closed, waits_opened, what a next round
    takes over (`NewRun.continues`), row. So a child can be sent to in the entry that starts it, a stop does not hit the
    tasks of the unwind that comes with it, a park sees what was sent, and an end sweeps all that is left."""

    start: NewRun | None = None
    unowned: RunStatus | None = None
    """The writer does not own the run: land only if nobody does and the row's status is this one (retry)."""
    consumed: tuple[int, ...] = ()
    """Numbers of inbox messages that became events, or were dropped as known."""
    sends: tuple[Send, ...] = ()
    children: tuple[Progress, ...] = ()
    """Starts of child runs, and of the next round (`effects.start` set). A uid that exists already is skipped; an id
    that another run holds makes this whole progress TAKEN."""
    tasks: tuple[NewTask, ...] = ()
    """A newer attempt takes the place of an older one of the same key."""
    stop_tasks: bool = False
    """Unowned tasks of the run are deleted, owned ones told to stop."""
    stopped: tuple[str, ...] = ()
    """The same for the tasks of these keys alone: steps the body gave up. One that is gone already is no error."""
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
    """What became of one `Progress`."""

    LANDED = "landed"
    STALE = "stale"
    """Position taken by another, or the mark before it is not what the writer knew. Nothing of it happened."""
    TAKEN = "taken"
    """A start, of the run or of a child, whose id another run holds: `Outcome.holder`. Nothing of it happened."""
    REFUSED = "refused"
    """`Effects.unowned` did not hold. Nothing of it happened."""


class Outcome(msgspec.Struct, frozen=True):
    """The store's answer to one `Progress`."""

    verdict: Verdict
    holder: str | None = None
    """uid of the run that holds the id, with TAKEN."""


LANDED = Outcome(Verdict.LANDED)
STALE = Outcome(Verdict.STALE)
REFUSED = Outcome(Verdict.REFUSED)
