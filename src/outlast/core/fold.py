"""From a journal to what people see of its run. Layer: core.

`fold` reads a journal as a whole, a `Fold` takes it event by event. Status, timeline and the state at an earlier moment
all come from here, so that they cannot disagree. What always holds: a fold refuses no journal, and every prefix of a
journal has a picture. An event without a time of its own happened when its entry was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Protocol

from outlast.core.events import (
    AttemptStarted,
    CancelRequested,
    DecisionJudged,
    DecisionMade,
    Event,
    GateOpened,
    MilestoneReached,
    RunCancelled,
    RunCompensated,
    RunCompensationFailed,
    RunCompleted,
    RunFailed,
    RunReopened,
    RunResumed,
    RunStarted,
    RunSuspended,
    RunTakenOver,
    SignalReceived,
    SignalTaken,
    SleepCancelled,
    SleepStarted,
    StateSet,
    StepCancelled,
    StepFailed,
    StepLost,
    StepProgressed,
    StepReused,
    StepStarted,
    StepSucceeded,
    TimerFired,
    UnwindStarted,
    WaitCancelled,
    WaitStarted,
)
from outlast.core.reopening import UNWIND, Reopening, splice
from outlast.core.states import RunStatus, StepStatus
from outlast.core.view import RunView, StepView

__all__ = ["Fold", "Journal", "Written", "fold", "time_of"]


class Written(Protocol):
    """What of an entry matters here, beside its events."""

    @property
    def at(self) -> int:
        """When it was written."""
        ...

    @property
    def writer(self) -> str:
        """Id of the worker that wrote it, or the word for a client."""
        ...


Journal = Iterable[tuple[Written, Sequence[Event]]]
"""A run's entries in order, each with its events."""


def fold(journal: Journal) -> RunView:
    """The run as its journal tells it."""
    folding = Fold()
    for entry, events in journal:
        for event in events:
            folding.apply(event, entry.at)
    return folding.picture()


def time_of(event: Event | Reopening, written_at: int) -> int:
    """When it happened; an event without a time of its own happened when its entry was written."""
    at: int = getattr(event, "at", written_at)
    return at


