"""The entry at hand: what happened, what the body asked for in answer, what is to be done about it. Layer: engine.

What always holds: a place is reserved for each attempt the entry starts, and given back if the entry does not land; a
step that was started and given up in one entry never runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from outlast.core.events import (
    ELSEWHERE,
    AttemptStarted,
    ChildCancelled,
    ChildSignalled,
    Command,
    DecisionJudged,
    Event,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunOutcome,
    RunReopened,
    RunSuspended,
    SignalRefused,
    SignalTaken,
    SleepCancelled,
    SleepStarted,
    StepCancelled,
    StepFailed,
    StepStarted,
    StepSucceeded,
    UnwindStarted,
    WaitCancelled,
    WaitStarted,
)
from outlast.core.lineage.children import STATUS_OF
from outlast.core.lineage.rounds import NEXT_KEY
from outlast.core.reopening import UNWIND
from outlast.core.states import RunStatus
from outlast.engine.books import is_gated
from outlast.engine.mail import CANCEL, cancel_payload, give_back
from outlast.engine.messages import children
from outlast.engine.messages.ended import look_for_ended_children
from outlast.engine.messages.rounds import start_round
from outlast.engine.messages.waits import WaitChanges
from outlast.engine.tasks.wire import new_task, queue_of
from outlast.stores.store import Effects, NewRun, NewTask, Progress, Release, RowChange, Send

if TYPE_CHECKING:
    from outlast.core.calls import PendingStep
    from outlast.core.machine import Machine
    from outlast.engine.hot import HotRun

__all__ = ["Draft"]

OF_WAITS = frozenset({WaitStarted, WaitCancelled, SignalTaken, SignalRefused, DecisionJudged})
QUIET = frozenset({StepStarted, StepSucceeded})
"""What an entry may end with and change nothing of its run's row."""


