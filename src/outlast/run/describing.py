"""From rows and views to the records people see. Layer: run.

What always holds: nothing here asks the store or the clock; the same row and journal give the same record.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.authoring.schema import json_schema
from outlast.authoring.workflow import Workflow
from outlast.core.events import ErrorRecord
from outlast.core.history import Attempt
from outlast.core.instants import to_datetime
from outlast.core.keys import child_uid, invocation_id
from outlast.core.plan.plan import Plan, decode_plan
from outlast.core.states import RunStatus, StepStatus
from outlast.core.timeline import Item
from outlast.core.view import RunView, StepView
from outlast.core.waits.approval import show_policy
from outlast.core.waits.book import OpenWait
from outlast.core.waits.events import WaitKind
from outlast.engine.tasks.queues import DEFAULT, QueueSettings, find_unserved
from outlast.errors import RunCancelled
from outlast.payloads import Sealed
from outlast.run.records import (
    AttemptInfo,
    Milestone,
    QueueInfo,
    RunInfo,
    RunSnapshot,
    RunSummary,
    StepSummary,
    TimelineItem,
    VersionInfo,
    WaitInfo,
    WorkflowInfo,
    WorkSummary,
)
from outlast.run.workers import WorkerState, state_of
from outlast.stores.store import NewWait, QueueRow, RunRow, TaskRow, VersionRow, WaitRow, WorkerRow

if TYPE_CHECKING:
    from outlast.engine.engine import WorkDone

__all__ = [
    "Read",
    "describe_attempt",
    "describe_item",
    "describe_moment",
    "describe_queues",
    "describe_run",
    "describe_version",
    "describe_wait_row",
    "describe_work",
    "describe_workflow",
    "leave_encoded",
    "plain",
    "show_tasks",
    "summarize_run",
]

Decode = Callable[[msgspec.Raw], Any]
"""How the output of a run's workflow is decoded."""
Read = Callable[[Any], Any]


def plain(value: Any) -> Any:
    """JSON as it is: who is outside may not have the classes. What cannot be read here is shown as `Sealed`."""
    if isinstance(value, Sealed):
        return value
    return None if value is None else msgspec.json.decode(value)


def leave_encoded(value: Any) -> Any:
    """The journal's own JSON, for who encodes the record anyway: it goes into the answer as it is."""
    return value


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


def describe_run(row: RunRow, view: RunView, decode: Decode, plan: Plan | None = None) -> RunInfo:
    """How it stands. The journal is true of a hot run too; but that a worker took it, the row knows first.

    `plan` is that of the version it was started with."""
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
        planned_steps=None if plan is None else tuple(step.key for step in plan.steps),
        deterministic=None if plan is None else plan.deterministic,
        steps=_summarize_steps(view.steps.values()),
        state=_plain_values(view.state),
        output=_output_of(view, decode) if status is RunStatus.COMPLETED else None,
        error=_error_of(view),
        input={} if view.started is None else plain(view.started.input),
        user=row.user,
        attributes=msgspec.json.decode(row.attributes),
        queue=row.queue,
        priority=row.priority,
        parent=row.parent,
        forked_from=None if view.started is None else view.started.forked_from or None,
        continued_from=None if view.started is None else view.started.continues or None,
        continued_as=view.next or None,
        trace=row.trace,
        created_at=to_datetime(row.created_at),
        due_at=_instant(row.wake_at),
        waits=_describe_waits(view),
    )


def show_tasks(view: RunView, tasks: Iterable[TaskRow]) -> None:
    """Add what the store knows of queued steps that are carried out now: the journal hears of them when they end."""
    for task in tasks:
        step = view.steps.get(task.key)
        if task.owner is not None and step is not None and step.is_open and step.attempts == task.attempt:
            step.status, step.began_at = StepStatus.STARTED, task.claimed_at
            step.progress = msgspec.Raw(task.progress) if task.progress else None


def describe_wait(run_id: str, run_uid: str, workflow: str, user: str | None, wait: OpenWait | NewWait) -> WaitInfo:
    """What a run waits for."""
    policy = show_policy(msgspec.Raw(wait.policy))
    is_approval = wait.kind == WaitKind.APPROVAL
    return WaitInfo(
        run_id=run_id,
        run_uid=run_uid,
        workflow=workflow,
        key=wait.key,
        kind=WaitKind(wait.kind),
        name=wait.name,
        since=to_datetime(wait.opened_at),
        until=_instant(wait.deadline),
        question=policy.text,
        approvers=policy.approvers if is_approval else None,
        scope=policy.scope,
        schema=plain(policy.schema),
        user=user,
    )


def describe_wait_row(row: WaitRow) -> WaitInfo:
    """A wait, as lists show it."""
    return describe_wait(row.run_id, row.run, row.workflow, row.user, row.wait)


def describe_moment(view: RunView, decode: Decode) -> RunSnapshot:
    """A view of the past."""
    return RunSnapshot(
        seq=view.seq,
        at=None if view.seq < 0 else to_datetime(view.at),
        status=view.status,
        waiting_on=view.waiting_on,
        steps=_summarize_steps(view.steps.values()),
        results={key: plain(step.value) for key, step in view.steps.items() if step.status is StepStatus.SUCCEEDED},
        path=tuple(view.steps),
        state=_plain_values(view.state),
        milestones=tuple(Milestone(name, to_datetime(at)) for name, at in view.milestones),
        output=_output_of(view, decode),
        error=_error_of(view),
        waits=_describe_waits(view),
    )


