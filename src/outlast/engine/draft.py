"""The entry at hand: what happened, what the body asked for in answer, what is to be done about it. Layer: engine.

What always holds: a place is reserved for each attempt the entry starts, and given back if the entry does not land; a
step that was started and given up in one entry never runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from outlast.core.events import (
    AttemptStarted,
    Command,
    Event,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunSuspended,
    SleepCancelled,
    SleepStarted,
    StepCancelled,
    StepStarted,
    StepSucceeded,
)
from outlast.core.states import RunStatus
from outlast.stores.store import Effects, NewRun, Release, RowChange

if TYPE_CHECKING:
    from outlast.core.calls import PendingStep
    from outlast.core.machine import Machine
    from outlast.engine.hot import HotRun

__all__ = ["Draft"]

ENDS: dict[type, RunStatus] = {
    RunCompleted: RunStatus.COMPLETED,
    RunFailed: RunStatus.FAILED,
    RunCancelled: RunStatus.CANCELLED,
}


QUIET = frozenset({StepStarted, StepSucceeded})
"""What an entry may end with and change nothing of its run's row."""


class Draft:
    """An entry until the store has answered."""

    __slots__ = ("at", "cancels", "end", "events", "is_released", "is_resumed", "mark", "new", "places", "starts")

    def __init__(self) -> None:
        self.at = 0
        """Time of the latest stimulus in it; 0: there is none."""
        self.events: list[Event] = []
        self.starts: list[tuple[PendingStep, int]] = []
        """Attempts to begin: each has its place."""
        self.cancels: list[str] = []
        """Steps the body gave up: tell their attempts to stop."""
        self.places: list[str] = []
        """Steps that wait for a place."""
        self.mark = 0
        self.end: Command | None = None
        self.new: NewRun | None = None
        self.is_resumed = False
        self.is_released = False

    # --- what goes in -------------------------------------------------------------------------------------------------

    def absorb(self, run: HotRun, machine: Machine, commands: list[Command]) -> None:
        """Take what the body asked for."""
        for command in commands:
            if type(command) is StepStarted:
                self.events.append(self._place(run, machine, command))
                continue
            if type(command) is StepCancelled:
                self._give_up(run, command.key)
            elif type(command) is SleepCancelled:
                run.sleeps.pop(command.timer, None)
            elif type(command) is SleepStarted:
                run.sleeps[command.timer] = command.until
            self.events.append(command)

    def _place(self, run: HotRun, machine: Machine, command: StepStarted) -> StepStarted:
        """The first attempt starts with this entry if there is a place for it, else it waits in line."""
        key = command.key
        attempt = base = run.steps.base_of(key)
        pending = machine.pending.get(key)
        if pending is None:  # given up in the same breath: it never runs
            pass
        elif run.home.stepper.reserve():
            attempt = base + 1
            self.starts.append((pending, attempt))
        else:
            self.places.append(key)
        run.steps.start(key, attempt)
        return command if attempt == command.attempt else msgspec.structs.replace(command, attempt=attempt)

    def _give_up(self, run: HotRun, key: str) -> None:
        run.steps.pop(key, None)
        for position, (pending, _) in enumerate(self.starts):
            if pending.key == key:
                del self.starts[position]
                run.home.stepper.release()
                self._unstart(run, key)
                return
        self.cancels.append(key)

    def _unstart(self, run: HotRun, key: str) -> None:
        """The attempt that this entry would have begun is not on record: it never runs."""
        for position, event in enumerate(self.events):
            if type(event) is StepStarted and event.key == key:
                self.events[position] = msgspec.structs.replace(event, attempt=run.steps.base_of(key))
            elif type(event) is AttemptStarted and event.key == key:
                del self.events[position]
                return

    def begin_attempt(self, run: HotRun, machine: Machine, event: AttemptStarted) -> None:
        """A place is held for the next attempt of a step. The body may have given the step up meanwhile."""
        step = run.steps.get(event.key)
        pending = machine.pending.get(event.key)
        if step is None or step.is_begun or pending is None:
            run.home.stepper.release()
            return
        step.attempt, step.retry_at, step.is_waiting = event.attempt, None, False
        self.starts.append((pending, event.attempt))
        self.events.append(event)

    # --- what it does to the row --------------------------------------------------------------------------------------

    def effects(self, run: HotRun) -> Effects | None:
        """What the commit does beside the entry; most entries do nothing."""
        if type(self.events[-1] if self.events else None) in QUIET and not (
            run.recoveries or run.consumed or self.is_resumed or self.new is not None
        ):
            return None  # the hot path: a step's outcome, and the next one's start
        row = self._row(run)
        if row is None and self.new is None and not run.consumed:
            return None
        consumed = tuple(run.consumed)
        run.consumed.clear()
        return Effects(start=self.new, consumed=consumed, row=row)

    def _row(self, run: HotRun) -> RowChange | None:
        last = self.events[-1] if self.events else None
        status = ENDS.get(type(last))
        if status is not None:
            self.end = cast(Command, last)
            self.drop(run)
            return RowChange(status=status, waiting_on="", ended=True, error=_summary(last))
        if type(last) is RunSuspended:
            self.is_released = not (run.running or self.starts)
            release = Release(run.epoch, run.seen) if self.is_released else None
            return RowChange(status=RunStatus.SUSPENDED, waiting_on=run.suspended_on, release=release)
        if self.is_resumed:
            run.recoveries = 0
            return RowChange(status=RunStatus.RUNNING, waiting_on="", recovered=True)
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
        for key in self.cancels:
            stepper.cancel(run, key)
        for pending, attempt in self.starts:
            run.running.add(pending.key)
            stepper.run(run, pending, attempt)
        for key in self.places:
            stepper.stand_in_line(run, key)

    def drop(self, run: HotRun) -> None:
        """It has not landed, or the run is not ours any more: give the places back."""
        for _ in self.starts:
            run.home.stepper.release()
        self.starts.clear()
        self.places.clear()


def _summary(end: Event | None) -> bytes | None:
    """What the row shows of an error; the journal has all of it."""
    if not isinstance(end, RunFailed):
        return None
    return msgspec.json.encode({"type": end.error.type, "message": end.error.message[:500]})
