"""One run as it stood at one moment: its journal, its row, and what else the store has of it. Layer: engine.

What always holds: all of a steady picture was so at once. Its row was the same before and after the rest was read, and
no entry came meanwhile; what changes tasks, waits or mail of a run changes its row or its journal too, or makes them
say no more than they may at any time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import msgspec

from outlast.core.attempts import OpenSteps
from outlast.core.events import Event, RunReopened, RunStarted, decode_events
from outlast.core.fold import fold
from outlast.core.reopening import UNWIND, splice
from outlast.core.verifying import flatten
from outlast.core.view import IMPORTED, RunView
from outlast.stores.store import CLIENT, Entry, RunRow, Store, TaskRow, WaitQuery, WaitRow

__all__ = ["Journal", "Picture", "Unreadable", "read_journal", "read_picture"]

Journal = list[tuple[Entry, list[Event]]]
"""A run's entries in order, each with its events."""

TRIES = 3
"""Looks at a run that moves, before it is judged by its journal alone."""
PAGE = 1000


class Unreadable(Exception):
    """An entry is none that this release can read."""


@dataclass
class Picture:
    """What the store has of one run."""

    row: RunRow
    journal: Journal
    now: int
    """The store's, before the rest was read."""
    is_steady: bool = False
    """All of it was so at once; else only the journal is to be judged."""
    waits: list[WaitRow] = field(default_factory=list)
    tasks: list[TaskRow] = field(default_factory=list)
    lost: list[tuple[str, int]] = field(default_factory=list)
    """Open queued attempts of which the store has neither a task nor a message."""
    has_mail: bool = False

    @cached_property
    def events(self) -> list[Event]:
        """Those of the journal."""
        return flatten(self.journal)

    @cached_property
    def view(self) -> RunView:
        """What the journal says."""
        return fold(self.journal)

    @cached_property
    def steps(self) -> OpenSteps:
        """Steps without an outcome, and attempts that the body gave up."""
        reopened_at = max(
            (at for at, event in enumerate(self.events) if type(event) is RunReopened and event.kind != UNWIND),
            default=0,
        )
        steps = OpenSteps()
        steps.note_highest(self.events[:reopened_at])
        for event in splice(self.events):
            steps.apply(event)
        return steps

    @property
    def started(self) -> RunStarted:
        """Its first event. (The journal's shape was checked.)"""
        first = self.events[0]
        assert isinstance(first, RunStarted)
        return first

    @property
    def is_import(self) -> bool:
        """It came from a file, without its tasks and times, and nobody has resumed it."""
        suspension = self.view.suspension
        if suspension is None:
            return False
        return suspension.code == IMPORTED or all(entry.writer == CLIENT for entry, _ in self.journal)


async def read_picture(store: Store, row: RunRow, shown: Iterable[WaitRow]) -> Picture | None:
    """The run whose row this was a moment ago; `shown` are the rows of waits that it had. None: it is deleted.

    Raises Unreadable."""
    picture: Picture | None = None
    for _ in range(TRIES):
        picture = await _look(store, row, shown)
        again = await store.find_uid(row.uid)
        if again is None:
            return None
        last = picture.journal[-1][0].seq if picture.journal else -1
        if again == picture.row and not (again.live and await store.read_journal(row.uid, after=last, limit=1)):
            picture.is_steady = True
            return picture
        row = again
    return picture


async def _look(store: Store, row: RunRow, shown: Iterable[WaitRow]) -> Picture:
    now = await store.now()
    picture = Picture(row, await read_journal(store, row.uid), now)
    if not isinstance(next(iter(picture.events), None), RunStarted):
        return picture  # no more can be said of it
    opened = {wait.opened_at for wait in picture.view.waits.values()} | {wait.wait.opened_at for wait in shown}
    for at in sorted(opened):
        picture.waits += await _find_waits(store, row.uid, at)
    picture.tasks = await store.list_tasks(row.uid)
    if queued := [(key, step.attempt) for key, step in picture.steps.items() if step.queue and step.is_begun]:
        picture.lost = await store.lost_attempts(row.uid, queued)
    picture.has_mail = bool((await store.read_inbox(row.uid, limit=1)).messages)
    return picture


async def _find_waits(store: Store, uid: str, opened_at: int) -> list[WaitRow]:
    """Those of one run that were opened then: of that moment they stand first behind this place."""
    found: list[WaitRow] = []
    after = (opened_at, uid, "")
    while True:
        page = await store.list_waits(WaitQuery(after=after, limit=100))
        fitting = [wait for wait in page if (wait.run, wait.wait.opened_at) == (uid, opened_at)]
        found += fitting
        if len(fitting) < 100:
            return found
        after = (opened_at, uid, fitting[-1].wait.key)


async def read_journal(store: Store, uid: str) -> Journal:
    """All entries of a run. Raises Unreadable."""
    journal: Journal = []
    after = -1
    while True:
        page = await store.read_journal(uid, after=after, limit=PAGE)
        for entry in page:
            try:
                journal.append((entry, decode_events(entry.events)))
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                raise Unreadable(f"entry {entry.seq} is none that this release can read: {error}") from error
        if len(page) < PAGE:
            return journal
        after = page[-1].seq
