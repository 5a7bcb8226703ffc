"""What people get to see of runs: plain records with datetimes and decoded values. Layer: run.

Made from what `outlast.core` folds from a journal, and from a store's rows. What always holds: a record is a picture of
a moment, it never changes; and msgspec encodes it as JSON as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.core.events import ErrorRecord
from outlast.core.history import Attempt, AttemptStatus
from outlast.core.instants import to_datetime
from outlast.core.states import RunStatus, StepStatus
from outlast.core.timeline import Item, Kind
from outlast.core.view import RunView, StepView
from outlast.errors import RunCancelled
from outlast.stores.store import RunRow, WorkerRow

if TYPE_CHECKING:
    from outlast.engine.worker import WorkDone

__all__ = [
    "AttemptInfo",
    "Milestone",
    "RunInfo",
    "RunPage",
    "RunSnapshot",
    "RunSummary",
    "StepSummary",
    "TimelineItem",
    "WorkSummary",
    "WorkerInfo",
]

Decode = Callable[[msgspec.Raw], Any]
"""How the output of a run's workflow is decoded."""


class StepSummary(msgspec.Struct, frozen=True):
    """One step, by its latest attempt."""

    key: str
    status: StepStatus
    duration: timedelta | None = None
    """Of the latest attempt, once it has ended."""
    attempts: int = 0
    progress: Any = None
    """What the latest attempt last said of itself (`heartbeat(progress)`)."""
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
    """`step charge`, `sleep until …`, `timer`; of a suspended run, its code. Empty: for nothing."""
    started_at: datetime | None
    """When a worker first took it."""
    finished_at: datetime | None
    planned_steps: tuple[str, ...] | None
    """None: the plan of this version is not known."""
    deterministic: bool | None
    steps: tuple[StepSummary, ...]
    """In the order in which the body called them."""
    state: dict[str, Any]
    output: Any
    """None unless completed; it may be None then too."""
    error: ErrorRecord | None


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


class WorkerInfo(msgspec.Struct, frozen=True):
    """A worker, as its row says."""

    id: str
    """New each time it starts, or comes back after its lease was lost."""
    host: str
    pid: int
    queues: tuple[str, ...]
    functions: tuple[str, ...]
    """Names of the steps and workflows it knows."""
    deploy: str
    """Fingerprint of its code."""
    python: str
    started_at: datetime
    expires_at: datetime
    """When its lease ends, if it is not renewed."""
    is_alive: bool


class WorkSummary(msgspec.Struct, frozen=True):
    """What `work_until_idle` did."""

    entries: int
    """Journal entries written: starts, steps, ends."""
    ended: int
    """Runs that ended."""
    next_at: datetime | None
    """When the next run is due, if one is known: when to call again."""


# --- from rows and views ----------------------------------------------------------------------------------------------


def summarize_run(row: RunRow) -> RunSummary:
    """A store's row, as lists show it."""
    return RunSummary(
        uid=row.uid,
        id=row.id,
        workflow=row.workflow,
        version=row.version,
        status=row.status,
        waiting_on=row.waiting_on,
        queue=row.queue,
        priority=row.priority,
        user=row.user,
        attributes=msgspec.json.decode(row.attributes),
        parent=row.parent,
        recoveries=row.recoveries,
        created_at=to_datetime(row.created_at),
        started_at=_instant(row.started_at),
        updated_at=to_datetime(row.updated_at),
        finished_at=_instant(row.finished_at),
        due_at=_instant(row.wake_at),
        error=_error_line(row.error),
    )


def describe_run(row: RunRow, view: RunView, decode: Decode) -> RunInfo:
    """How it stands. The journal is true of a hot run too; but that a worker took it, the row knows first."""
    status, waiting_on = view.status or row.status, view.waiting_on
    if status is RunStatus.QUEUED and row.status is RunStatus.RUNNING:
        status, waiting_on = row.status, row.waiting_on
    return RunInfo(
        uid=row.uid,
        id=row.id,
        workflow=row.workflow,
        version=row.version,
        status=status,
        waiting_on=waiting_on,
        started_at=_instant(row.started_at if row.started_at is not None else view.began_at),
        finished_at=_instant(row.finished_at or view.finished_at if view.is_ended else None),
        planned_steps=None,
        deterministic=None,
        steps=_summarize_steps(view.steps.values()),
        state=_plain_values(view.state),
        output=None if view.output is None else decode(view.output),
        error=_error_of(view),
    )


