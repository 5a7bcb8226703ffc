"""The machine: one run's body on its own loop. Feed it a stimulus, get the commands the body answers with. Layer: core.

It does no I/O, reads no clock and draws no randomness: times come with the stimuli, seeds with `RunStarted`. What
always holds: the same `RunStarted` and the same stimuli in the same order give the same commands (invariant 8). So a
body cannot know whether it runs live or again; a replay (`core.replay`) compares its commands with those on record.
Authoring calls the methods under "what a body asks for", from inside the body; the engine calls the rest.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import msgspec

from outlast.core.calls import find_failed_steps
from outlast.core.events import (
    NOTHING,
    CancelRequested,
    Command,
    DecisionMade,
    ErrorRecord,
    Event,
    GateOpened,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunOutcome,
    RunReopened,
    RunStarted,
    SignalReceived,
    StepFailed,
    StepReused,
    StepSettled,
    StepsSettled,
    StepStarted,
    StepSucceeded,
    Stimulus,
    TimerFired,
    WaitStarted,
)
from outlast.core.lineage.rounds import GoesOn, find_goes_on, next_uid
from outlast.core.loop import BodyTask, BodyTimer
from outlast.core.reopening import Reopening
from outlast.core.requests import Requests
from outlast.core.unwinding import Undoable, decide_unwound, start_unwind
from outlast.errors import NonDeterminism

if TYPE_CHECKING:
    from outlast.core.events import UnwindStarted
    from outlast.core.lineage.rounds import Heard

__all__ = ["Body", "Machine", "Unwinder", "describe"]

Body: TypeAlias = "Callable[[Machine], Coroutine[Any, Any, bytes]]"
"""Gives the coroutine of a run, which returns the output as JSON."""
Unwinder: TypeAlias = "Callable[[Machine, list[Undoable]], Coroutine[Any, Any, tuple[str, ...]]]"
"""Gives the coroutine that undoes these in their order, and returns the keys of those that it could not undo."""


class Machine(Requests):
    """The body of one run, hot. See the module's docstring."""

    __slots__ = (
        "_body", "_describe_error", "_root", "_stimulus", "_unwinder", "_unwinding", "goes_on", "is_settling",
        "outcome",
    )  # fmt: skip

    def __init__(
        self,
        started: RunStarted,
        body: Body,
        describe_error: Callable[[BaseException], ErrorRecord],
        *,
        unwinder: Unwinder | None = None,
        dev: bool = False,
    ) -> None:
        """Nothing of `body` runs before `begin`."""
        super().__init__(started, dev=dev)
        self.outcome: RunOutcome | None = None
        self.is_settling = False
        """The body is over, and what it gave up is waited for, since something is to be undone then."""
        self.goes_on: GoesOn | None = None
        """With the outcome: what the next round is to begin with."""
        self._body = body
        self._unwinder = unwinder
        self._unwinding: UnwindStarted | None = None
        self._describe_error = describe_error
        self._root: BodyTask | None = None
        self._stimulus: Stimulus | Reopening | None = None
        """The latest, for messages."""

    # --- what the engine calls ----------------------------------------------------------------------------------------

    def begin(self) -> list[Command]:
        """Start the body, and run it until it waits. Gives its first commands."""
        self.loop.advance_to(self.started.due)
        self._root = self.loop.spawn_root(self._body(self))
        return self._settle()

    def feed(self, stimulus: Stimulus) -> list[Command]:
        """Move the body by one stimulus, and run it until it waits again. Gives the commands it answers with.

        Raises `NonDeterminism` for a stimulus this body does not wait for; and what a drain lets out: `BodySpins`,
        `BodyBlocked`, `KeyboardInterrupt`, `MemoryError`. After any of them the machine is to be evicted.
        """
        self._stimulus = stimulus
        self.loop.advance_to(stimulus.at)
        if type(stimulus) is StepSucceeded:
            self._take_outcome(stimulus, stimulus.value)
        elif type(stimulus) is StepFailed:
            self._take_outcome(stimulus, stimulus.error)
        elif type(stimulus) is TimerFired:
            self._take_timer(stimulus)
        elif type(stimulus) is CancelRequested:
            self._take_cancel(stimulus)
        elif type(stimulus) is StepSettled:
            self._take_settled(stimulus)
        elif type(stimulus) is StepsSettled:
            self._given_up.clear()
            self._conclude_settled()
        elif isinstance(stimulus, SignalReceived | DecisionMade | GateOpened):
            self.waits.feed(stimulus)
        elif type(stimulus) is RunReopened:
            self._decided = self.outcome = None
            self._unwind()
        return self._settle()

    def reopen(self, reopening: Reopening) -> list[Command]:
        """Go on from where a `retry()` cut the journal: kept successes answer at once, those being waited for first."""
        self._stimulus = reopening
        self.loop.advance_to(reopening.at)
        self._facts, self._successes = dict(reopening.facts), None
        for key, fact in reopening.facts.items():
            pending = self.pending.pop(key, None)
            if pending is not None and not pending.future.done():
                del self._facts[key]
                pending.future.set_result(fact.value)
        if reopening.mail:
            self.waits.keep(reopening.mail)
        return self._settle()

    def next_timer(self) -> BodyTimer | None:
        """The body's earliest timer."""
        return self.loop.next_timer()

    def list_left(self) -> list[Heard]:
        """What came from outside and the body, which goes on as a next round, has not taken."""
        return [] if self._waits is None else [*self._waits.list_left()]

    @property
    def is_stuck(self) -> bool:
        """Nothing can ever move this body again: it waits for no step, nobody and no timer, and is not done."""
        is_waiting = self._waits is not None and self._waits.open
        is_closing = any(key in self._given_up for key in self._closing)
        is_open = self.outcome or self.pending or is_waiting or self.is_settling or is_closing
        return not is_open and self.loop.next_timer() is None

    def evict(self) -> int:
        """Drop the body without effect in the world (LOOP §3). Gives how many coroutines would not die."""
        stuck = self.loop.evict()
        self.pending.clear()
        self._facts.clear()
        self._held.clear()
        self._commands.clear()
        if self._waits is not None:
            self._waits.clear()
        self._root = None
        return stuck

    # --- stimuli ------------------------------------------------------------------------------------------------------

    def _take_outcome(self, event: StepSucceeded | StepFailed, outcome: msgspec.Raw | ErrorRecord) -> None:
        pending = self.pending.pop(event.key, None)
        if pending is None and event.key in self._given_up:
            self._take_settled(event)  # recorded while the run was set aside: nobody knew that the body gives it up
            return
        if pending is None:
            asked = f"another step; it waits for {', '.join(sorted(self.pending)) or 'no step'}"
            raise self.left_journal(f"an outcome of step {event.key!r}", asked)
        pending.attempt = event.attempt
        if pending.call.undo and type(event) is StepSucceeded and (event.undoable or pending.call.kind != "child"):
            self.undoables.add(event.key, pending.call, event.value)
        if self._closing and event.key in self._closing:
            del self._closing[event.key]
            self._held[event.key] = pending, outcome
            if not self._closing:
                self._deliver_cancel()
        elif not pending.future.done():
            pending.future.set_result(outcome)

    def _take_settled(self, event: StepSettled | StepSucceeded | StepFailed) -> None:
        call = self._given_up.pop(event.key, None)
        if call is not None and call.undo and _has_succeeded(event) and (event.undoable or call.kind != "child"):
            self.undoables.add(event.key, call, event.value)
        if self._unwinding is None and event.key in self._closing:  # given up while a cancel waited for its end
            del self._closing[event.key]
            if not self._closing:
                self._deliver_cancel()
        self._conclude_settled()

    def _conclude_settled(self) -> None:
        if self.is_settling and not self._given_up:
            self._conclude()

    def _take_timer(self, event: TimerFired) -> None:
        if not self.loop.fire_timer(event.timer):
            raise self.left_journal(f"timer {event.timer}", "no timer of that number")

    def _take_cancel(self, event: CancelRequested) -> None:
        first = self.cancel_reason is None
        self.cancel_reason = event.reason if first else f"{self.cancel_reason}; {event.reason}"
        if self._decided is not None and not (event.force and self._unwinding is None):
            if self.goes_on is not None:  # the run has not ended, only this round of it
                self.goes_on, self._decided = None, RunCancelled(self.cancel_reason)
                if self.outcome is not None:  # asked for, and not on record: the run was set aside
                    self._end(self._decided)
            return  # its end is decided, and the clean-up of what is left goes on
        if event.force:
            self._drop_body(RunCancelled(self.cancel_reason))
        elif first:
            for pending in list(self.pending.values()):
                if pending.call.kind == "child" and not pending.call.is_left:
                    self._closing[pending.key] = None
                    self.cancel_child(pending, event.reason)
            if not self._closing:
                self._deliver_cancel()

    def _deliver_cancel(self) -> None:
        """The body gets it where it waits; then it may hear how its children ended."""
        held, self._held = self._held, {}
        with self.loop.entered():
            if self.cancel_reason is not None and self._root is not None and not self._root.done():
                self._root.cancel(self.cancel_reason)
                self.loop.drain()
            for pending, outcome in held.values():
                if not pending.future.done():
                    pending.future.set_result(outcome)

    def _drop_body(self, outcome: RunOutcome) -> None:
        """The body gets no say, or is not to be trusted. What it did is undone all the same."""
        self._decided, self.goes_on, self.outcome = outcome, None, None
        for pending in list(self.pending.values()):
            self.give_up(pending)
        if self._waits is not None:
            self._waits.give_up_all()
        self._held.clear()
        self._closing.clear()
        now_us = self.loop.now_us
        self.loop.evict()
        self.loop, self._root = self._make_loop(now_us), None
        self._conclude()

    # --- running ------------------------------------------------------------------------------------------------------

    def _settle(self) -> list[Command]:
        """Drain, and when the root is done see the body to its end. Then hand over the commands."""
        while self.outcome is None and self._root is not None:
            root = self._root
            self.loop.drain()
            if root.done():
                self._finish(root)
            fatal = self.loop.foreign_call or self.loop.system_exit
            if fatal is not None and self.outcome is None:
                self._fail(fatal)
            if self._root is root:
                break  # it waits, or is over; else another has begun: the undoing of what it did
        commands, self._commands = self._commands, []
        return commands

    def _finish(self, root: BodyTask) -> None:
        """The outcome is decided when the root ends; the run ends when its other tasks have, clean-up included (P5)."""
        if self._unwinding is not None:
            failed = self._unwinding.keys if root.cancelled() or root.exception() else root.result()
            self._end(decide_unwound(self._unwinding, failed))
            return
        if self.is_settling:
            return
        if self._decided is None:
            self._decided = self._decide(root)
            self.loop.cancel_others(root)
            self.loop.drain()
        if not self.loop.live_tasks():
            self.loop.close_generators()
            self.loop.drain()
            if self.loop.live_tasks():
                return  # a generator's clean-up waits for a step
            for pending in list(self.pending.values()):
                self.give_up(pending)
            self._conclude()

    def _conclude(self) -> None:
        """The body is over. What it did is undone before the run ends; what is still in flight is waited for first."""
        assert self._decided is not None
        must_undo = type(self._decided) is not RunCompleted and (
            self.undoables
            or any(call.undo for call in self._given_up.values())
            or any(fact.undo for fact in self._facts.values())
        )
        self.is_settling = bool(must_undo and self._given_up)
        if not must_undo:
            self._end(self._decided)
        elif not self.is_settling:
            self._unwind()

    def _unwind(self) -> None:
        """Undo what was done, as a body of its own."""
        assert self._unwinder is not None
        undoables = self.undoables.in_order(self._facts)
        self._unwinding = start_unwind(self._decided, undoables)
        self._emit(self._unwinding)
        self._root = self.loop.spawn_root(self._unwinder(self, undoables))

    def _end(self, outcome: RunOutcome) -> None:
        self.outcome = outcome
        self._emit(outcome)

    def _decide(self, root: BodyTask) -> RunOutcome:
        cancelled = self.cancel_reason is not None and (root.cancelling() > 0 or bool(self._closing))
        reason = self.cancel_reason or ""
        if root.cancelled():
            if self.cancel_reason is not None:
                return RunCancelled(reason)
            message = "The body was cancelled from inside, and nobody asked for the run to be cancelled."
            return RunFailed(ErrorRecord("CancelledError", message, module="asyncio.exceptions"))
        error = root.exception()
        if isinstance(error, MemoryError):
            raise error  # of the process, not of the run: whoever takes the run over may have more
        if error is None:
            return RunCancelled(reason) if cancelled else RunCompleted(msgspec.Raw(root.result()))
        goes_on = find_goes_on(error)
        if goes_on is not None:
            if cancelled:
                return RunCancelled(reason)
            traceback.clear_frames(error.__traceback__)
            self.goes_on = GoesOn(goes_on.input, goes_on.version)  # one without a traceback, which leads back to here
            return RunCompleted(NOTHING, next_uid(self.started.uid))
        steps = tuple(find_failed_steps(error))
        record = self._describe_error(error)
        traceback.clear_frames(error.__traceback__)
        return RunCancelled(reason, record) if cancelled else RunFailed(record, steps)

    def _fail(self, error: BaseException) -> None:
        """The loop was misused from outside, or a task of the body wished to exit: it cannot be trusted to go on."""
        self._drop_body(RunFailed(self._describe_error(error)))

    def left_journal(self, recorded: str, asked: str) -> NonDeterminism:
        """The error that shows both sides, and where."""
        at = "at its beginning" if self._stimulus is None else f"after {describe(self._stimulus)}"
        return NonDeterminism(self.started.id, at, recorded, asked)


def _has_succeeded(event: StepSettled | StepSucceeded | StepFailed) -> TypeGuard[StepSettled | StepSucceeded]:
    return isinstance(event, StepSucceeded) or (isinstance(event, StepSettled) and event.error is None)


def describe(event: Event | Reopening) -> str:
    """In a few words, for messages about a body that left its journal."""
    if isinstance(event, StepStarted | StepReused):
        arguments = bytes(event.arguments).decode(errors="replace")
        shown = arguments if len(arguments) <= 300 else f"{arguments[:300]}…"
        return f"{event.kind} {event.key!r} = {event.function}({shown})"
    if isinstance(event, WaitStarted):
        return f"{event.kind} {event.name!r}, as {event.key!r}"
    fields = ", ".join(f"{name}={getattr(event, name)!r}" for name in event.__struct_fields__)
    return f"{type(event).__name__}({fields})"[:400]
