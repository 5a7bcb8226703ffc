"""What became of queued attempts, as their run's owner puts it on record. Layer: engine.

What always holds: an outcome is judged with the body at hand, which has the call and its options; and its message
leaves the inbox in the entry that has its event. A run that is set aside leaves it there, for whoever loads it next.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, cast

from outlast.authoring.exceptions import encode_error, rebuild_error, settle_error
from outlast.core.events import StepFailed, StepLost, StepSucceeded
from outlast.core.retry import judge_failure
from outlast.engine.tasks.wire import TaskReport, read_report, split_outcome_id
from outlast.stores.store import LOST_MESSAGE, TASK_MESSAGE

if TYPE_CHECKING:
    from outlast.authoring.call import Call
    from outlast.core.calls import PendingStep
    from outlast.core.events import ErrorRecord
    from outlast.core.machine import Machine
    from outlast.engine.hot import HotRun
    from outlast.stores.store import Message

__all__ = ["OUTCOME_KINDS", "Arrival", "judge", "list_gone"]

OUTCOME_KINDS = frozenset({TASK_MESSAGE, LOST_MESSAGE})
"""Kinds of message that tell of an attempt's outcome."""


class Arrival:
    """A message that tells of an attempt's outcome, before it is judged."""

    __slots__ = ("at", "attempt", "id", "key", "no", "payload")

    def __init__(self, message: Message) -> None:
        self.no = message.no
        self.id = message.id
        self.key, self.attempt = split_outcome_id(message.id)
        self.at = message.sent_at
        self.payload = message.payload if message.kind == TASK_MESSAGE else None
        """None: the attempt is lost."""


def judge(run: HotRun, machine: Machine, arrival: Arrival) -> StepSucceeded | StepFailed | StepLost:
    """The event that says what became of the attempt."""
    now = max(arrival.at, run.last_at)
    if arrival.payload is None:
        return StepLost(now, arrival.key, arrival.attempt)
    report = read_report(arrival.payload)
    if report.error is None:
        return StepSucceeded(
            now, arrival.key, arrival.attempt, report.value, report.began_at, arrival.id, worker=report.worker
        )
    step, pending = run.steps.get(arrival.key), machine.pending.get(arrival.key)
    record, retry_at = settle_error(report.error), None
    if step is not None and pending is not None and step.attempt == arrival.attempt:
        delay, record = _judge_failure(run, pending, step.used, report, record)
        retry_at = None if delay is None else now + delay
    return StepFailed(
        now, arrival.key, arrival.attempt, record, report.began_at, retry_at, arrival.id, worker=report.worker
    )


def _judge_failure(
    run: HotRun, pending: PendingStep, used: int, report: TaskReport, record: ErrorRecord
) -> tuple[int | None, ErrorRecord]:
    """µs until the next attempt, or None; and what the step has failed with.

    Where the call has changed neither `retry_on` nor `give_up_on` of its step, who raised the error has asked them;
    else they are asked here, of what the record gives."""
    call = cast("Call", pending.call)
    policy = call.settings.policy
    step = run.home.registry.find_step(call.function)
    own = None if step is None else step.settings.policy
    are_own = own is not None and (own.retry_on, own.give_up_on) == (policy.retry_on, policy.give_up_on)
    error = rebuild_error(record, step=pending.key, attempts=used)
    is_wanted = report.is_retryable if are_own else None
    delay, failure = judge_failure(policy, used, error, random.random, is_wanted=is_wanted)
    return delay, record if failure is error else encode_error(failure)


async def list_gone(run: HotRun) -> list[tuple[str, int]]:
    """Queued attempts of which nothing is left but their record. A task that ended since the inbox was read has a
    message there."""
    steps = run.steps
    attempts = [(key, step.attempt) for key, step in steps.items() if step.queue and step.is_begun]
    attempts += [(key, attempt) for key, attempt in steps.unsettled.items() if key in steps.queued]
    return await run.home.store.lost_attempts(run.uid, attempts) if attempts else []
