"""Invariants 8 and 9, decided from a journal: its replay by the code at hand."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

from outlast.authoring.context import RunFacts
from outlast.authoring.exceptions import encode_error
from outlast.authoring.module import Module
from outlast.core.events import (
    OUTCOMES,
    CancelRequested,
    DecisionMade,
    Event,
    RunCancelled,
    RunStarted,
    RunTakenOver,
    SignalReceived,
)
from outlast.core.machine import Machine
from outlast.core.reopening import splice
from outlast.core.replay import Replay
from outlast.stores.store import Entry

__all__ = ["check_replay"]


def check_replay(journal: Sequence[tuple[Entry, Sequence[Event]]], registry: Module) -> Iterator[str]:
    """The same journal gives the same commands in this process, to the same end."""
    events = [event for _, events in journal for event in events]
    started = events[0]
    assert isinstance(started, RunStarted)
    workflow = registry.find_workflow(started.workflow)
    if workflow is None or _has_ended_without_its_body(events):
        return
    facts = RunFacts(registry, logging.getLogger("outlast"))
    machine = Machine(
        started,
        lambda machine: workflow.run_body(machine, facts),
        encode_error,
        unwinder=lambda machine, undoables: workflow.run_unwind(machine, facts, undoables),
    )
    try:
        replay = Replay(machine, splice(events))
        while replay.advance(1000):
            pass
        beyond = replay.finish()
    except Exception as error:
        yield f"its replay fails: {error!r}"
        return
    finally:
        machine.evict()
    ends = [event for event in events if type(event) in OUTCOMES]
    if ends and type(events[-1]) in OUTCOMES and (beyond or type(machine.outcome) is not type(ends[-1])):
        yield f"its replay ends with {machine.outcome!r} and asks for {beyond!r}"


def _has_ended_without_its_body(events: Sequence[Event]) -> bool:
    """It was cancelled by force, before it began, or while it was set aside: its body never said that it ends."""
    started = events[0]
    is_next_round = isinstance(started, RunStarted) and bool(started.continues)  # what it was sent before comes with it
    heard = SignalReceived | DecisionMade | CancelRequested if is_next_round else CancelRequested
    is_unbegun = all(isinstance(event, RunStarted | RunTakenOver | heard) for event in events[:-1])
    is_forced = any(isinstance(event, CancelRequested) and event.force for event in events)
    end = events[-1]
    return isinstance(end, RunCancelled) and (is_unbegun or is_forced or "(not cleaned up: " in end.reason)
