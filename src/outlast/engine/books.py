"""A run's books: what its journal says is open, and what of that is lost. Layer: engine.

What always holds: a fresh load folds the books from the whole journal; a reload finds them kept, for an evicted run is
still this worker's. Every attempt on record has an outcome, executes here, or is judged lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, cast

from outlast.authoring.exceptions import encode_error
from outlast.core.events import (
    ELSEWHERE,
    OUTCOMES,
    AttemptStarted,
    CancelRequested,
    DecisionMade,
    Event,
    GateOpened,
    RunReopened,
    RunResumed,
    RunStarted,
    RunSuspended,
    SignalReceived,
    SleepCancelled,
    SleepStarted,
    StepFailed,
    StepLost,
    StepSettled,
    StepSucceeded,
    TimerFired,
    UnwindStarted,
    encode_events,
    is_command,
)
from outlast.core.instants import format_instant
from outlast.core.lineage.children import find_answer_key, find_end_id
from outlast.core.reopening import UNWIND, Reopening, splice
from outlast.core.states import RunStatus
from outlast.core.view import suspension_text, waiting_text
from outlast.core.waits.book import read_waits
from outlast.engine.ids import new_mark
from outlast.engine.tasks.outcomes import Arrival
from outlast.errors import StepInterrupted, StepLeaseExpired
from outlast.stores.store import Effects, Progress, Release, RowChange
from outlast.telemetry.logs import fields, log_outcome_dropped

if TYPE_CHECKING:
    from outlast.authoring.call import Call
    from outlast.core.attempts import OpenStep
    from outlast.core.calls import PendingStep
    from outlast.core.machine import Machine
    from outlast.engine.draft import Draft
    from outlast.engine.hot import HotRun
    from outlast.errors import StoreError

__all__ = [
    "cancel_at_deadline",
    "find_cancel_of_unbegun",
    "is_gated",
    "is_too_late",
    "judge_open",
    "lose_queued",
    "open_books",
    "park",
    "settle_overdue",
    "warn_dropped",
]

DEADLINE = "deadline"
"""Stands for the id of the message by which a run's own deadline cancels it."""
ATTEMPT_EVENTS = (AttemptStarted, StepSucceeded, StepFailed, Arrival)
LOST = "run %s: step %s was given up, and lost with its worker: it counts as failed"
OVERDUE = "run %s: step %s was given up and does not end: the run is undone without waiting"
MESSAGES = frozenset(
    {
        CancelRequested, RunResumed, RunReopened, StepSucceeded, StepFailed, StepSettled, SignalReceived, DecisionMade,
        GateOpened,
    }
)  # fmt: skip
"""Events that may have come as a message, whose id must not count twice."""
OUTCOMES_OF_STEPS = frozenset({StepSucceeded, StepFailed, StepSettled})


def open_books(raw: list[Event], run: HotRun, is_reload: bool) -> Sequence[Event | Reopening]:
    """The journal as a replay is to see it; a fresh load folds the run's books from it."""
    reopened_at = max(
        (number for number, event in enumerate(raw) if type(event) is RunReopened and event.kind != UNWIND), default=0
    )
    events: Sequence[Event | Reopening] = splice(raw) if reopened_at else raw
    if is_reload:
        return events
    run.ends, run.is_unwinding, run.is_retried = 0, False, reopened_at > 0
    if run.started is not None:
        run.answer_key = find_answer_key(run.started, raw)
    steps = run.begin_books()
    steps.note_highest(raw[:reopened_at])
    sleeps = run.sleeps = {}
    run.waits = read_waits(events)
    for event in events:
        steps.apply(event)
        if type(event) is SleepStarted:
            sleeps[event.timer] = event.until
        elif type(event) is TimerFired or type(event) is SleepCancelled:
            sleeps.pop(event.timer, None)
    _note_ends(raw, run)
    run.alarm.deadline_us = _find_deadline(raw, run)
    return events


def _find_deadline(raw: Sequence[Event], run: HotRun) -> int | None:
    """When the run is to be cancelled, if it has not been told so. A retry behind its deadline has none."""
    deadline = None if run.started is None else run.started.deadline
    if deadline is None or DEADLINE in run.known:
        return None
    reopened_at = max((event.at for event in raw if type(event) is RunReopened), default=0)
    return deadline if reopened_at < deadline else None


