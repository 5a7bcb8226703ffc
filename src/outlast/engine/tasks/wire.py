"""What a run's owner and the worker of a queued step tell each other. Layer: engine.

A task carries what it takes to carry its attempt out; its outcome carries what the run's owner has to put on record.
What always holds: both are JSON with defaults for what was added later, so that workers of two releases understand each
other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from outlast.core.events import NOTHING, ErrorRecord
from outlast.engine.tasks.carrier import step_trace_of
from outlast.stores.store import NewTask

if TYPE_CHECKING:
    from outlast.authoring.call import Call
    from outlast.core.calls import PendingStep
    from outlast.engine.hot import HotRun

__all__ = [
    "TaskDetails",
    "TaskReport",
    "encode_report",
    "new_task",
    "queue_of",
    "read_details",
    "read_report",
    "split_outcome_id",
]


class TaskDetails(msgspec.Struct, frozen=True, omit_defaults=True):
    """`NewTask.details`: what the attempt needs to know, beside its function and arguments."""

    id: str
    """The user's name for the run."""
    trace: str = ""
    user: str | None = None
    used: int = 1
    """Attempts of its budget that were used, this one included."""
    retries: int = 0
    timeout_us: int | None = None
    heartbeat_timeout_us: int | None = None
    executor: str | None = None
    compensates: str = ""
    """Key of the step that it undoes."""


class TaskReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """`TaskOutcome.payload`: how the attempt ended."""

    worker: str
    """Who ran it."""
    began_at: int
    ended_at: int
    value: msgspec.Raw = NOTHING
    error: ErrorRecord | None = None
    """None: it succeeded, with this value."""
    is_retryable: bool = False
    """Of an error: by the step's own rules another attempt could help. Asked where the error was raised: from its
    record it cannot always be made again."""


_encode = msgspec.json.Encoder().encode
_decode_details = msgspec.json.Decoder(TaskDetails).decode
_decode_report = msgspec.json.Decoder(TaskReport).decode


def queue_of(pending: PendingStep) -> str:
    """The queue that a call is for; "": it executes with its run."""
    return cast("Call", pending.call).settings.queue or ""


def new_task(run: HotRun, pending: PendingStep, attempt: int, queue: str) -> NewTask:
    """The attempt as a task. Its step stands in the run's books already."""
    call, started = cast("Call", pending.call), run.started
    assert started is not None
    settings = call.settings
    details = TaskDetails(
        id=started.id,
        trace=started.trace if run.home.stepper.tracing is None else step_trace_of(run, pending.key),
        user=started.user,
        used=attempt - run.steps[pending.key].base,
        retries=call.retries,
        timeout_us=settings.timeout_us,
        heartbeat_timeout_us=settings.heartbeat_timeout_us,
        executor=settings.executor,
        compensates=call.compensates,
    )
    group = run.home.tasks.group_of(queue, started)
    return NewTask(
        pending.key,
        attempt,
        queue,
        call.function,
        call.arguments,
        run.now_us(),
        started.priority,
        _encode(details),
        group,
    )


def split_outcome_id(id: str) -> tuple[str, int]:
    """Which attempt a message is about."""
    key, _, attempt = id.rpartition("#")
    return key, int(attempt)


def read_details(details: bytes) -> TaskDetails:
    """Raises `msgspec.ValidationError` for what no release wrote."""
    return _decode_details(details)


def encode_report(report: TaskReport) -> bytes:
    """The payload of an outcome."""
    return _encode(report)


def read_report(payload: bytes) -> TaskReport:
    """Raises `msgspec.ValidationError` for what no release wrote."""
    return _decode_report(payload)
