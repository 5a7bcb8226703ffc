"""A queued attempt that this worker carries out. Layer: engine.

To the stepper it is what a hot run is for the steps that execute with it. What always holds: its outcome is reported
once, or it is lost: told so by the store, or found out by this machine's clock when its lease ran out (SPEC L6).
"""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.authoring.call import CompensatingCall
from outlast.core.attempts import OpenStep
from outlast.core.events import StepFailed, StepProgressed, StepSucceeded
from outlast.engine.clock import boottime_us
from outlast.engine.tasks.wire import TaskReport, encode_report
from outlast.stores.store import TaskOutcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.authoring.step import Step
    from outlast.core.events import Event
    from outlast.engine.tasks.taking import TaskTaker
    from outlast.engine.tasks.wire import TaskDetails
    from outlast.stores.store import ClaimedTask

__all__ = ["HeldTask", "TaskRun"]


class TaskRun(msgspec.Struct, frozen=True):
    """What an attempt knows of the run it is of, which is not here."""

    id: str
    trace: str
    user: str | None


class HeldTask:
    """One task, from its claim to the store's answer to its outcome."""

    end = None
    """Of its run nothing is known here."""
    ends = None

    __slots__ = (
        "alarm", "attempt", "call", "context", "is_dropped", "is_over", "is_stopped", "key", "lease_until_us",
        "lease_us", "progress", "running", "started", "steps", "taker", "uid", "worker_id",
    )  # fmt: skip

    def __init__(
        self, taker: TaskTaker, worker_id: str, claimed: ClaimedTask, details: TaskDetails, step: Step[..., Any]
    ) -> None:
        self.taker = taker
        self.worker_id = worker_id
        """The incarnation of the worker that claimed it."""
        self.uid = claimed.run
        self.key = claimed.key
        self.attempt = claimed.attempt
        self.started = TaskRun(details.id, details.trace, details.user)
        self.steps = {claimed.key: OpenStep(claimed.attempt, claimed.attempt - details.used)}
        self.running: set[str] = set()
        self.context = contextvars.Context()
        """Empty: what the body has set does not leave its process."""
        self.call = _TaskCall(step, claimed.arguments, details, self.require_lease)
        self.lease_us = 0
        self.lease_until_us = 0
        """By this machine's boot clock."""
        self.alarm: asyncio.TimerHandle | None = None
        """Rings when the lease may be over."""
        self.progress = b""
        """What it last said of itself, for the next renewal."""
        self.is_stopped = False
        """It was told to stop, and has its lease until it has."""
        self.is_dropped = False
        """It is ours no more: nothing of it is reported."""
        self.is_over = False
        """It has ended, and its outcome is on its way."""

    @property
    def lease(self) -> tuple[str, str, int, bytes]:
        """As `Store.renew_tasks` takes it."""
        return self.uid, self.key, self.attempt, self.progress

    def require_lease(self) -> None:
        """Called just before user code is entered, in the loop or in a thread (PROTOCOL F6)."""
        if boottime_us() >= self.lease_until_us:
            self.is_dropped = True
            self.taker.lost(self)
            raise asyncio.CancelledError

    # --- what the stepper asks of what its attempts are for -----------------------------------------------------------

    def now_us(self) -> int:
        """The store's time, as far as known."""
        return self.taker.now_us()

    def take(self, event: Event) -> None:
        """It said something of itself, or has ended."""
        if isinstance(event, StepProgressed):
            self.progress = bytes(event.progress)
            self.taker.progressed(self)
        elif isinstance(event, StepSucceeded):
            self._report(TaskReport(self.worker_id, event.began_at, event.at, event.value))
        elif isinstance(event, StepFailed):
            is_retryable = event.retry_at is not None
            self._report(
                TaskReport(self.worker_id, event.began_at, event.at, error=event.error, is_retryable=is_retryable)
            )

    def _report(self, report: TaskReport) -> None:
        # CRASH: the step has run and nobody knows. Its lease lapses, its run is told that it is lost, and the next
        # attempt runs under the same invocation id. [test_killed_at[task-without-outcome]]
        self.is_over = True
        self.taker.ended(self, TaskOutcome(self.uid, self.key, self.attempt, encode_report(report)))


class _TaskCall(CompensatingCall):
    """The call of the step, as far as its task tells; who made it is elsewhere."""

    __slots__ = ("_require_lease",)

    def __init__(
        self, step: Step[..., Any], arguments: bytes, details: TaskDetails, require_lease: Callable[[], None]
    ) -> None:
        settings = replace(
            step.settings,
            policy=replace(step.settings.policy, retries=details.retries),
            timeout_us=details.timeout_us,
            heartbeat_timeout_us=details.heartbeat_timeout_us,
            executor=details.executor,
        )
        super().__init__(details.compensates, step.function, step.name, settings, arguments, frozenset())
        self._require_lease = require_lease

    def invoke(self) -> Any:
        self._require_lease()
        return super().invoke()

    def remote(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        self._require_lease()
        return super().remote()
