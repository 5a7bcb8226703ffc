"""Thinking before the commit: what has arrived is fed to the body, and what it asks for is drafted. Layer: engine.

What always holds: stimuli are fed one at a time, in the order in which they arrived, each recorded before the commands
it led to; a body that spins, blocks, waits for nothing or leaves its journal sets its own run aside and hurts no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.core.events import (
    AttemptStarted,
    CancelRequested,
    DecisionMade,
    GateOpened,
    SignalReceived,
    StepFailed,
    StepSettled,
    StepsSettled,
    StepSucceeded,
    TimerFired,
)
from outlast.engine import books
from outlast.engine.mail import ask
from outlast.engine.tasks import outcomes
from outlast.engine.tasks.outcomes import Arrival
from outlast.errors import BodyStopped, NonDeterminism, VersionConflict

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.core.events import Event, Stimulus
    from outlast.core.loop import BodyTimer
    from outlast.core.machine import Machine
    from outlast.engine.draft import Draft
    from outlast.engine.hot import HotRun

__all__ = ["begin", "record", "think"]

SETTLE_WITHIN_US = 30_000_000
"""How long an unwind waits for a step that the body gave up and that has no timeout of its own (LOOP §4)."""
STUCK = (
    "The body waits for what cannot come: no step, timer or answer of its own is under way. Let it await one of these, "
    "then resume the run."
)
MAIL = (SignalReceived, DecisionMade, GateOpened)


def begin(run: HotRun, draft: Draft) -> None:
    """Start the body, and draft its first commands."""
    _guard(run, draft, _begin)


def think(run: HotRun, draft: Draft) -> None:
    """Feed the body what has arrived or is due, and draft what came of it; without a body, record what arrived."""
    if run.machine is None:
        record(run, draft)
    else:
        _guard(run, draft, _feed_all)


def record(run: HotRun, draft: Draft) -> None:
    """Set aside: what arrived is recorded, and moves nothing. The next replay feeds it."""
    while run.queue:
        event = run.queue.popleft()
        if isinstance(event, Arrival):
            continue  # its message stays in the inbox: only a body's call says whether another attempt follows
        if isinstance(event, AttemptStarted):
            if not event.queue:
                run.home.stepper.release()
            continue
        if isinstance(event, StepSucceeded | StepFailed):
            if not _settles(run, event):
                event = _settled(run, event)
            elif isinstance(event, StepFailed) and event.retry_at is not None:
                run.steps[event.key].retry_at = event.retry_at
            else:
                del run.steps[event.key]
        elif isinstance(event, MAIL):
            draft.note_wait(run, event)
        draft.events.append(event)


def _guard(run: HotRun, draft: Draft, move: Callable[[HotRun, Draft, Machine], None]) -> None:
    """What stops a body suspends its run (SPEC P6): the stimulus at hand is recorded, no command of that drain is."""
    machine = run.machine
    assert machine is not None
    try:
        move(run, draft, machine)
        if machine.missing is not None or (machine.outcome is None and not run.steps):
            _note_standstill(run, draft, machine)
    except (NonDeterminism, BodyStopped) as error:
        run.suspend(draft, error.code, str(error))
    except (KeyboardInterrupt, MemoryError):
        draft.drop(run)
        run.home.abandon(run)
        raise


def _begin(run: HotRun, draft: Draft, machine: Machine) -> None:
    watchdog = run.home.watchdog
    watchdog.drain_began(run.uid, machine.loop)
    try:
        commands = machine.begin()
    finally:
        watchdog.drain_ended()
    draft.absorb(run, machine, commands)
    if machine.is_settling:  # it failed at once, and gave up what it had not begun: no outcome will come to feed it
        _feed_all(run, draft, machine)


def _feed_all(run: HotRun, draft: Draft, machine: Machine) -> None:
    """The hot path: all a step costs between its outcome and its entry goes through here."""
    queue, steps, alarm = run.queue, run.steps, run.alarm
    while machine.outcome is None and machine.missing is None and machine.halted is None:
        if queue:
            event = queue.popleft()
            if type(event) is StepSucceeded:
                _feed_succeeded(run, draft, machine, event)
            elif isinstance(event, MAIL) and (timer := _find_due_before(machine, event)) is not None:
                queue.appendleft(event)  # first: should the timer end this round, the event is for the next
                _fire(run, draft, machine, timer, run.now_us())
            else:
                _feed(run, draft, machine, event)
            continue
        if machine.is_settling:
            if not steps.unsettled:
                _move(run, draft, machine, StepsSettled(run.now_us()))
                continue
            run.expect_settled(machine.longest_given_up_us(SETTLE_WITHIN_US))
        due = alarm.next_due_us(machine)
        if due is None or due > (now := run.now_us()):
            return
        if due == alarm.deadline_us:
            queue.append(books.cancel_at_deadline(run))
            continue
        timer = machine.next_timer()
        if timer is None or timer.due_us > now:
            run.want_place(alarm.take_retry())
        elif run.waits.ends_with(timer.ordinal) and run.reading.until_us < timer.due_us:
            ask(run)  # what came before the deadline counts, and may not have been read
            return
        else:
            _fire(run, draft, machine, timer, now)


def _fire(run: HotRun, draft: Draft, machine: Machine, timer: BodyTimer, now: int) -> None:
    run.sleeps.pop(timer.ordinal, None)
    _move(run, draft, machine, TimerFired(max(now, timer.due_us), timer.ordinal, timer.due_us))


def _find_due_before(machine: Machine, event: SignalReceived | DecisionMade | GateOpened) -> BodyTimer | None:
    """The first timer, if it was due when the message came: it comes first, however late both are (PROTOCOL F22)."""
    timer = machine.next_timer()
    return None if timer is None or timer.due_us > event.sent_at else timer


def _feed_succeeded(run: HotRun, draft: Draft, machine: Machine, event: StepSucceeded) -> None:
    step = run.steps.get(event.key)
    if step is not None and step.attempt == event.attempt:
        del run.steps[event.key]
        _move(run, draft, machine, event)
    else:
        _feed_settled(run, draft, machine, event)


def _feed(run: HotRun, draft: Draft, machine: Machine, event: Event | Arrival) -> None:
    """One thing that arrived, other than the success of a step that executed here."""
    if type(event) is StepFailed:
        _feed_failed(run, draft, machine, event)
    elif isinstance(event, Arrival):
        _feed_arrival(run, draft, machine, event)
    elif type(event) is AttemptStarted:
        draft.begin_attempt(run, machine, event)
    elif isinstance(event, CancelRequested | SignalReceived | DecisionMade | GateOpened):
        _move(run, draft, machine, event)
    else:
        draft.events.append(event)


def _feed_arrival(run: HotRun, draft: Draft, machine: Machine, arrival: Arrival) -> None:
    """What a queued attempt came to: as if it had executed here, but that its message leaves the inbox."""
    run.consumed[arrival.no] = arrival.id
    event = outcomes.judge(run, machine, arrival)
    if isinstance(event, StepSucceeded):
        _feed_succeeded(run, draft, machine, event)
    elif isinstance(event, StepFailed):
        _feed_failed(run, draft, machine, event)
    else:
        books.lose_queued(run, machine, draft, event)


def _feed_failed(run: HotRun, draft: Draft, machine: Machine, event: StepFailed) -> None:
    if not _settles(run, event):
        _feed_settled(run, draft, machine, event)
    elif event.retry_at is None:
        del run.steps[event.key]
        _move(run, draft, machine, event)
    else:
        draft.events.append(event)
        run.has_progressed = True
        run.retry_later(event.key, event.retry_at)


def _feed_settled(run: HotRun, draft: Draft, machine: Machine, event: StepSucceeded | StepFailed) -> None:
    """How an attempt ended that the body had given up; unless the unwind did not wait for it, and that is on record."""
    if event.message or event.key in run.steps.unsettled:
        _move(run, draft, machine, _settled(run, event))
    else:
        books.warn_dropped(run, (event,))


def _move(run: HotRun, draft: Draft, machine: Machine, stimulus: Stimulus) -> None:
    draft.events.append(stimulus)
    run.has_progressed = True
    if stimulus.at > run.last_at:
        run.last_at = stimulus.at
    # What a message told of may have been long before: the entry is written, and what it starts begins, now.
    draft.at = 0 if getattr(stimulus, "message", "") else run.last_at
    if run.waits or type(stimulus) is DecisionMade:
        draft.note_wait(run, stimulus)
    watchdog = run.home.watchdog
    watchdog.drain_began(run.uid, machine.loop)
    try:
        commands = machine.feed(stimulus)
    finally:
        watchdog.drain_ended()
    if commands:
        draft.absorb(run, machine, commands)


def _note_standstill(run: HotRun, draft: Draft, machine: Machine) -> None:
    """The body asked for what nobody here knows, or waits for what cannot come."""
    if machine.missing is not None:
        run.home.lacks_function(run, draft, machine.missing)
    elif machine.halted is not None:
        run.unfit = run.home.deploy
        run.suspend(
            draft, VersionConflict.code, f"The stored plan of this run cannot be carried out: {machine.halted}."
        )
    elif not run.steps and not run.queue and machine.is_stuck:
        run.suspend(draft, "DEADLOCK", STUCK, machine.loop.task_stacks())


def _settles(run: HotRun, event: StepSucceeded | StepFailed) -> bool:
    """Whether this is the outcome of the attempt the body waits for, and not of one it gave up on."""
    step = run.steps.get(event.key)
    return step is not None and step.attempt == event.attempt


def _settled(run: HotRun, event: StepSucceeded | StepFailed) -> StepSettled:
    """The outcome of an attempt that the body had given up on."""
    run.steps.unsettled.pop(event.key, None)
    if isinstance(event, StepSucceeded):
        return StepSettled(
            event.at, event.key, event.attempt, event.value,
            undoable=event.undoable, worker=event.worker, message=event.message,
        )  # fmt: skip
    return StepSettled(
        event.at, event.key, event.attempt, error=event.error, worker=event.worker, message=event.message
    )