def is_too_late(run: HotRun) -> bool:
    """Its deadline has passed, and it has not been told."""
    deadline = run.alarm.deadline_us
    return deadline is not None and deadline <= run.now_us()


def cancel_at_deadline(run: HotRun) -> CancelRequested:
    """The run has taken as long as it may."""
    deadline = run.alarm.deadline_us
    assert deadline is not None
    run.alarm.deadline_us = None
    run.known[DEADLINE] = None
    return CancelRequested(run.now_us(), DEADLINE, f"its deadline passed, {format_instant(deadline)}")


def find_cancel_of_unbegun(run: HotRun, raw: Sequence[Event]) -> CancelRequested | None:
    """What cancels a run whose body need not begin for that: its deadline has passed; or it is the next round of a run
    that was cancelled, and might go on as another before it hears of it."""
    if len(raw) == 1 and is_too_late(run):
        return cancel_at_deadline(run)
    started = run.started
    if started is None or not started.continues or any(map(is_command, raw)):
        return None
    # A body that waits for a timer of asyncio has begun, and no command says so.
    left = itertools.takewhile(lambda event: event is started or getattr(event, "at", None) == started.at, raw)
    # So of what is unread that alone counts whose run nobody else had, or which was sent before the start, as far as
    # clocks can tell.
    is_new = len(raw) == 1
    unread = (event for event in run.queue if run.epoch == 1 or (is_new and getattr(event, "at", None) == started.at))
    return next((event for event in (*left, *unread) if isinstance(event, CancelRequested)), None)


def is_gated(run: HotRun) -> bool:
    """A person must open a gate, and no step goes on beside it (SPEC R1)."""
    return run.waits.gates > 0 and not run.steps


def park(run: HotRun, due_us: int | None) -> None:
    """Give the run up as it stands, until then."""
    if run.suspended:
        run.release(due_us, RowChange(waiting_on=run.suspended_on))
        return
    status = None
    if run.is_shown_gated or run.waits.gates:
        status = RunStatus.SUSPENDED if is_gated(run) else RunStatus.RUNNING
    steps = ((step.kind, key, step.queue) for key, step in run.steps.items())
    waiting_on = waiting_text(steps, run.waits.values(), run.sleeps.values())
    run.release(due_us, RowChange(status=status, waiting_on=waiting_on))


def set_refused_aside(run: HotRun, error: StoreError) -> Progress:
    """The entry that stands in the place of one that the store will never take."""
    home = run.home
    home.log.error("run %s is suspended (%s): %s", run.name, error.code, error, extra=fields(run.started))
    reason = error.code if home.payloads.hides else str(error)[:500]
    event = RunSuspended(run.now_us(), error.code, reason)
    # As if no mail was seen: what the refused entry consumed is still there, and may be a cancel.
    row = RowChange(status=RunStatus.SUSPENDED, waiting_on=error.code, release=Release(run.epoch, -1))
    return Progress(run.uid, run.seq, event.at, new_mark(), run.mark, encode_events([event]), Effects(row=row))


def _note_ends(raw: Sequence[Event], run: HotRun) -> None:
    """What no reopening takes back: messages on record, suspensions, ends."""
    for event in raw:
        if type(event) in MESSAGES and (message := getattr(event, "message", "")):
            run.known[message] = None
            if type(event) in OUTCOMES_OF_STEPS:  # of a child that was asked for its end: its message may still come
                run.known[find_end_id(message)] = None
        elif type(event) is RunStarted:
            run.known.update(dict.fromkeys(event.known))
        if type(event) is RunSuspended:
            run.suspended, run.suspended_on = event.code, suspension_text(event.code, event.detail)
            run.missing_function = event.detail if event.code == "FUNCTION_NOT_FOUND" else ""
        elif type(event) is RunResumed:
            run.suspended = ""
        elif type(event) is RunReopened:
            run.suspended, run.is_unwinding = "", event.kind == UNWIND
        elif type(event) is UnwindStarted:
            run.is_unwinding = True
        elif type(event) in OUTCOMES:
            run.ends += 1


