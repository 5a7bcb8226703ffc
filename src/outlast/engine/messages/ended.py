"""Children that ended before a retry of their parent, and cannot be reopened by it. Layer: engine.

A child completes while its parent is failing, and nobody hears of it; then the parent is retried, and its body asks for
the same child. What always holds: such a step gets the outcome that its run had; it is never left to wait for a message
that was sent long ago.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from outlast.core.events import (
    OUTCOMES,
    EffectKept,
    Event,
    RunOutcome,
    RunStarted,
    StepFailed,
    StepStarted,
    StepSucceeded,
    UndoRegistered,
)
from outlast.core.keys import child_uid
from outlast.core.lineage.children import asked_end_id, end_message_id, tell_end
from outlast.core.states import RunStatus
from outlast.engine.messages.children import settle_end
from outlast.engine.messages.looks import look
from outlast.stores.store import RunRow

if TYPE_CHECKING:
    from outlast.engine.hot import HotRun

__all__ = ["look_for_ended_children"]

PAGE = 1000


def look_for_ended_children(run: HotRun) -> None:
    """Give the run the outcomes of those of its children that tell nothing any more."""
    look(run, lambda: _look(run), "children")


async def _look(run: HotRun) -> None:
    asked = [key for key, step in run.steps.items() if step.kind == "child" and step.is_begun]
    given_up = [key for key in run.steps.unsettled if key in run.steps.elsewhere and key not in run.steps.queued]
    for key in asked + given_up:  # an unwind waits for those, too
        row = await _find_last(run, child_uid(run.uid, key))
        if row is None or row.live or row.status in {RunStatus.FAILED, RunStatus.CANCELLED}:
            continue  # it will tell; or it has ended since, and its message is under way
        events = await _read(run, row)
        attempt, ends = _attempt_of(run, key), [event for event in events if type(event) in OUTCOMES]
        message = end_message_id(row.uid, len(ends))
        if run.is_dropped or attempt is None or type(events[-1]) not in OUTCOMES:
            continue
        if not any(isinstance(event, StepSucceeded | StepFailed) and event.key == key for event in run.queue):
            told = tell_end(_started(events), key, cast(RunOutcome, ends[-1]), undoable=_is_undoable(events))
            run.known[message] = None  # should it have ended while it was asked for, its own message says nothing new
            run.take(settle_end(run, told, asked_end_id(message, attempt), run.now_us()))


def _attempt_of(run: HotRun, key: str) -> int | None:
    """The attempt whose end is yet to come, also when the body has given it up. None: there is none."""
    step = run.steps.get(key)
    if step is None:
        return run.steps.unsettled.get(key)
    return step.attempt if step.is_begun else None


async def _find_last(run: HotRun, uid: str) -> RunRow | None:
    """The child, in its last round."""
    row = await run.home.store.find_uid(uid)
    while row is not None and row.next is not None:  # of a first round, it is the last
        row = await run.home.store.find_uid(row.next)
    return row


async def _read(run: HotRun, row: RunRow) -> list[Event]:
    events: list[Event] = []
    after = -1
    while True:
        entries = await run.home.store.read_journal(row.uid, after=after, limit=PAGE)
        for entry in entries:
            events += run.home.payloads.decode_events(row.uid, entry.events)
        if len(entries) < PAGE:
            return events
        after = entries[-1].seq


def _started(events: list[Event]) -> RunStarted:
    started = events[0]
    assert isinstance(started, RunStarted)
    return started


def _is_undoable(events: list[Event]) -> bool:
    kept = {event.key for event in events if isinstance(event, EffectKept)}
    undoable = {
        event.key
        for event in events
        if isinstance(event, UndoRegistered) or (isinstance(event, StepStarted) and event.undo)
    }
    return bool(undoable - kept)
