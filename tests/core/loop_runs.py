"""Runs of a body under shuffled outcomes, and their replays: what the tests of the loop share.

A recording is made by a seed: which step ends next, whether it fails, when timers fire, when the run is cancelled. Its
text is what must be the same in every process, in every replay, and on every Python of one group.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from outlast.core.events import (
    COMMANDS,
    CancelRequested,
    ErrorRecord,
    Event,
    RunCancelled,
    RunCompleted,
    RunFailed,
    StepFailed,
    StepStarted,
    StepSucceeded,
)
from outlast.core.machine import Machine
from outlast.core.reopening import is_stimulus
from tests.core.machines import START_US, Body, fire, make_machine, replay

Program = Callable[[Machine], Coroutine[Any, Any, Any]]

MAY_FAIL = "may fail"
"""As the last argument of a step: the dice may make it fail."""


@dataclass(frozen=True)
class Dice:
    """How a recording is made."""

    seed: int
    failures: float = 0.15
    cancel_at: int | None = None
    """Before which stimulus the run is cancelled."""


@dataclass(frozen=True)
class Recording:
    """A journal, and the number of times it was moved."""

    journal: list[Event]
    stimuli: int

    @property
    def outcome(self) -> str:
        """How it ended, in a word."""
        last = self.journal[-1]
        return type(last).__name__ if isinstance(last, RunCompleted | RunFailed | RunCancelled) else "waits"

    @property
    def text(self) -> str:
        """All stimuli and commands, a line each."""
        return "\n".join(describe(event) for event in self.journal[1:])


def as_body(program: Program) -> Body:
    """The program as a machine takes it. Its result is the output."""

    async def body(machine: Machine) -> bytes:
        return msgspec.json.encode(await program(machine))

    return body


def describe(event: Event) -> str:
    """The event without what may differ between Pythons: an error is its type."""
    if isinstance(event, RunFailed | RunCancelled):
        error = event.error.type if event.error else "-"
        return f"{type(event).__name__}({error}, {', '.join(getattr(event, 'steps', ()))})"
    return re.sub(r"0x[0-9a-f]+", "", msgspec.json.encode(event).decode())


def record(body: Body, dice: Dice, most: int = 400) -> Recording:
    """One run. Ends when the body does, waits for what cannot come, or was moved `most` times."""
    rng = random.Random(dice.seed)
    machine = make_machine(body)
    journal: list[Event] = [machine.started, *machine.begin()]
    now = START_US
    moved = 0
    while machine.outcome is None and moved < most:
        now += rng.randrange(0, 1_500_000)
        stimulus = _choose(machine, rng, dice, now, moved)
        if stimulus is None:
            break
        journal.append(stimulus)
        journal += machine.feed(stimulus)
        moved += 1
    assert machine.evict() == 0
    return Recording(journal, moved)


def _choose(machine: Machine, rng: random.Random, dice: Dice, now: int, moved: int) -> Any:
    if moved == dice.cancel_at:
        return CancelRequested(now, "m1", "changed my mind")
    waiting = list(machine.pending)
    if machine.next_timer() is not None and (not waiting or rng.random() < 0.3):
        return fire(machine)
    if not waiting:
        return None
    key = waiting[rng.randrange(len(waiting))]
    arguments = msgspec.json.decode(machine.pending[key].call.arguments)
    if arguments and arguments[-1] == MAY_FAIL and rng.random() < dice.failures:
        return StepFailed(now, key, 1, ErrorRecord("StepError", "failed"))
    return StepSucceeded(now, key, 1, msgspec.Raw(msgspec.json.encode(key.upper())))


def evict_at(recording: Recording, body: Body, length: int) -> tuple[int, list[str]]:
    """Evict a body that has come as far as this part of the journal: how many coroutines would not die, and the
    steps it asked for meanwhile."""
    machine, _ = replay(body, recording.journal[:length])
    survivors = machine.evict()
    return survivors, [command.key for command in machine._commands if isinstance(command, StepStarted)]


def iter_cuts(
    recording: Recording, body: Body, lengths: Iterator[int] | range
) -> Iterator[tuple[list[str], list[str]]]:
    """For each length: cut the journal there, replay what is left, and go on with the stimuli behind the cut.

    Gives the commands a fresh body asks for behind the cut, and those on record. Replaying compares by itself.
    """
    journal = recording.journal
    for length in lengths:
        machine, beyond = replay(body, journal[:length])
        asked = [describe(command) for command in beyond]
        for event in journal[length:]:
            if is_stimulus(event):
                asked += [describe(command) for command in machine.feed(event)]  # type: ignore[arg-type]
        assert machine.evict() == 0
        yield asked, [describe(event) for event in journal[length:] if type(event) in COMMANDS]
