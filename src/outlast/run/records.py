"""What people get to see of runs: plain records with datetimes and decoded values. Layer: run.

Made from what `outlast.core` folds from a journal, and from a store's rows. What always holds: a record is a picture of
a moment, it never changes; and msgspec encodes it as JSON as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec

from outlast.core.events import ErrorRecord
from outlast.core.history import AttemptStatus
from outlast.core.plan.plan import Plan
from outlast.core.states import RunStatus, StepStatus
from outlast.core.timeline import Kind
from outlast.core.waits.events import WaitKind

__all__ = [
    "AttemptInfo",
    "Milestone",
    "QueueInfo",
    "RunInfo",
    "RunPage",
    "RunSnapshot",
    "RunSummary",
    "StepSummary",
    "TimelineItem",
    "VersionInfo",
    "WaitInfo",
    "WaitPage",
    "WorkSummary",
    "WorkflowInfo",
]


class StepSummary(msgspec.Struct, frozen=True):
    """One step, by its latest attempt."""

    key: str
    status: StepStatus
    duration: timedelta | None = None
    """Of the latest attempt, once it has ended."""
    attempts: int = 0
    progress: Any = None
    """What the latest attempt last said of itself (`heartbeat(progress)`)."""
    queue: str = ""
    """Workers of this queue carry it out; "" for the worker of its run."""
    error: ErrorRecord | None = None
    """Of the latest attempt, if it failed."""
    retry_at: datetime | None = None


class RunInfo(msgspec.Struct, frozen=True):
    """How a run stands (SPEC R7)."""

    uid: str
    id: str
    workflow: str
    version: str
    status: RunStatus
    waiting_on: str
    """`step charge`, `approval ship it?`, `signal paid`, `sleep until …`, `timer`; of a run that the engine suspended,
    its code. Empty: for nothing."""
    started_at: datetime | None
    """When a worker first took it."""
    finished_at: datetime | None
    planned_steps: tuple[str, ...] | None
    """Keys of the steps that the plan of its version foresees, each once, in order. None: there is no such plan."""
    deterministic: bool | None
    """Neither branch nor loop: these steps it will take, and no others."""
    steps: tuple[StepSummary, ...]
    """In the order in which the body called them."""
    state: dict[str, Any]
    output: Any
    """None unless completed; it may be None then too."""
    error: ErrorRecord | None
    input: dict[str, Any] = {}
    """By parameter name."""
    user: str | None = None
    attributes: dict[str, Any] = {}
    queue: str = ""
    priority: int = 5
    parent: str | None = None
    """uid of the run that started it."""
    forked_from: str | None = None
    """uid of the run whose journal it began with a copy of."""
    continued_from: str | None = None
    """uid of the round before this one (`ctx.continue_as_new`)."""
    continued_as: str | None = None
    """uid of the round that followed."""
    trace: str = ""
    created_at: datetime | None = None
    due_at: datetime | None = None
    """When it is next due, if it waits for a time: as its row says, once it is parked."""
    waits: tuple[WaitInfo, ...] = ()
    """What of it somebody can answer, in the order in which the body asked."""


class WaitInfo(msgspec.Struct, frozen=True):
    """Something that a run waits for, and somebody can answer (SPEC W6)."""

    run_id: str
    run_uid: str
    workflow: str
    key: str
    """What the run knows it by: the name, and the number of its use."""
    kind: WaitKind
    name: str
    since: datetime
    until: datetime | None
    """Its deadline."""
    question: str = ""
    """In full, of an approval whose name is a short key."""
    approvers: str | None = None
    """Who may decide: `any`, `owner` or `not-initiator`; None: it is no approval."""
    scope: str | None = None
    """What they must hold."""
    schema: Any = None
    """JSON Schema of what is wanted; None: anything."""
    user: str | None = None
    """Whose run it is."""


class WaitPage(msgspec.Struct, frozen=True):
    """One page of waits, longest first."""

    waits: tuple[WaitInfo, ...]
    next: str | None
    """The next page is `app.waits(…, after=page.next)`; None: this was the last."""

    def __iter__(self) -> Iterator[WaitInfo]:
        return iter(self.waits)

    def __len__(self) -> int:
        return len(self.waits)


class RunSnapshot(msgspec.Struct, frozen=True):
    """A run as it knew itself at a moment of its past (SPEC O2)."""

    seq: int
    """Number of the latest event it knew; -1 before the first."""
    at: datetime | None
    status: RunStatus | None
    waiting_on: str
    steps: tuple[StepSummary, ...]
    results: dict[str, Any]
    """Of the steps that had succeeded, by key."""
    path: tuple[str, ...]
    """Keys of the steps, in the order in which the body had called them."""
    state: dict[str, Any]
    milestones: tuple[Milestone, ...]
    output: Any
    error: ErrorRecord | None
    waits: tuple[WaitInfo, ...] = ()


class Milestone(msgspec.Struct, frozen=True):
    """A mark the body left (`ctx.milestone`)."""

    name: str
    at: datetime


class AttemptInfo(msgspec.Struct, frozen=True):
    """One execution of a step (SPEC O1)."""

    key: str
    attempt: int
    function: str
    kind: str
    """`step`, or `closure` for `ctx.do`."""
    status: AttemptStatus
    worker: str
    arguments: Any
    began_at: datetime
    ended_at: datetime | None
    duration: timedelta | None
    result: Any
    error: ErrorRecord | None
    """Result and error of a cancelled attempt: how it ended in the world all the same."""
    retry_at: datetime | None
    after: str | None
    """Key of the step the body called before this one."""
    is_current: bool
    """False: `retry()` dropped it."""
    invocation_id: str = ""
    """What the step is called in the world, the same on every attempt: the idempotency key that others had from it."""


class TimelineItem(msgspec.Struct, frozen=True):
    """One event of a run, told (SPEC O1). Its fields are those of `outlast.core.timeline.Item`."""

    seq: int
    at: datetime
    kind: Kind
    step: str | None = None
    """What happened to this step; None: to the run."""
    attempt: int | None = None
    name: str | None = None
    value: Any = None
    error: ErrorRecord | None = None
    until: datetime | None = None
    detail: str = ""
    writer: str = ""
    child: str | None = None
    """uid of the run that the step is, where it starts one."""


class RunSummary(msgspec.Struct, frozen=True):
    """A run's row, as lists show it: of a hot run, how it was when its worker took it."""

    uid: str
    id: str
    workflow: str
    version: str
    status: RunStatus
    waiting_on: str
    queue: str
    priority: int
    user: str | None
    attributes: dict[str, Any]
    parent: str | None
    """uid of the run that started it."""
    recoveries: int
    created_at: datetime
    started_at: datetime | None
    updated_at: datetime
    finished_at: datetime | None
    due_at: datetime | None
    """When it is next due, if it waits for a time."""
    error: str | None
    """In one line."""


