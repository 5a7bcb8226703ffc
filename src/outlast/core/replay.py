"""Feeding a journal to a machine. Layer: core.

A journal is a row of stimuli, each followed by the commands the body answered with. The replay feeds the stimuli, and
compares what the body asks for with what is on record, in order. Commands may be recorded later than the stimulus that
led to them (a run that is suspended records outcomes without moving its body; a writer may have died in between), never
earlier; and at the journal's end the body may ask for more than is on record: those are its next commands.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable

from outlast.core.calls import StepCall
from outlast.core.events import (
    OUTCOMES,
    Command,
    DecisionJudged,
    Event,
    PatchApplied,
    RunCancelled,
    RunCompensated,
    RunCompensationFailed,
    RunFailed,
    SignalRefused,
    StepReused,
    StepStarted,
    Stimulus,
    UnwindStarted,
    WaitStarted,
    is_command,
)
from outlast.core.machine import Machine, describe
from outlast.core.reopening import Reopening, is_stimulus
from outlast.errors import NonDeterminism

__all__ = ["Replay"]

Group = tuple[Stimulus | Reopening | None, list[Command]]


class Replay:
    """One replay of a whole (spliced) journal, in as many turns as the caller likes."""

    def __init__(self, machine: Machine, events: Iterable[Event | Reopening]) -> None:
        self._machine = machine
        self._groups = _group(events)
        self._asked: collections.deque[Command] = collections.deque()
        """Asked for by the body and not met on record yet."""
        recorded = [command for _, commands in self._groups for command in commands]
        machine.recorded_patches = frozenset(command.id for command in recorded if type(command) is PatchApplied)
        waits = {command.key: command for command in recorded if type(command) is WaitStarted}
        if waits:
            machine.waits.recorded = waits

    def advance(self, most: int) -> bool:
        """Feed up to `most` stimuli; False: there are no more. Raises what `Machine.feed` raises."""
        machine, groups = self._machine, self._groups
        machine.is_replaying = True
        try:
            with machine.loop.entered():  # once for all of them: going in and back takes a fifth of the time
                while groups and most > 0:
                    most -= 1
                    stimulus, recorded = groups.popleft()
                    machine.expected = len(recorded)
                    machine.is_last = not groups
                    self._take(_move(machine, stimulus))
                    for command in recorded:
                        self._meet(command)
        finally:
            machine.is_replaying = False
            machine.replayed_calls.clear()
        return bool(groups)

    def finish(self) -> list[Command]:
        """What the body asked for beyond the journal: its next commands."""
        return list(self._asked)

    def _take(self, commands: list[Command]) -> None:
        """Behind a body's end comes what was heard while the run was set aside, so that its end is not on record yet:
        the answer to that stands before it, and what changes it stands in its place."""
        asked = self._asked
        if asked and type(asked[-1]) in OUTCOMES:
            end = asked.pop()  # also where nothing comes in answer yet: what was given up is waited for
            if self._machine.outcome is end:
                commands = [*commands, end]
        asked.extend(commands)

    def _meet(self, recorded: Command) -> None:
        if not self._asked:
            raise self._difference(recorded, None)
        asked = self._asked.popleft()
        if asked is not recorded and not _is_same(recorded, asked, self._machine.replayed_calls):
            raise self._difference(recorded, asked)

    def _difference(self, recorded: Command, asked: Command | None) -> NonDeterminism:
        return self._machine.left_journal(describe(recorded), "nothing more" if asked is None else describe(asked))


def _move(machine: Machine, stimulus: Stimulus | Reopening | None) -> list[Command]:
    if stimulus is None:
        return machine.begin()
    if type(stimulus) is Reopening:
        return machine.reopen(stimulus)
    return machine.feed(stimulus)


def _group(events: Iterable[Event | Reopening]) -> collections.deque[Group]:
    """The journal as (stimulus, commands that follow it); the first group is the body's beginning. Notes drop out."""
    commands: list[Command] = []
    groups: collections.deque[Group] = collections.deque([(None, commands)])
    for event in events:
        if is_command(event):
            commands.append(event)
        elif type(event) is Reopening or is_stimulus(event):
            commands = []
            groups.append((event, commands))
    return groups


def _is_same(recorded: Command, asked: Command, calls: dict[str, StepCall]) -> bool:
    """Whether the body asked for what is on record. Places and budgets are not compared, arguments as the call says."""
    if type(recorded) is not type(asked):
        return False
    if isinstance(recorded, StepStarted | StepReused):
        assert isinstance(asked, StepStarted | StepReused)
        if recorded.key != asked.key or recorded.function != asked.function or recorded.kind != asked.kind:
            return False
        if recorded.arguments == asked.arguments:
            return True
        call = calls.get(asked.key)
        return call is not None and call.same_arguments(bytes(recorded.arguments))
    if isinstance(recorded, UnwindStarted):
        assert isinstance(asked, UnwindStarted)
        return recorded.keys == asked.keys
    if isinstance(recorded, RunFailed | RunCancelled | RunCompensated | RunCompensationFailed):
        return True  # an error's text and traceback may differ between deploys; that it ends so is what counts
    compared = _COMPARED.get(type(recorded))
    if compared is not None:
        return all(getattr(recorded, name) == getattr(asked, name) for name in compared)
    return recorded == asked


_COMPARED: dict[type, tuple[str, ...]] = {
    WaitStarted: ("key", "kind", "name"),
    SignalRefused: ("message",),
    DecisionJudged: ("message", "key", "verdict"),
}
"""Fields that count; the others are texts, or are taken from the record itself."""
