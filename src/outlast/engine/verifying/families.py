"""A run's children: that they are there, are its own, and came to what it has of them. Layer: engine.

The parent's side alone, so that a parent of very many is read once. What always holds: a child's journal is read only
where its parent has its result.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from outlast.core.events import AttemptStarted, RunCompleted, RunReopened, RunStarted, StepStarted, StepSucceeded
from outlast.core.keys import child_uid
from outlast.core.lineage.forking import FORK
from outlast.core.verifying import Broken, Rule, flatten
from outlast.engine.verifying.picture import Picture, Unreadable, read_journal
from outlast.payloads.wrapper import is_wrapped
from outlast.stores.store import CLIENT, RunQuery, Store

__all__ = ["check_children"]

PAGE = 500


class _Asked(NamedTuple):
    """What a parent's journal says of its children, by step key."""

    begun: dict[str, str]
    """Their uids."""
    values: dict[str, bytes]
    """What the parent has of those that completed."""


async def check_children(store: Store, picture: Picture, *, are_all_kept: bool = False) -> AsyncIterator[Broken]:
    """A child that was asked for is there, and is its parent's; an outcome its parent has of it is one it had.

    Children of a family that has ended may have been deleted; `are_all_kept`: nobody deletes runs of this store."""
    asked = _read_asked(picture)
    uids = {uid: key for key, uid in asked.begun.items()}
    seen: set[str] = set()
    after: tuple[int, str] | None = None
    while True:
        rows = await store.list_runs(RunQuery(parent=picture.row.uid, after=after, limit=PAGE))
        for row in rows:
            key = uids.get(row.uid)
            if key is None and picture.is_steady and row.origin is None:  # a later round of a child is not asked for
                yield Broken(Rule.FAMILY, f"it has a child {row.uid} that it never asked for")
            elif key is not None:
                seen.add(key)
                has_ended = not row.live and row.next is None
                async for broken in _check_child(store, picture, asked, key, has_ended=has_ended):
                    yield broken
        if len(rows) < PAGE:
            break
        after = (rows[-1].created_at, rows[-1].uid)
    is_kept = are_all_kept or picture.row.live
    if is_kept:
        for key in asked.begun.keys() - seen:
            if await store.find_uid(asked.begun[key]) is None:
                yield Broken(Rule.FAMILY, f"its child {key} is not there")
            else:
                yield Broken(Rule.FAMILY, f"its child {key} is another's")


def _read_asked(picture: Picture) -> _Asked:
    """A fork begins with a copy of what another run had, and an import is one, which a client wrote: those children are
    not here."""
    copied = max((at for at, event in enumerate(picture.events) if _is_fork(event)), default=-1)
    children: set[str] = set()
    begun: dict[str, str] = {}
    values: dict[str, bytes] = {}
    told = ((entry, event) for entry, events in picture.journal for event in events)
    for number, (entry, event) in enumerate(told):
        if isinstance(event, StepStarted) and event.kind == "child":
            children.add(event.key)
        if number <= copied or entry.writer == CLIENT:
            continue
        if isinstance(event, StepStarted | AttemptStarted) and event.attempt and event.key in children:
            begun[event.key] = child_uid(picture.row.uid, event.key)
        elif isinstance(event, StepSucceeded) and event.key in begun:
            values[event.key] = bytes(event.value)
    return _Asked(begun, values)


def _is_fork(event: object) -> bool:
    return isinstance(event, RunReopened) and event.kind == FORK


async def _check_child(
    store: Store, picture: Picture, asked: _Asked, key: str, *, has_ended: bool
) -> AsyncIterator[Broken]:
    uid, value = asked.begun[key], asked.values.get(key)
    if value is not None:
        try:
            events = flatten(await read_journal(store, uid))
            started = events[0] if events else None
            while events and isinstance(last := events[-1], RunCompleted) and last.next:  # it went on as another round
                events = flatten(await read_journal(store, last.next))
        except Unreadable:
            return  # told of the child itself
        if not isinstance(started, RunStarted) or (started.parent, started.parent_key) != (picture.row.uid, key):
            yield Broken(Rule.FAMILY, f"its child {key} began with {started!r}")
        outputs = [bytes(event.output) for event in events if isinstance(event, RunCompleted)]
        if value not in outputs and not any(map(is_wrapped, [value, *outputs])):  # a wrapper is bound to its place
            yield Broken(Rule.FAMILY, f"its child {key} came to {outputs}, and it has {value!r}")
    elif has_ended and picture.is_steady and _waits_for(picture, key) and await _is_untold(store, picture):
        yield Broken(Rule.KEPT, f"its child {key} has ended, and it was not told")


def _waits_for(picture: Picture, key: str) -> bool:
    row, step = picture.row, picture.steps.get(key)
    is_put_away = row.live and row.owner is None and row.wake_at is None and picture.view.suspension is None
    return is_put_away and step is not None and step.is_begun


async def _is_untold(store: Store, picture: Picture) -> bool:
    """The child may have ended since the parent was looked at."""
    return await store.find_uid(picture.row.uid) == picture.row