class Fold:
    """A view that grows with its journal. `view` is changed in place, or, by a `RunReopened`, replaced."""

    def __init__(self) -> None:
        self.view = RunView()
        self._told: list[tuple[Event, int]] = []
        """All so far: a reopening tells the story again, without what lies behind its cut."""
        self._highest: dict[str, int] = {}
        """Latest attempt of each key, dropped parts included."""
        self._bases: dict[str, int] = {}
        """The same at the latest reopening: attempts above belong to the new budget."""
        self._successes: dict[str, StepView] = {}
        """Every success ever recorded. There is one for a key at most (invariant 4)."""
        self._facts: dict[str, StepView] = {}
        """Those of them from behind the cut that the body has not asked for again."""

    def picture(self) -> RunView:
        """The view, to be read: what takes a look at all of it is settled now and not at each event."""
        self.view.settle_status()
        return self.view

    def apply(self, event: Event, at: int) -> None:
        """Take the next event of the run, from an entry that was written `at`."""
        self._told.append((event, at))
        if type(event) is StepStarted or type(event) is AttemptStarted:
            self._highest[event.key] = max(event.attempt, self._highest.get(event.key, 0))
        if type(event) is RunReopened and event.kind != UNWIND:
            self._retell()
        else:
            self._take(event, at)
        self.view.seq += 1

    def _retell(self) -> None:
        before, self.view = self.view, RunView()
        told = iter(self._told)
        for event in splice([event for event, _ in self._told]):
            at = 0 if type(event) is Reopening else next(at for one, at in told if one is event)
            self._take(event, at)
        self.view.seq, self.view.at = before.seq, max(self.view.at, before.at)
        self.view.began_at = before.began_at

    def _take(self, event: Event | Reopening, at: int) -> None:
        view, kind = self.view, type(event)
        view.at = max(view.at, time_of(event, at))
        if view.status is RunStatus.QUEUED and kind is not Reopening:
            view.status = RunStatus.RUNNING
            view.began_at = view.began_at or view.at
        take = self._TAKERS.get(kind)
        if take is not None:
            take(self, event)

    def _find_open(self, key: str) -> StepView | None:
        """The step, if it has no outcome: what comes too late for it changes nothing."""
        step = self.view.steps.get(key)
        return step if step is not None and step.is_open else None

    # --- steps --------------------------------------------------------------------------------------------------------

    def _take_step_started(self, event: StepStarted) -> None:
        step = StepView(
            event.key, event.function, event.kind, event.arguments, event.after, event.compensates, queue=event.queue
        )
        base = self._bases.get(event.key, 0)
        step.attempts = max(event.attempt, base)
        if event.attempt > base and not event.queue:
            step.status, step.began_at = StepStatus.STARTED, self.view.at
        self.view.steps[event.key] = step

    def _take_step_reused(self, event: StepReused) -> None:
        step = StepView(event.key, event.function, event.kind, event.arguments, event.after)
        fact = self._facts.pop(event.key, None)
        if fact is not None:
            step.succeed_as(fact)
        self.view.steps[event.key] = step

    def _take_attempt_started(self, event: AttemptStarted) -> None:
        step = self._find_open(event.key)
        if step is not None:
            step.status = StepStatus.PENDING if event.queue else StepStatus.STARTED
            step.attempts, step.began_at = event.attempt, None if event.queue else event.at
            step.ended_at = step.retry_at = step.progress = None

    def _take_step_succeeded(self, event: StepSucceeded) -> None:
        self.view.recoveries = 0
        step = self._end_attempt(event)
        if step is not None:
            step.status, step.value, step.error, step.retry_at = StepStatus.SUCCEEDED, event.value, None, None
            self._successes[event.key] = step
            undone = self.view.steps.get(step.compensates)
            if undone is not None:
                undone.is_undone = True

    def _take_step_failed(self, event: StepFailed) -> None:
        self.view.recoveries = 0
        step = self._end_attempt(event)
        if step is not None:
            step.status = StepStatus.FAILED if event.retry_at is None else StepStatus.RETRYING
            step.error, step.retry_at = event.error, event.retry_at

    def _end_attempt(self, event: StepSucceeded | StepFailed) -> StepView | None:
        step = self._find_open(event.key)
        if step is not None:
            step.attempts, step.ended_at = event.attempt, event.at
            step.began_at = event.began_at or step.began_at
        return step

    def _take_step_progressed(self, event: StepProgressed) -> None:
        step = self._find_open(event.key)
        if step is not None and step.attempts == event.attempt:
            step.progress = event.progress

    def _take_step_lost(self, event: StepLost) -> None:
        step = self._find_open(event.key)
        if step is not None:
            step.status, step.ended_at = StepStatus.RETRYING, event.at

    def _take_step_cancelled(self, event: StepCancelled) -> None:
        step = self._find_open(event.key)
        if step is not None:
            step.status, step.ended_at, step.retry_at = StepStatus.CANCELLED, self.view.at, None

    # --- what else a body asks for ------------------------------------------------------------------------------------

    def _take_sleep_cancelled(self, event: SleepCancelled) -> None:
        self.view.sleeps.pop(event.timer, None)

    def _take_sleep_started(self, event: SleepStarted) -> None:
        self.view.sleeps[event.timer] = event.until

    def _take_timer_fired(self, event: TimerFired) -> None:
        self._take_wait(event)
        self.view.recoveries = 0
        self.view.sleeps.pop(event.timer, None)

    def _take_wait(self, event: Event) -> None:
        self.view.waits.apply(event)

    def _take_mail(self, event: SignalReceived | DecisionMade | GateOpened) -> None:
        self.view.recoveries = 0
        self._take_wait(event)

    def _take_state_set(self, event: StateSet) -> None:
        self.view.state[event.key] = event.value

    def _take_milestone(self, event: MilestoneReached) -> None:
        self.view.milestones.append((event.name, self.view.at))

    # --- the run ------------------------------------------------------------------------------------------------------

    def _take_started(self, event: RunStarted) -> None:
        self.view.started, self.view.status = event, RunStatus.QUEUED

    def _take_taken_over(self, event: RunTakenOver) -> None:
        self.view.recoveries = event.recoveries

    def _take_suspended(self, event: RunSuspended) -> None:
        self.view.status, self.view.suspension = RunStatus.SUSPENDED, event

    def _take_resumed(self, _event: RunResumed) -> None:
        if self.view.suspension is not None:
            self.view.recoveries = 0
        self._lift_suspension()

    def _take_cancel(self, event: CancelRequested) -> None:
        """A cancel moves the body of a suspended run too: it goes on, to clean up."""
        known = self.view.cancel_reason
        self.view.cancel_reason = event.reason if known is None else f"{known}; {event.reason}"
        self._lift_suspension()

    def _lift_suspension(self) -> None:
        if self.view.suspension is not None:
            status = RunStatus.RUNNING if self.view.unwinding is None else RunStatus.COMPENSATING
            self.view.status, self.view.suspension = status, None

    def _take_completed(self, event: RunCompleted) -> None:
        self.view.output, self.view.next = None if event.next else event.output, event.next
        self._end(RunStatus.COMPLETED)

    def _take_failed(self, event: RunFailed) -> None:
        self.view.error, self.view.failed_steps = event.error, event.steps
        self._end(RunStatus.FAILED)

    def _take_cancelled(self, event: RunCancelled) -> None:
        self.view.cancel_reason, self.view.error = event.reason, event.error
        self._end(RunStatus.CANCELLED)

    def _take_unwind_started(self, event: UnwindStarted) -> None:
        view = self.view
        view.status, view.unwinding = RunStatus.COMPENSATING, event
        view.error, view.failed_steps = event.error, event.steps

    def _take_unwind(self, _event: RunReopened) -> None:
        self.view.status, self.view.finished_at = RunStatus.COMPENSATING, None

    def _take_compensated(self, _event: RunCompensated) -> None:
        self._end(RunStatus.COMPENSATED)

    def _take_compensation_failed(self, event: RunCompensationFailed) -> None:
        self.view.not_undone = event.failed
        self._end(RunStatus.COMPENSATION_FAILED)

    def _end(self, status: RunStatus) -> None:
        """A body that is cancelled by force gives its steps up without a word about each."""
        view = self.view
        view.status, view.suspension, view.finished_at, view.recoveries = status, None, view.at, 0
        view.sleeps.clear()
        view.waits.clear()
        for step in view.steps.values():
            if step.is_open:
                step.status, step.ended_at, step.retry_at = StepStatus.CANCELLED, view.at, None

    def _take_reopening(self, reopening: Reopening) -> None:
        """Facts answer the steps that the body waits for; other facts wait for the body. What is left begins anew."""
        self.view.status, self.view.suspension = RunStatus.QUEUED, None
        self.view.waits.apply(reopening)
        self._bases = dict(self._highest)
        self._facts = {key: self._successes[key] for key in reopening.facts if key in self._successes}
        for key, step in self.view.steps.items():
            if step.is_open:
                fact = self._facts.pop(key, None)
                if fact is not None:
                    step.succeed_as(fact)
                else:
                    step.begin_anew(self._bases.get(key, 0))

    _TAKERS: ClassVar[dict[type, Callable[[Fold, Any], None]]] = {
        RunStarted: _take_started,
        StepStarted: _take_step_started,
        StepReused: _take_step_reused,
        AttemptStarted: _take_attempt_started,
        StepSucceeded: _take_step_succeeded,
        StepFailed: _take_step_failed,
        StepProgressed: _take_step_progressed,
        StepLost: _take_step_lost,
        StepCancelled: _take_step_cancelled,
        SleepCancelled: _take_sleep_cancelled,
        SleepStarted: _take_sleep_started,
        TimerFired: _take_timer_fired,
        WaitStarted: _take_wait,
        WaitCancelled: _take_wait,
        SignalTaken: _take_wait,
        DecisionJudged: _take_wait,
        SignalReceived: _take_mail,
        DecisionMade: _take_mail,
        GateOpened: _take_mail,
        StateSet: _take_state_set,
        MilestoneReached: _take_milestone,
        RunTakenOver: _take_taken_over,
        RunSuspended: _take_suspended,
        RunResumed: _take_resumed,
        CancelRequested: _take_cancel,
        RunCompleted: _take_completed,
        RunFailed: _take_failed,
        RunCancelled: _take_cancelled,
        UnwindStarted: _take_unwind_started,
        RunCompensated: _take_compensated,
        RunCompensationFailed: _take_compensation_failed,
        RunReopened: _take_unwind,
        Reopening: _take_reopening,
    }
    """What moves the picture. The others (a patch, how a step ended that was given up) are for history alone. A
    `RunReopened` by `retry` does not come here: the story is told again."""
