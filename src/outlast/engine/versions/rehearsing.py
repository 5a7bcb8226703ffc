"""Replays the journals of live runs against the code at hand, and changes nothing: for CI, before a deploy (SPEC V5).
Layer: engine.

What always holds: nothing is written and no step is executed; a journal that cannot be read, or whose workflow is not
known here, is told as such, and does not stop the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from outlast.core.events import Event, RunReopened, RunStarted
from outlast.core.reopening import Reopening, splice
from outlast.core.replay import Replay
from outlast.core.states import ENDED, RunStatus
from outlast.engine.versions.serving import Body, build_machine, find_version
from outlast.errors import BodyStopped, NonDeterminism, OutlastError
from outlast.stores.store import RunQuery

if TYPE_CHECKING:
    from outlast.engine.engine import Engine
    from outlast.stores.store import RunRow

__all__ = ["Rehearsal", "rehearse"]

_PAGE: Final = 200
_TURN: Final = 1000
_LIVE: Final = tuple(status for status in RunStatus if status not in ENDED)


class Rehearsal(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one run would fare with the code at hand."""

    id: str
    workflow: str
    version: str
    """What it goes on with now."""
    found: str = ""
    """Version of the code at hand; empty: it does not know the workflow."""
    fits: bool = True
    problem: str = ""
    """Why it does not fit, in a sentence,"""
    at: str = ""
    recorded: str = ""
    asked: str = ""
    """or where they part: what the journal says, and what the code asks for."""
    plan_fits: bool = False
    """It would go on from the stored plan of its version."""


async def rehearse(engine: Engine) -> AsyncGenerator[Rehearsal, None]:
    """One for each live run, the newest first. Raises StoreError."""
    after: tuple[int, str] | None = None
    while True:
        rows = await engine.store.list_runs(RunQuery(statuses=_LIVE, after=after, limit=_PAGE))
        for row in rows:
            yield await _rehearse_run(engine, row)
        if len(rows) < _PAGE:
            return
        after = rows[-1].created_at, rows[-1].uid


async def _rehearse_run(engine: Engine, row: RunRow) -> Rehearsal:
    told = Rehearsal(row.id, row.workflow, row.version)
    try:
        raw = [event for _, events in await engine.read_events(row.uid) for event in events]
        if not raw:
            return told  # deleted meanwhile
        taken = find_version(raw)
        workflow = await engine.versions.find_workflow(row.workflow, taken.version)
    except OutlastError as error:
        return msgspec.structs.replace(told, fits=False, problem=f"It cannot be read: {error}")
    if workflow is None:
        return msgspec.structs.replace(told, fits=False, problem="The code does not know the workflow")
    told = msgspec.structs.replace(told, version=taken.version, found=workflow.version)
    difference = await _try(engine, workflow, raw)
    if difference is None:
        return told
    if isinstance(difference, NonDeterminism):
        parts = {"at": difference.at, "recorded": difference.recorded, "asked": difference.asked}
        told = msgspec.structs.replace(told, fits=False, **parts)
    else:
        told = msgspec.structs.replace(told, fits=False, problem=difference)
    if taken.version != workflow.version:
        stored = await engine.versions.find_stored(workflow, taken.version)
        fits = stored.body is not None and await _try(engine, stored.body, raw) is None
        told = msgspec.structs.replace(told, plan_fits=fits)
    return told


async def _try(engine: Engine, body: Body, raw: Sequence[Event]) -> NonDeterminism | str | None:
    """Replay a journal with this body; where they part, or what stops it. None: it fits."""
    started = raw[0]
    assert isinstance(started, RunStarted)
    events: Sequence[Event | Reopening] = splice(raw) if any(type(e) is RunReopened for e in raw) else raw
    machine = build_machine(started, body, engine.registry, engine.log, dev=engine.dev)
    try:
        replay = Replay(machine, events)
        is_more = True
        while is_more:
            is_more = replay.advance(_TURN)
            await asyncio.sleep(0)
    except NonDeterminism as error:
        if machine.missing is not None:
            return f"The code does not know {machine.missing!r}"
        return machine.halted or error
    except BodyStopped as error:
        return str(error)
    finally:
        machine.evict()
    return None