def judge_open(run: HotRun, machine: Machine, draft: Draft, gone: Container[tuple[str, int]] = ()) -> None:
    """Attempts on record without outcome that do not execute here are lost: another is due, or the step has failed.

    Of the queued ones, those that are `gone`: neither a task nor a message (PROTOCOL F17)."""
    here = run.running | {event.key for event in run.queue if isinstance(event, ATTEMPT_EVENTS)}
    _settle_lost(run, here, gone)
    for key, step in list(run.steps.items()):
        pending = machine.pending.get(key)
        if key in here:  # its outcome has arrived
            continue
        is_lost = step.is_begun and (not step.is_elsewhere or (key, step.attempt) in gone)
        if pending is None:  # the body gives it up in what comes next
            if is_lost:
                _settle_as_failed(run, key, step.attempt, LOST)
        elif step.kind in ELSEWHERE:
            if not step.is_begun:  # its budget began anew, with a retry of this run
                step.attempt += 1
                draft.events.append(AttemptStarted(run.now_us(), key, step.attempt))
                draft.begin_run(run, pending, step.attempt)
        elif step.retry_at is not None:
            run.retry_later(key, step.retry_at)
        elif not step.is_begun:
            run.want_place(key)
        elif is_lost:
            _lose(run, pending, step, draft)


def lose_queued(run: HotRun, machine: Machine, draft: Draft, lost: StepLost) -> None:
    """A message says that a queued attempt is lost."""
    step, pending = run.steps.get(lost.key), machine.pending.get(lost.key)
    if run.steps.unsettled.get(lost.key) == lost.attempt:
        _settle_as_failed(run, lost.key, lost.attempt, LOST)
    elif step is not None and step.is_begun and step.attempt == lost.attempt and pending is not None:
        _lose(run, pending, step, draft)


def _lose(run: HotRun, pending: PendingStep, step: OpenStep, draft: Draft) -> None:
    now = run.now_us()
    draft.events.append(StepLost(now, pending.key, step.attempt))
    step.is_waiting = True
    failure = _judge_lost(run, pending, step)
    if failure is None:
        run.want_place(pending.key)
    else:
        run.queue.append(StepFailed(now, pending.key, step.attempt, encode_error(failure)))


def _settle_lost(run: HotRun, here: Container[str], gone: Container[tuple[str, int]]) -> None:
    """Attempts that the body had given up, and that were lost: whether they had their effect, nobody knows, and nobody
    will. Children still tell, and so do tasks that are there."""
    for key, attempt in run.steps.unsettled.items():
        if key not in here and (key not in run.steps.elsewhere or (key, attempt) in gone):
            _settle_as_failed(run, key, attempt, LOST)


def settle_overdue(run: HotRun) -> None:
    """An unwind has waited long enough for attempts that the body had given up. Children are waited for."""
    here = {event.key for event in run.queue if isinstance(event, ATTEMPT_EVENTS)}  # known, and not on record yet
    for key, attempt in run.steps.unsettled.items():
        if key not in here and (key not in run.steps.elsewhere or key in run.steps.queued):
            _settle_as_failed(run, key, attempt, OVERDUE)


def _settle_as_failed(run: HotRun, key: str, attempt: int, text: str) -> None:
    run.home.log.warning(text, run.name, key, extra=fields(run.started, key, attempt))
    run.queue.append(StepFailed(run.now_us(), key, attempt, encode_error(StepInterrupted(key))))


def _judge_lost(run: HotRun, pending: PendingStep, step: OpenStep) -> Exception | None:
    """What a lost attempt means for its step; None: it gets another one."""
    call = cast("Call", pending.call)  # authoring's calls are the only ones there are
    if call.settings.at_most_once:
        return StepInterrupted(pending.key)
    extra = fields(run.started, pending.key, step.attempt)
    if step.used > call.retries:
        text = "run %s: step %s was lost with its worker, and has no attempt left"
        run.home.log.error(text, run.name, pending.key, extra=extra)
        return StepLeaseExpired(pending.key, step.used)
    text = "run %s: attempt %d of step %s was lost with its worker"
    run.home.log.warning(text, run.name, step.attempt, pending.key, extra=extra)
    return None


def warn_dropped(run: HotRun, events: Iterable[Event | Arrival]) -> None:
    """What attempts came to is known here, and will never be on record."""
    for event in events:
        if isinstance(event, StepSucceeded | StepFailed):
            log_outcome_dropped(run.home.log, run.started, event.key, event.attempt)