class RunPage(msgspec.Struct, frozen=True):
    """One page of a list, newest run first."""

    runs: tuple[RunSummary, ...]
    next: str | None
    """The next page is `app.runs(…, after=page.next)`; None: this was the last."""


class VersionInfo(msgspec.Struct, kw_only=True, frozen=True):
    """One version of a workflow, as the store keeps it."""

    workflow: str
    version: str
    kind: str
    """`body`, whose code workers have, or `graph`."""
    status: str
    """`draft`, `active` or `declined`."""
    created_at: datetime
    created_by: str = ""
    """Who stored a draft; empty for what a worker brought along."""
    decided_at: datetime | None = None
    decided_by: str = ""
    """Who activated or declined it, and when."""
    plan: Plan | None = None
    """Of one version that is asked for; None where its source could not be read."""
    definition: Any = None
    """Of a graph that is asked for: what it is made from."""


class WorkflowInfo(msgspec.Struct, frozen=True):
    """A workflow that this process knows."""

    name: str
    version: str
    doc: str
    input_schema: dict[str, Any]
    """JSON Schema of the input by parameter name."""
    output_schema: dict[str, Any]
    plan: Plan | None
    """None where its source cannot be read."""
    limit: int | None = None
    """Of its runs that workers have in hand at once, all together."""
    fair_by: str | None = None
    """Among whom its places are shared out."""


class QueueInfo(msgspec.Struct, frozen=True):
    """A queue, of runs and of steps: what waits in it, and who serves it."""

    name: str
    waiting_runs: int
    """Due, and held by nobody."""
    held_runs: int
    """Held by a worker."""
    waiting_steps: int
    """Queued, and held by nobody."""
    held_steps: int
    """Carried out by a worker now."""
    lag: timedelta
    """For how long the first of all that waits has been due."""
    workers: int
    """How many live workers serve it."""
    limit: int | None
    """Of steps executing at once, and of runs in hand, as this app says it; None: none, or the app does not know."""
    unknown: tuple[str, ...]
    """Functions of steps that wait, and that no live worker of the queue knows."""


class WorkSummary(msgspec.Struct, frozen=True):
    """What `work_until_idle` did."""

    entries: int
    """Journal entries written: starts, steps, ends."""
    ended: int
    """Runs that ended."""
    next_at: datetime | None
    """When the next run is due, if one is known: when to call again."""