class Draft:
    """An entry until the store has answered."""

    __slots__ = (
        "at", "cancels", "children", "end", "events", "is_loud", "is_released", "is_resumed", "is_undoable", "mark",
        "new", "places", "sends", "starts", "status", "stops", "tasks", "waits",
    )  # fmt: skip

    def __init__(self) -> None:
        self.at = 0
        """Time of the latest stimulus in it; 0: there is none, or it came as a message, maybe long ago."""
        self.events: list[Event] = []
        self.starts: list[tuple[PendingStep, int]] = []
        """Attempts to begin: each has its place."""
        self.cancels: list[str] = []
        """Steps the body gave up: tell their attempts to stop."""
        self.places: list[str] = []
        """Steps that wait for a place."""
        self.mark = 0
        self.end: RunOutcome | None = None
        self.new: NewRun | None = None
        self.children: list[Progress] = []
        """Starts of child runs."""
        self.sends: list[Send] = []
        self.tasks: dict[str, NewTask] = {}
        """Attempts to queue, by key."""
        self.stops: list[str] = []
        """Queued steps the body gave up."""
        self.waits: WaitChanges | None = None
        """What becomes of waits; None: nothing does."""
        self.status: RunStatus | None = None
        """What the run is from this entry on, if that changes and it does not end."""
        self.is_undoable = False
        """It ends completed, and has done what can be undone."""
        self.is_loud = False
        """It has effects beside its events, whatever the last of them is."""
        self.is_resumed = False
        self.is_released = False

    # --- what goes in -------------------------------------------------------------------------------------------------

    def absorb(self, run: HotRun, machine: Machine, commands: list[Command]) -> None:
        """Take what the body asked for."""
        for command in commands:
            if type(command) is StepStarted:
                start = self._start_run if command.kind in ELSEWHERE else self._place
                self.events.append(start(run, machine, command))
                continue
            if type(command) is StepCancelled:
                self._give_up(run, command, machine.cancel_reason)
            elif type(command) is SleepCancelled:
                run.sleeps.pop(command.timer, None)
            elif type(command) is SleepStarted:
                run.sleeps[command.timer] = command.until
            elif type(command) is ChildCancelled:
                self._cancel_child(run, command.key, command.reason)
            elif type(command) is ChildSignalled:
                self._tell(children.signal_child(run, command))
            elif type(command) is UnwindStarted:
                self.status, self.is_loud = RunStatus.COMPENSATING, True
            elif type(command) in OF_WAITS:
                self.note_wait(run, command)
            elif type(command) is RunCompleted:
                self.events.append(self._complete(run, machine, command))
                continue
            self.events.append(command)

    def _complete(self, run: HotRun, machine: Machine, command: RunCompleted) -> RunOutcome:
        """It is over, or goes on as a next round: unless its id went to another run, after which it was retried."""
        self.is_undoable = bool(machine.undoables)
        if command.next:
            refusal = run.home.refusals.get((run.uid, NEXT_KEY))
            if refusal is not None:
                return RunFailed(refusal)
            self.children.append(start_round(run, machine, command.next))
        return command

    def _place(self, run: HotRun, machine: Machine, command: StepStarted) -> StepStarted:
        """The first attempt starts with this entry if there is a place for it, else it waits in line."""
        key = command.key
        steps = run.steps
        attempt = base = steps.base_of(key) if steps.highest else 0
        pending = machine.pending.get(key)
        if pending is None:  # given up in the same breath: it never runs
            pass
        elif queue := queue_of(pending):
            run.steps.start(key, base + 1, is_elsewhere=True, queue=queue)
            self._queue(run, pending, base + 1, queue)
            return msgspec.structs.replace(command, attempt=base + 1, queue=queue)
        elif run.home.stepper.reserve():
            attempt = base + 1
            self.starts.append((pending, attempt))
        else:
            self.places.append(key)
        steps.start(key, attempt)
        return command if attempt == command.attempt else msgspec.structs.replace(command, attempt=attempt)

    def _queue(self, run: HotRun, pending: PendingStep, attempt: int, queue: str) -> None:
        """The attempt is a task: whoever serves the queue carries it out, and no place is needed here."""
        self.tasks[pending.key] = new_task(run, pending, attempt, queue)
        self.is_loud = True

    def _start_run(self, run: HotRun, machine: Machine, command: StepStarted) -> StepStarted:
        """The step is a run of its own: it starts, or is told to undo itself, with this entry."""
        key = command.key
        attempt = base = run.steps.base_of(key)
        pending = machine.pending.get(key)
        if pending is not None:  # else given up in the same breath: it never starts
            attempt = base + 1
            self.begin_run(run, pending, attempt)
        run.steps.start(key, attempt, kind=command.kind, is_elsewhere=True)
        return command if attempt == command.attempt else msgspec.structs.replace(command, attempt=attempt)

    def begin_run(self, run: HotRun, pending: PendingStep, attempt: int) -> None:
        """Start the child, unless it is there; from the second time on, let one that failed go on."""
        refusal = run.home.refusals.get((run.uid, pending.key))
        if refusal is not None:
            run.queue.append(StepFailed(run.now_us(), pending.key, attempt, refusal))
            return
        if pending.call.kind == "child":
            self.children.append(children.start_child(run, pending))
            self.is_loud = True
        if attempt > 1 or pending.call.compensates:
            for send in children.reopen_child(run, pending, attempt):
                self._tell(send)

    def _cancel_child(self, run: HotRun, key: str, reason: str) -> None:
        self._tell(children.cancel_child(run, key, CANCEL, cancel_payload(reason)))

    def _tell(self, send: Send) -> None:
        self.sends.append(send)
        self.is_loud = True

    def _give_up(self, run: HotRun, command: StepCancelled, reason: str | None) -> None:
        key = command.key
        step = run.steps.get(key)
        if step is not None and step.kind in ELSEWHERE:
            if not command.is_left:
                self._give_child_up(run, key, reason)
            run.steps.give_up(key, is_left=command.is_left)
            return
        run.steps.give_up(key)
        if step is not None and step.queue:
            if self.tasks.pop(key, None) is None:
                self.stops.append(key)
                self.is_loud = True
                return
            run.steps.unsettled.pop(key, None)
            self._unstart(run, key)
            return
        for position, (pending, _) in enumerate(self.starts):
            if pending.key == key:
                del self.starts[position]
                run.home.stepper.release()
                run.steps.unsettled.pop(key, None)
                self._unstart(run, key)
                return
        self.cancels.append(key)

    def _give_child_up(self, run: HotRun, key: str, reason: str | None) -> None:
        """Ask it to stop. One that this entry starts starts all the same, and finds that in its inbox."""
        self._cancel_child(run, key, reason or "its parent gave it up")

    def _unstart(self, run: HotRun, key: str) -> None:
        """The attempt that this entry would have begun is not on record: it never runs."""
        for position, event in enumerate(self.events):
            if type(event) is StepStarted and event.key == key:
                self.events[position] = msgspec.structs.replace(event, attempt=run.steps.base_of(key), queue="")
            elif type(event) is AttemptStarted and event.key == key:
                del self.events[position]
                return

    def begin_attempt(self, run: HotRun, machine: Machine, event: AttemptStarted) -> None:
        """A place is held for the next attempt of a step. The body may have given the step up meanwhile."""
        step = run.steps.get(event.key)
        pending = machine.pending.get(event.key)
        if step is None or step.is_begun or pending is None:
            if not event.queue:
                run.home.stepper.release()
            return
        step.attempt, step.retry_at, step.is_waiting = event.attempt, None, False
        if event.queue:
            self._queue(run, pending, event.attempt, event.queue)
        else:
            self.starts.append((pending, event.attempt))
        self.events.append(event)

    def note_wait(self, run: HotRun, event: Event) -> None:
        """An event that may open or end a wait."""
        changes = self.waits = self.waits or WaitChanges()
        changes.note(run, event)
        self.is_loud = self.is_loud or bool(changes.opened or changes.closed)

    def reopen(self, reopened: RunReopened) -> None:
        """A run that had ended goes on with this entry."""
        self.events.append(reopened)
        self.status = RunStatus.COMPENSATING if reopened.kind == UNWIND else RunStatus.RUNNING
        self.is_loud = True

    def reopen_waits(self, run: HotRun) -> None:
        """Its rows of waits went when it ended."""
        self.waits = WaitChanges()
        self.waits.reopen(run)

    # --- what it does to the row --------------------------------------------------------------------------------------

    def effects(self, run: HotRun) -> Effects | None:
        """What the commit does beside the entry; most entries do nothing."""
        if type(self.events[-1] if self.events else None) in QUIET and not (
            run.recoveries
            or run.consumed
            or self.is_resumed
            or self.new is not None
            or self.is_loud
            or run.is_shown_gated
        ):
            return None  # the hot path: a step's outcome, and the next one's start
        row = self._row(run)
        if row is None and self.new is None and not (run.consumed or self.is_loud):
            return None
        goes_on = isinstance(self.end, RunCompleted) and self.end.next
        if self.end is not None and not goes_on and run.started is not None and run.started.parent:
            self._tell(children.tell_parent(run, self.end, undoable=self.is_undoable))
        consumed = tuple(run.consumed)
        run.consumed.clear()
        return Effects(
            start=self.new,
            consumed=consumed,
            sends=tuple(self.sends),
            children=tuple(self.children),
            tasks=tuple(self.tasks.values()),
            stopped=tuple(self.stops),
            stop_tasks=self.status is RunStatus.COMPENSATING,
            waits_opened=tuple(self.waits.opened.values()) if self.waits else (),
            waits_closed=tuple(self.waits.closed) if self.waits else (),
            row=row,
        )

    def _row(self, run: HotRun) -> RowChange | None:
        last = self.events[-1] if self.events else None
        status = STATUS_OF.get(type(last))
        if status is not None:
            self.end = cast(RunOutcome, last)
            self.drop(run)
            if status is not RunStatus.COMPLETED:  # a next round has it
                give_back(run)
            error = _summary(self.end, hides=run.home.payloads.hides)
            return RowChange(status=status, waiting_on="", ended=True, error=error, recovered=run.recoveries > 0)
        if type(last) is RunSuspended:
            self.is_released = not (run.running or self.starts)
            run.is_shown_gated = False
            release = Release(run.epoch, run.seen, run.alarm.deadline_us) if self.is_released else None
            return RowChange(
                status=RunStatus.SUSPENDED, waiting_on=run.suspended_on, release=release, unfit=run.unfit or None,
                reopened=isinstance(self.events[0], RunReopened),
            )  # fmt: skip
        if isinstance(self.events[0] if self.events else None, RunReopened):
            run.recoveries = 0
            return RowChange(status=self.status, waiting_on="", error=b"", reopened=True, recovered=True)
        has_left_gate = run.is_shown_gated and not (run.is_aside or is_gated(run))
        if self.is_resumed or self.status is not None or has_left_gate:
            run.recoveries, run.is_shown_gated = 0, False
            status = self.status or (RunStatus.COMPENSATING if run.is_unwinding else RunStatus.RUNNING)
            return RowChange(status=status, waiting_on="", recovered=True)
        if run.recoveries and run.has_progressed:
            run.recoveries = 0
            return RowChange(recovered=True)
        return None

    # --- once the store has answered ----------------------------------------------------------------------------------

    def act(self, run: HotRun) -> None:
        """It has landed: carry out what it says."""
        # CRASH: the attempts are on record and none has begun. The taker counts them as lost, and starts the next ones.
        # [test_killed_at[told-and-not-acted]]
        stepper = run.home.stepper
        if self.children and run.is_retried:
            look_for_ended_children(run)
        for key in self.cancels:
            stepper.cancel(run, key)
        for pending, attempt in self.starts:
            run.running.add(pending.key)
            stepper.run(run, pending, attempt)
        for key in self.places:
            stepper.stand_in_line(run, key)
        if self.tasks:
            run.home.tasks.queued(self.tasks.values())
        if self.stops:
            run.home.tasks.given_up(run, self.stops)
        if self.waits is not None and self.waits.judged:
            self.waits.tell_audit(run)

    def drop(self, run: HotRun) -> None:
        """It has not landed, or the run is not ours any more: give the places back."""
        for _ in self.starts:
            run.home.stepper.release()
        self.starts.clear()
        self.places.clear()


def _summary(end: RunOutcome, *, hides: bool) -> bytes | None:
    """What the row shows of an error; the journal has all of it. With encryption it does not say the message."""
    if isinstance(end, RunCompleted | RunCancelled) or end.error is None:
        return None
    if hides:
        return msgspec.json.encode({"type": end.error.type, "message": "(encrypted)"})
    return msgspec.json.encode({"type": end.error.type, "message": end.error.message[:500]})
