"""What a body asks its machine for, from inside: steps, sleeps, children, state, chance. Layer: core.

What always holds: each request is answered from what the journal has fed so far, and becomes a command in the order in
which the body asked; so a replay asks for the same, in the same order. Authoring calls these methods; `core.machine`
feeds what comes of them.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import uuid
from random import Random
from typing import Any

import msgspec

from outlast.core.calls import PendingStep, StepCall
from outlast.core.events import (
    ChildCancelled,
    ChildSignalled,
    Command,
    EffectKept,
    ErrorRecord,
    MilestoneReached,
    PatchApplied,
    RunOutcome,
    RunStarted,
    SleepCancelled,
    SleepStarted,
    StateSet,
    StepCancelled,
    StepReused,
    StepStarted,
    UndoRegistered,
)
from outlast.core.keys import signal_id, take_key
from outlast.core.loop import BUDGET, BodyFuture, BodyLoop
from outlast.core.reopening import Fact
from outlast.core.unwinding import Undoables
from outlast.core.waits.body import Waits

__all__ = ["Requests"]

MOST_COMPARED = 200
"""Successes that one call is compared with for its explicit arguments: a retry of thousands must not take for ever."""


class Requests:
    """The half of a machine that its body sees."""

    # There is one for each run in memory. Sets that are mostly empty are dicts: empty, they take a quarter of the room.
    __slots__ = (
        "__weakref__", "_asked_to_stop", "_closing", "_commands", "_decided", "_dev", "_facts", "_given_up", "_held",
        "_ids", "_last_key", "_names", "_out_of_order", "_patches", "_random", "_signals", "_successes", "_waits",
        "cancel_reason", "expected", "halted", "is_last", "is_replaying", "loop", "missing", "pending",
        "recorded_patches", "replayed_calls", "started", "state", "undoables",
    )  # fmt: skip

    def __init__(self, started: RunStarted, *, dev: bool = False) -> None:
        self.started = started
        self._dev = dev
        self.loop = self._make_loop(started.at)
        self.pending: dict[str, PendingStep] = {}
        self.state: dict[str, bytes] = {}
        self.halted: str | None = None
        """Why the body cannot go on: what a stored plan says cannot be carried out. Nor are commands after it."""
        self.missing: str | None = None
        """Name of a function the body asked for that nobody here knows. Commands after it are not to be trusted."""
        self.cancel_reason: str | None = None
        self.undoables = Undoables()
        self._waits: Waits | None = None
        self.is_replaying = False
        """The body goes over what is on record: logs are quiet. Set by `core.replay`."""
        self.recorded_patches: frozenset[str] = frozenset()
        self.is_last = False
        """On a replay: this is the last stimulus on record, and the body may ask for more than is there."""
        self.expected = 0
        """On a replay: how many commands on record the stimulus at hand was answered with."""
        self.replayed_calls: dict[str, StepCall] = {}
        """On a replay: the calls of the commands handed over, by key, for comparison."""
        self._commands: list[Command] = []
        self._names: dict[str, int] = {}
        self._last_key: str | None = None
        self._facts: dict[str, Fact] = {}
        """What succeeded before a retry, by key, and was not asked for again."""
        self._successes: dict[tuple[str | bytes, ...], dict[str, None]] | None = None
        """Keys of those by name and function, and by their arguments too. None: it was not needed yet."""
        self._out_of_order: dict[str, None] = {}
        """Keys of those that were asked for before their turn."""
        self._given_up: dict[str, StepCall] = {}
        """By key: steps whose attempt may still end in the world."""
        self._asked_to_stop: dict[str, None] = {}
        """Children that were."""
        self._closing: dict[str, None] = {}
        """Children that are to end before a cancel reaches the body."""
        self._held: dict[str, tuple[PendingStep, msgspec.Raw | ErrorRecord]] = {}
        """Children that ended since, and of whose end the body does not know yet."""
        self._decided: RunOutcome | None = None
        self._patches: dict[str, bool] = {}
        self._signals = 0
        self._random: Random | None = None
        self._ids: Random | None = None

    @property
    def waits(self) -> Waits:
        """Signals, gates and approvals. Made at the first use, since most bodies wait for none."""
        if self._waits is None:
            self._waits = Waits(lambda: self.loop, self._emit, self.started.user)
        return self._waits

    def call_step(self, call: StepCall) -> PendingStep:
        """Start a durable step. Its future's result is the outcome: JSON bytes (`msgspec.Raw`), or an `ErrorRecord`."""
        loop = self.loop
        future = loop.create_future()  # first: while the body is evicted this raises GeneratorExit
        key, fact = self._take_key(call)
        pending = PendingStep(key, call, future, contextvars.copy_context())
        arguments = msgspec.Raw(call.arguments)
        if fact is not None:
            self._emit(StepReused(key, call.function, arguments, call.kind, self._last_key, fact.undo))
            if fact.undo:
                self.undoables.add(key, call, fact.value)
            future.set_result(fact.value)
        else:
            self.pending[key] = pending
            self._emit(
                StepStarted(
                    key,
                    call.function,
                    arguments,
                    call.kind,
                    self._last_key,
                    1,
                    call.retries,
                    "",
                    call.undo,
                    call.compensates,
                )
            )
        self._last_key = key
        if self.is_replaying:
            self.replayed_calls[key] = call
        return pending

    def give_up(self, pending: PendingStep) -> None:
        """The body cancelled the step: it sees that at once; how the attempt ends in the world is noted later."""
        key, call = pending.key, pending.call
        if self.loop.closing or self.pending.pop(key, None) is None:
            return
        is_left = call.is_left and (self._decided is not None or self.cancel_reason is not None)
        if not is_left:
            self._given_up[key] = call
        self._emit(StepCancelled(key, is_left))

    def longest_given_up_us(self, default_us: int) -> int:
        """How long an attempt that was given up may still take: the longest timeout, or this where there is none."""
        return max((call.timeout_us or default_us for call in self._given_up.values()), default=default_us)

    def cancel_child(self, pending: PendingStep, reason: str) -> bool:
        """Ask the child to stop. False: it has ended."""
        key = pending.key
        if key in self.pending and key not in self._asked_to_stop:
            self._asked_to_stop[key] = None
            self._emit(ChildCancelled(key, reason))
        return key in self.pending

    def signal_child(self, pending: PendingStep, name: str, payload: bytes, dedup: str | None) -> None:
        """Send the child a signal: once, also when this is replayed. `dedup` is its key for others' sake."""
        self._signals += 1
        message = signal_id(self.started.uid, pending.key, f"{self._signals}" if dedup is None else f"={dedup}")
        self._emit(ChildSignalled(pending.key, message, name, msgspec.Raw(payload)))

    def keys_of(self, function: str) -> list[str]:
        """Keys of what this function did, or is doing."""
        calls = [(key, pending.call) for key, pending in self.pending.items()] + [*self._given_up.items()]
        return [*self.undoables.keys_of(function), *(key for key, call in calls if call.function == function)]

    def keep(self, key: str) -> bool:
        """What this step did, or will have done, stays when the run is unwound. False: there is no such step so far."""
        name, _, number = key.rpartition("#") if "#" in key else (key, "", "0")
        is_known = self._names.get(name, 0) > int(number) or key in self._out_of_order
        if is_known:
            self.undoables.keep(key)
            self._emit(EffectKept(key))
        return is_known

    def register_undo(self, name: str, undo: object) -> None:
        """An undo of the body's own, which goes by a key made from `name`."""
        key = self._next_key(name)
        self.undoables.register(key, undo)
        self._emit(UndoRegistered(key))

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

    def halt(self, reason: str) -> BodyFuture:
        """The body cannot go on, and not for a fault of its own: the run waits for a person or a deploy."""
        future = self.loop.create_future()
        self.halted = self.halted or reason
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

    # --- inside -------------------------------------------------------------------------------------------------------

    def _take_key(self, call: StepCall) -> tuple[str, Fact | None]:
        """What the call goes by; and its success, if it had one before a retry.

        That keeps its key wherever the body comes to it now: branches may call in another order than before. And
        nothing else goes by that key: other systems know what was done by the id that follows from it."""
        key = self._next_key(call.name)
        facts = self._facts
        if not facts:
            return key, None
        fact = facts.get(key)
        if fact is not None and fact.fits(call):
            return key, facts.pop(key)
        known = self._find_success(call)
        if known is not None:
            self._names[call.name] -= 1
            self._out_of_order[known] = None
            return known, facts.pop(known)
        while key in facts:
            key = self._next_key(call.name)
        return key, None

    def _next_key(self, name: str) -> str:
        key = take_key(self._names, name)
        while key in self._out_of_order:
            key = take_key(self._names, name)
        return key

    def _find_success(self, call: StepCall) -> str | None:
        """The first key by which the very same call succeeded before the retry, of those not asked for again.

        Arguments that are the same to the byte are found anywhere; such as differ in a default that the code has
        changed since, among the first of that function's."""
        if self._successes is None:
            self._successes = {}
            for key, fact in self._facts.items():
                called = (key.partition("#")[0], fact.function, fact.kind)
                for known in (called, (*called, fact.arguments)):
                    self._successes.setdefault(known, {})[key] = None
        called = (call.name, call.function, call.kind)
        for key in self._list_left((*called, call.arguments), 1):
            return key
        return next((key for key in self._list_left(called, MOST_COMPARED) if self._facts[key].fits(call)), None)

    def _list_left(self, called: tuple[str | bytes, ...], most: int) -> list[str]:
        """The first keys of such successes that were not asked for again."""
        assert self._successes is not None
        keys = self._successes.get(called, {})
        for key in [*itertools.takewhile(lambda key: key not in self._facts, keys)]:
            del keys[key]
        return [*itertools.islice((key for key in keys if key in self._facts), most)]

    def _make_loop(self, now_us: int) -> BodyLoop:
        loop = BodyLoop(start_us=now_us, dev=self._dev)
        loop.machine = self
        loop.run_id = self.started.id
        return loop

    def _emit(self, command: Command) -> None:
        self.loop.budget = BUDGET  # a command was given: the body does not spin
        if self.missing is None and self.halted is None and not self.loop.closing:
            self._commands.append(command)


def _wake(future: BodyFuture) -> None:
    if not future.done():
        future.set_result(None)
