"""A machine for tests: bodies call `step(machine, name, *args)`, a `Recorder` keeps the journal that comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from outlast.core.calls import STEP_MARK
from outlast.core.events import (
    ErrorRecord,
    Event,
    RunCompleted,
    RunStarted,
    StepFailed,
    StepStarted,
    StepSucceeded,
    TimerFired,
)
from outlast.core.machine import Machine
from outlast.core.replay import Replay

START_US = 1_000_000_000

Body = Callable[[Machine], Coroutine[Any, Any, bytes]]


class ScriptedCall:
    """A step call as authoring makes one, without a function behind it."""

    compensates = ""
    is_left = False
    timeout_us = None

    def __init__(
        self,
        name: str,
        arguments: object,
        *,
        kind: str = "step",
        retries: int = 0,
        undo: str = "",
        explicit: str = "",
    ) -> None:
        self.name = self.function = name
        self.kind = kind
        self.retries = retries
        self.undo = undo
        self._explicit = explicit
        """Of the first argument, a mapping, only this was given by the body; "": all was."""
        self.arguments = msgspec.json.encode(arguments)

    def same_arguments(self, recorded: bytes) -> bool:
        ours, theirs = msgspec.json.decode(self.arguments), msgspec.json.decode(recorded)
        return bool(ours[0][self._explicit] == theirs[0][self._explicit] if self._explicit else ours == theirs)


class StepError(Exception):
    """What a failed step raises in a test's body."""


async def step(
    machine: Machine, name: str, *arguments: object, kind: str = "step", undo: str = "", explicit: str = ""
) -> Any:
    pending = machine.call_step(ScriptedCall(name, arguments, kind=kind, undo=undo, explicit=explicit))
    try:
        outcome = await pending.future
    except asyncio.CancelledError:
        if pending.future.cancelled():
            machine.give_up(pending)
        raise
    if isinstance(outcome, ErrorRecord):
        error = StepError(outcome.message)
        setattr(error, STEP_MARK, pending.key)
        raise error
    return msgspec.json.decode(outcome)


def make_machine(body: Body, *, at: int = START_US, user: str | None = None) -> Machine:
    started = RunStarted(at, "uid-1", "run-1", "work", "v1", msgspec.Raw(b"null"), 7, "3.11", user=user)
    return Machine(started, body, lambda error: ErrorRecord(type(error).__name__, str(error)))


def succeeded(key: str, value: object = None, at: int = START_US) -> StepSucceeded:
    return StepSucceeded(at, key, 1, msgspec.Raw(msgspec.json.encode(value)))


def failed(key: str, message: str = "no", at: int = START_US) -> StepFailed:
    return StepFailed(at, key, 1, ErrorRecord("StepError", message))


def output_of(event: Event) -> bytes:
    """What the run came to; it must have completed."""
    assert isinstance(event, RunCompleted)
    return bytes(event.output)


def fire(machine: Machine) -> TimerFired:
    """The earliest timer, when it is due."""
    timer = machine.next_timer()
    assert timer is not None
    return TimerFired(timer.due_us, timer.ordinal, timer.due_us)


class Recorder:
    """Feeds a machine and keeps the journal that comes of it."""

    def __init__(self, body: Body, *, user: str | None = None) -> None:
        self.body = body
        self.machine = make_machine(body, user=user)
        self.journal: list[Event] = [self.machine.started, *self.machine.begin()]

    def feed(self, *stimuli: Any) -> Recorder:
        for stimulus in stimuli:
            event = fire(self.machine) if stimulus == "timer" else stimulus
            self.journal.append(event)
            self.journal += self.machine.feed(event)
        return self

    @property
    def keys(self) -> list[str]:
        return [event.key for event in self.journal if isinstance(event, StepStarted)]


def replay(body: Body, journal: list[Any]) -> tuple[Machine, list[Any]]:
    """A fresh machine fed the whole journal, and the commands it asks for beyond it."""
    machine = make_machine(body, user=journal[0].user)
    feeding = Replay(machine, journal)
    while feeding.advance(1000):
        pass
    return machine, feeding.finish()