def _describe_waits(view: RunView) -> tuple[WaitInfo, ...]:
    started = view.started
    if started is None:
        return ()
    return tuple(
        describe_wait(started.id, started.uid, started.workflow, started.user, wait) for wait in view.waits.values()
    )


def describe_attempt(uid: str, attempt: Attempt, read: Read = plain) -> AttemptInfo:
    """One entry of the history of run `uid`; `read` makes of a value in the journal what the record has."""
    ended = attempt.ended_at
    return AttemptInfo(
        key=attempt.key,
        attempt=attempt.attempt,
        function=attempt.function,
        kind=attempt.kind,
        status=attempt.status,
        worker=attempt.worker,
        arguments=read(attempt.arguments),
        began_at=to_datetime(attempt.began_at),
        ended_at=_instant(ended),
        duration=None if ended is None else _duration(max(0, ended - attempt.began_at)),
        result=read(attempt.value),
        error=attempt.error,
        retry_at=_instant(attempt.retry_at),
        after=attempt.after,
        is_current=attempt.is_current,
        invocation_id=invocation_id(uid, attempt.key),
    )


def describe_item(uid: str, item: Item, read: Read = plain) -> TimelineItem:
    """One item of the timeline; likewise."""
    return TimelineItem(
        seq=item.seq,
        at=to_datetime(item.at),
        kind=item.kind,
        step=item.step,
        attempt=item.attempt,
        name=item.name,
        value=read(item.value),
        error=item.error,
        until=_instant(item.until),
        detail=item.detail,
        writer=item.writer,
        child=child_uid(uid, item.step) if item.is_child and item.step is not None else None,
    )


def describe_version(row: VersionRow, definition: bytes | Sealed = b"") -> VersionInfo:
    """A version as it is kept; with its plan, where it was read. `definition` is that of a graph, opened."""
    return VersionInfo(
        workflow=row.workflow,
        version=row.version,
        kind=row.kind,
        status=row.status.value,
        created_at=to_datetime(row.created_at),
        created_by=row.created_by,
        decided_at=_instant(row.decided_at),
        decided_by=row.decided_by,
        plan=decode_plan(row.plan) if row.plan else None,
        definition=plain(definition) if definition else None,
    )


def describe_workflow(workflow: Workflow[..., Any]) -> WorkflowInfo:
    """A workflow as it is declared."""
    return WorkflowInfo(
        name=workflow.name,
        version=workflow.version,
        doc=inspect.getdoc(workflow.fn) or "",
        input_schema=workflow.arguments.json_schema(),
        output_schema=json_schema(workflow.arguments.returns.annotation),
        plan=workflow.plan,
        limit=workflow.limits.limit,
        fair_by=workflow.limits.fair_by or None,
    )


def describe_queues(
    rows: Iterable[QueueRow], workers: Iterable[WorkerRow], settings: Mapping[str, QueueSettings], now_us: int
) -> list[QueueInfo]:
    """The queues that something stands in, or that a live worker serves, by name. One that drains serves no more."""
    alive = [worker for worker in workers if state_of(worker, now_us) is WorkerState.SERVING]
    standing: dict[str, list[QueueRow]] = {queue: [] for worker in alive for queue in worker.queues}
    for row in rows:
        standing.setdefault(row.queue, []).append(row)
    return [
        _describe_queue(name, standing[name], alive, settings.get(name, DEFAULT).limit, now_us)
        for name in sorted(standing)
    ]


def _describe_queue(
    name: str, rows: list[QueueRow], alive: list[WorkerRow], limit: int | None, now_us: int
) -> QueueInfo:
    runs = [row for row in rows if row.function is None]
    steps = [row for row in rows if row.function is not None]
    oldest_at = min((row.oldest_at for row in rows if row.oldest_at is not None), default=now_us)
    waiting = [(name, row.function) for row in steps if row.waiting and row.function is not None]
    return QueueInfo(
        name=name,
        waiting_runs=sum(row.waiting for row in runs),
        held_runs=sum(row.held for row in runs),
        waiting_steps=sum(row.waiting for row in steps),
        held_steps=sum(row.held for row in steps),
        lag=_duration(max(0, now_us - oldest_at)),
        workers=sum(name in worker.queues for worker in alive),
        limit=limit,
        unknown=tuple(function for _, function in find_unserved(waiting, alive)),
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
            progress=plain(step.progress),
            queue=step.queue,
            error=step.error,
            retry_at=_instant(step.retry_at),
        )
        for step in steps
    )


_UNDOING = frozenset({RunStatus.COMPENSATING, RunStatus.COMPENSATED, RunStatus.COMPENSATION_FAILED})


def _error_of(view: RunView) -> ErrorRecord | None:
    """What the body raised; of a run that was cancelled and raised nothing, the cancel, also while that is undone."""
    is_undone = view.cancel_reason is not None and view.status in _UNDOING
    if view.error is None and (is_undone or view.status is RunStatus.CANCELLED):
        return ErrorRecord(
            RunCancelled.__name__,
            view.cancel_reason or "",
            RunCancelled.__module__,
            code=RunCancelled.code,
            expected=True,
        )
    return view.error


def _output_of(view: RunView, decode: Decode) -> Any:
    output: Any = view.output
    return output if output is None or isinstance(output, Sealed) else decode(output)


def _plain_values(values: dict[str, msgspec.Raw]) -> dict[str, Any]:
    return {name: plain(value) for name, value in values.items()}


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