def describe_moment(view: RunView, decode: Decode) -> RunSnapshot:
    """A view of the past."""
    return RunSnapshot(
        seq=view.seq,
        at=None if view.seq < 0 else to_datetime(view.at),
        status=view.status,
        waiting_on=view.waiting_on,
        steps=_summarize_steps(view.steps.values()),
        results={key: _plain(step.value) for key, step in view.steps.items() if step.status is StepStatus.SUCCEEDED},
        path=tuple(view.steps),
        state=_plain_values(view.state),
        milestones=tuple(Milestone(name, to_datetime(at)) for name, at in view.milestones),
        output=None if view.output is None else decode(view.output),
        error=_error_of(view),
    )


def describe_attempt(attempt: Attempt) -> AttemptInfo:
    """One entry of the history."""
    ended = attempt.ended_at
    return AttemptInfo(
        key=attempt.key,
        attempt=attempt.attempt,
        function=attempt.function,
        kind=attempt.kind,
        status=attempt.status,
        worker=attempt.worker,
        arguments=_plain(attempt.arguments),
        began_at=to_datetime(attempt.began_at),
        ended_at=_instant(ended),
        duration=None if ended is None else _duration(max(0, ended - attempt.began_at)),
        result=_plain(attempt.value),
        error=attempt.error,
        retry_at=_instant(attempt.retry_at),
        after=attempt.after,
        is_current=attempt.is_current,
    )


def describe_item(item: Item) -> TimelineItem:
    """One item of the timeline."""
    return TimelineItem(
        seq=item.seq,
        at=to_datetime(item.at),
        kind=item.kind,
        step=item.step,
        attempt=item.attempt,
        name=item.name,
        value=_plain(item.value),
        error=item.error,
        until=_instant(item.until),
        detail=item.detail,
        writer=item.writer,
    )


def describe_worker(row: WorkerRow, now_us: int) -> WorkerInfo:
    """A worker's row; it is alive while its lease lasts."""
    return WorkerInfo(
        id=row.id,
        host=row.host,
        pid=row.pid,
        queues=row.queues,
        functions=row.functions,
        deploy=row.deploy,
        python=row.python,
        started_at=to_datetime(row.started_at),
        expires_at=to_datetime(row.expires_at),
        is_alive=row.dead_at is None and row.expires_at > now_us,
    )


def describe_work(done: WorkDone) -> WorkSummary:
    """What a round of work did."""
    return WorkSummary(done.entries, done.ended, _instant(done.next_at))


def _summarize_steps(steps: Iterable[StepView]) -> tuple[StepSummary, ...]:
    return tuple(
        StepSummary(
            key=step.key,
            status=step.status,
            duration=None if step.duration_us is None else _duration(step.duration_us),
            attempts=step.attempts,
            progress=_plain(step.progress),
            error=step.error,
            retry_at=_instant(step.retry_at),
        )
        for step in steps
    )


def _error_of(view: RunView) -> ErrorRecord | None:
    """What the body raised; of a cancelled run that raised nothing, the cancel."""
    if view.error is None and view.status is RunStatus.CANCELLED:
        return ErrorRecord(
            RunCancelled.__name__,
            view.cancel_reason or "",
            RunCancelled.__module__,
            code=RunCancelled.code,
            expected=True,
        )
    return view.error


def _plain(value: msgspec.Raw | None) -> Any:
    """JSON as it is: who is outside may not have the classes."""
    return None if value is None else msgspec.json.decode(value)


def _plain_values(values: dict[str, msgspec.Raw]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in values.items()}


def _instant(us: int | None) -> datetime | None:
    return None if us is None else to_datetime(us)


def _duration(us: int) -> timedelta:
    return timedelta(microseconds=us)


def _error_line(summary: bytes | None) -> str | None:
    """The row's summary of an error: its type and message."""
    if not summary:
        return None
    error = msgspec.json.decode(summary, type=dict[str, str])
    return f"{error.get('type', '')}: {error.get('message', '')}"
