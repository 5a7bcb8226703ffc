"""The machine: one run's body on its own loop. Feed it a stimulus, get the commands the body answers with. Layer: core.

It does no I/O, reads no clock and draws no randomness: times come with the stimuli, seeds with `RunStarted`. What
always holds: the same `RunStarted` and the same stimuli in the same order give the same commands (invariant 8). So a
body cannot know whether it runs live or again; a replay (`core.replay`) compares its commands with those on record.
Authoring calls the methods under "what a body asks for", from inside the body; the engine calls the rest.
"""

from __future__ import annotations

import asyncio
import contextvars
import traceback
import uuid
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import msgspec

from outlast.core.calls import PendingStep, StepCall, find_failed_steps
from outlast.core.events import (
    OUTCOMES,
    CancelRequested,
    Command,
    ErrorRecord,
    Event,
    MilestoneReached,
    PatchApplied,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
    SleepCancelled,
    SleepStarted,
    StateSet,
    StepCancelled,
    StepFailed,
    StepReused,
    StepStarted,
    StepSucceeded,
    Stimulus,
    TimerFired,
)
from outlast.core.keys import take_key
from outlast.core.loop import BodyFuture, BodyLoop, BodyTask, BodyTimer
from outlast.core.reopening import Fact, Reopening
from outlast.errors import NonDeterminism

__all__ = ["Machine", "describe"]


