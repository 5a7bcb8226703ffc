"""A stored journal against the code at hand: would its run go on, or has the code changed under it? Layer: testing.

What always holds: nothing is carried out and nothing is stored. The body is fed what is on record, and what it asks for
is compared with what it asked for then, as a worker does that takes the run up.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from outlast.authoring.exceptions import encode_error
from outlast.authoring.module import Module
from outlast.authoring.workflow import RunFacts, Workflow
from outlast.core.events import RunReopened, RunStarted, decode_events
from outlast.core.machine import Machine
from outlast.core.reopening import UNWIND, splice
from outlast.core.replay import Replay
from outlast.errors import InvalidSetting
from outlast.run.transfer import read_file
from outlast.telemetry.logs import ENGINE

__all__ = ["Replayed", "replay"]


class Replayed(msgspec.Struct, frozen=True):
    """A journal that the code follows."""

    run_id: str
    events: int
    """On record."""
    asks_next: tuple[str, ...]
    """What the body asks for beyond its journal, by the names of its commands: what the run would do next."""


def replay(
    journal: str | PathLike[str] | Iterable[bytes], workflow: Workflow[..., Any], *, app: Module | None = None
) -> Replayed:
    """Replay a journal that `outlast export` wrote, from its file or its lines, with this workflow's code.

    Raises NonDeterminism, naming the step, where the code asks for something else than is on record; InvalidSetting for
    a file that is none, is cut off, or is of another workflow. `app` is needed for bodies that call by name. Values
    that were compressed or encrypted cannot be read.
    """
    if isinstance(journal, str | PathLike):
        with Path(journal).open("rb") as lines:
            header, entries, _ = read_file(lines)
    else:
        header, entries, _ = read_file(journal)
    if header.workflow != workflow.name:
        raise InvalidSetting("the journal", f"one of {header.workflow!r}", f"one of {workflow.name!r}")
    raw = [event for entry in entries for event in decode_events(entry.events)]
    is_reopened = any(type(event) is RunReopened and event.kind != UNWIND for event in raw)
    started = raw[0]
    assert isinstance(started, RunStarted)
    machine = _build(started, workflow, Module("") if app is None else app)
    try:
        play = Replay(machine, splice(raw) if is_reopened else raw)
        play.advance(sys.maxsize)
        return Replayed(header.id, len(raw), tuple(type(command).__name__ for command in play.finish()))
    finally:
        machine.evict()


def _build(started: RunStarted, workflow: Workflow[..., Any], registry: Module) -> Machine:
    facts = RunFacts(registry=registry, log=ENGINE)
    return Machine(
        started,
        lambda machine: workflow.run_body(machine, facts),
        encode_error,
        unwinder=lambda machine, undoables: workflow.run_unwind(machine, facts, undoables),
    )