class Machine:
    """The body of one run, hot. See the module's docstring."""

    def __init__(
        self,
        started: RunStarted,
        body: Callable[[Machine], Coroutine[Any, Any, bytes]],
        describe_error: Callable[[BaseException], ErrorRecord],
        *,
        dev: bool = False,
    ) -> None:
        """`body` gives the coroutine of the run; it returns the output as JSON. Nothing of it runs before `begin`."""
        self.started = started
        self.loop = BodyLoop(start_us=started.at, dev=dev)
        self.loop.machine = self
        self.loop.run_id = started.id
        self.pending: dict[str, PendingStep] = {}
        self.state: dict[str, bytes] = {}
        self.outcome: Command | None = None
        self.missing: str | None = None
        """Name of a function the body asked for that nobody here knows. Commands after it are not to be trusted."""
        self.cancel_reason: str | None = None
        self._body = body
        self._describe_error = describe_error
        self._root: BodyTask | None = None
        self._commands: list[Command] = []
        self.is_replaying = False
        """The body goes over what is on record: logs are quiet. Set by `core.replay`."""
        self.recorded_patches: frozenset[str] = frozenset()
        self.is_last = False
        """On a replay: this is the last stimulus on record, and the body may ask for more than is there."""
        self.expected = 0
        """On a replay: how many commands on record the stimulus at hand was answered with."""
        self.replayed_calls: dict[str, StepCall] = {}
        """On a replay: the calls of the commands handed over, by key, for comparison."""
        self._stimulus: Stimulus | Reopening | None = None
        """The latest, for messages."""
        self._names: dict[str, int] = {}
        self._last_key: str | None = None
        self._facts: dict[str, Fact] = {}
        self._given_up: set[str] = set()
        self._patches: dict[str, bool] = {}
        self._decided: Command | None = None
        self._random: Random | None = None
        self._ids: Random | None = None

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
        return self._settle()

    def reopen(self, reopening: Reopening) -> list[Command]:
        """Go on from where a `retry()` cut the journal: kept successes answer at once, those being waited for first."""
        self._stimulus = reopening
        self.loop.advance_to(reopening.at)
        self._facts = dict(reopening.facts)
        for key, fact in reopening.facts.items():
            pending = self.pending.pop(key, None)
            if pending is not None and not pending.future.done():
                del self._facts[key]
                pending.future.set_result(fact.value)
        return self._settle()

    def next_timer(self) -> BodyTimer | None:
        """The body's earliest timer."""
        return self.loop.next_timer()

    @property
    def is_stuck(self) -> bool:
        """Nothing can ever move this body again: it waits for no step and no timer, and is not done."""
        return self.outcome is None and not self.pending and self.loop.next_timer() is None

    def evict(self) -> int:
        """Drop the body without effect in the world (LOOP §3). Gives how many coroutines would not die."""
        stuck = self.loop.evict()
        self.pending.clear()
        self._facts.clear()
        self._commands.clear()
        self._root = None
        return stuck

    # --- what a body asks for (called from inside it) -----------------------------------------------------------------

    def call_step(self, call: StepCall) -> PendingStep:
        """Start a durable step. Its future's result is the outcome: JSON bytes (`msgspec.Raw`), or an `ErrorRecord`."""
        loop = self.loop
        future = loop.create_future()  # first: while the body is evicted this raises GeneratorExit
        key = take_key(self._names, call.name)
        pending = PendingStep(key, call, future, contextvars.copy_context())
        arguments = msgspec.Raw(call.arguments)
        fact = self._facts.pop(key, None) if self._facts else None
        if fact is not None and fact.fits(call):
            self._emit(StepReused(key, call.function, arguments, call.kind, self._last_key))
            future.set_result(fact.value)
        else:
            self.pending[key] = pending
            self._emit(StepStarted(key, call.function, arguments, call.kind, self._last_key, 1, call.retries))
        self._last_key = key
        if self.is_replaying:
            self.replayed_calls[key] = call
        return pending

    def give_up(self, pending: PendingStep) -> None:
        """The body cancelled the step: it sees that at once; how the attempt ends in the world is noted later."""
        if self.loop.closing:
            return
        self.pending.pop(pending.key, None)
        self._given_up.add(pending.key)
        self._emit(StepCancelled(pending.key))

    def start_sleep(self, until_us: int) -> BodyFuture:
        """A durable timer people can see. One whose future is cancelled will not wake the run."""
        future = self.loop.create_future()
        handle = self.loop.call_at((until_us - self.loop.start_us) / 1_000_000, _wake, future)
        self._emit(SleepStarted(handle.ordinal, until_us))

        def ended(slept: asyncio.Future[Any]) -> None:
            if slept.cancelled() and not self.loop.closing:
                handle.cancel()
                self._emit(SleepCancelled(handle.ordinal))

        future.add_done_callback(ended)
        return future

    def set_state(self, key: str, value: bytes) -> None:
        """Set a value of the run's own, as JSON; it rides in the entry at hand."""
        self.state[key] = value
        self._emit(StateSet(key, msgspec.Raw(value)))

    def reach_milestone(self, name: str) -> None:
        """Leave a named mark on the timeline."""
        self._emit(MilestoneReached(name))

    def patched(self, id: str) -> bool:
        """Whether this run takes the new path: yes when it first gets here with the new code, and then for ever."""
        known = self._patches.get(id)
        if known is None:
            is_beyond = not self.is_replaying or (self.is_last and len(self._commands) >= self.expected)
            known = self._patches[id] = is_beyond or id in self.recorded_patches
            if known:
                self._emit(PatchApplied(id))
        return known

    def report_missing(self, function: str) -> BodyFuture:
        """Nobody here knows this function: the run waits for somebody who does (SPEC S13)."""
        future = self.loop.create_future()
        self.missing = self.missing or function
        return future

    @property
    def random(self) -> Random:
        """The run's own; made at its first use, since few bodies draw and seeding costs as much as a step."""
        if self._random is None:
            self._random = Random(self.started.seed)
        return self._random

    def uuid(self) -> uuid.UUID:
        """A new id, the same on every replay."""
        if self._ids is None:
            self._ids = Random(self.started.seed ^ 0x5DEECE66D)
        return uuid.UUID(int=self._ids.getrandbits(128), version=4)

    # --- stimuli ------------------------------------------------------------------------------------------------------

    def _take_outcome(self, event: StepSucceeded | StepFailed, outcome: msgspec.Raw | ErrorRecord) -> None:
        pending = self.pending.pop(event.key, None)
        if pending is None and event.key in self._given_up:
            return  # recorded while the run was set aside, before anybody knew that the body gives the step up
        if pending is None:
            asked = f"another step; it waits for {', '.join(sorted(self.pending)) or 'no step'}"
            raise self.left_journal(f"an outcome of step {event.key!r}", asked)
        if not pending.future.done():
            pending.attempt = event.attempt
            pending.future.set_result(outcome)

    def _take_timer(self, event: TimerFired) -> None:
        if not self.loop.fire_timer(event.timer):
            raise self.left_journal(f"timer {event.timer}", "no timer of that number")

    def _take_cancel(self, event: CancelRequested) -> None:
        first = self.cancel_reason is None
        self.cancel_reason = event.reason if first else f"{self.cancel_reason}; {event.reason}"
        if event.force:
            self._decided = self.outcome = RunCancelled(self.cancel_reason)
            self._commands.append(self.outcome)
        elif first and self._root is not None and not self._root.done():
            with self.loop.entered():
                self._root.cancel(event.reason)

    # --- running ------------------------------------------------------------------------------------------------------

    def _emit(self, command: Command) -> None:
        self.loop.reset_budget()
        if self.missing is None and not self.loop.closing:
            self._commands.append(command)

    def _settle(self) -> list[Command]:
        """Drain, and when the root is done see the body to its end. Then hand over the commands."""
        root = self._root
        if self.outcome is None and root is not None:
            self.loop.drain()
            if root.done():
                self._finish(root)
            fatal = self.loop.foreign_call or self.loop.system_exit
            if fatal is not None and self.outcome is None:
                self._fail(fatal)
        commands, self._commands = self._commands, []
        return commands

    def _finish(self, root: BodyTask) -> None:
        """The outcome is decided when the root ends; the run ends when its other tasks have, clean-up included (P5)."""
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
            self.outcome = self._decided
            self._emit(self.outcome)

    def _decide(self, root: BodyTask) -> Command:
        cancelled = self.cancel_reason is not None and root.cancelling() > 0
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
        steps = tuple(find_failed_steps(error))
        record = self._describe_error(error)
        traceback.clear_frames(error.__traceback__)
        return RunCancelled(reason, record) if cancelled else RunFailed(record, steps)

    def _fail(self, error: BaseException) -> None:
        """The loop was misused from outside, or a task of the body wished to exit: it cannot be trusted to go on."""
        self.outcome = self._decided = RunFailed(self._describe_error(error))
        self._commands = [command for command in self._commands if type(command) not in OUTCOMES]
        self._commands.append(self.outcome)

    def left_journal(self, recorded: str, asked: str) -> NonDeterminism:
        """The error that shows both sides, and where."""
        at = "at its beginning" if self._stimulus is None else f"after {describe(self._stimulus)}"
        return NonDeterminism(self.started.id, at, recorded, asked)


def _wake(future: BodyFuture) -> None:
    if not future.done():
        future.set_result(None)


def describe(event: Event | Reopening) -> str:
    """In a few words, for messages about a body that left its journal."""
    if isinstance(event, StepStarted | StepReused):
        arguments = bytes(event.arguments).decode(errors="replace")
        shown = arguments if len(arguments) <= 300 else f"{arguments[:300]}…"
        return f"{event.kind} {event.key!r} = {event.function}({shown})"
    fields = ", ".join(f"{name}={getattr(event, name)!r}" for name in event.__struct_fields__)
    return f"{type(event).__name__}({fields})"[:400]
