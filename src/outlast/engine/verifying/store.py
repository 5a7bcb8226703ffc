"""All runs of a store, one after the other. Layer: engine.

What always holds: memory is that of the largest journal, of the rows of open waits, and eight bytes for each entry of
the store: marks have to be compared across runs.
"""

from __future__ import annotations

import itertools
from array import array
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from outlast.core.verifying import Broken, Rule, check_events, check_form
from outlast.engine.verifying.families import check_children
from outlast.engine.verifying.picture import Journal, Picture, Unreadable, read_picture
from outlast.engine.verifying.rows import (
    check_is_kept,
    check_leftovers,
    check_row,
    check_tasks,
    check_timers_are_kept,
    check_waits,
)
from outlast.stores.store import RunQuery, RunRow, Store, WaitQuery, WaitRow

__all__ = ["Judge", "Problem", "Verified", "verify_store"]

PAGE = 500
BUCKETS = 256
Judge = Callable[[Journal], Iterable[Broken]]
"""What else is to be said of a sound journal."""


class Problem(msgspec.Struct, frozen=True):
    """Something of a run that must not be."""

    uid: str
    text: str
    rule: str = ""
    """A `Rule`."""
    id: str = ""
    """What people call the run."""

    def __str__(self) -> str:
        return f"run {self.uid}: {self.text}"


@dataclass
class Verified:
    """What was looked at."""

    runs: int = 0
    entries: int = 0
    moving: int = 0
    """Runs that moved whenever they were looked at: judged by their journals alone."""


class Marks:
    """Those of all entries: no two are the same, or a repeated write could be taken for another's."""

    def __init__(self) -> None:
        self._buckets = [array("q") for _ in range(BUCKETS)]

    def add(self, journal: Journal) -> None:
        """Those of one run."""
        for entry, _ in journal:
            self._buckets[entry.mark % BUCKETS].append(entry.mark)

    def find_doubled(self) -> set[int]:
        """Those that more than one entry has."""
        doubled: set[int] = set()
        for bucket in self._buckets:
            marks = sorted(bucket)
            doubled.update(mark for mark, after in itertools.pairwise(marks) if mark == after)
        return doubled


@dataclass
class _Looking:
    """What of a store is known beside the run at hand."""

    store: Store
    waits: dict[str, list[WaitRow]]
    marks: Marks
    are_parked: bool
    are_all_kept: bool
    workers: set[str] = field(default_factory=set)


async def verify_store(
    store: Store,
    verified: Verified | None = None,
    *,
    run: RunRow | None = None,
    are_parked: bool = False,
    are_all_kept: bool = False,
    judge: Judge | None = None,
) -> AsyncIterator[Problem]:
    """Read every journal of a store, or that of one run, and tell what is broken, as it is found.

    `are_parked`: no run was taken from the dead, so that rows say what they wait for. `are_all_kept`: nobody deletes
    runs. `judge`: what else is to be said of a journal that is sound.
    """
    verified = Verified() if verified is None else verified
    looking = _Looking(store, await _read_waits(store, run), Marks(), are_parked, are_all_kept)
    async for row in _iter_rows(store, run):
        verified.runs += 1
        async for broken in _verify_run(looking, row, verified, judge):
            yield Problem(row.uid, broken.text, broken.rule, row.id)
    if doubled := looking.marks.find_doubled():
        async for problem in _name_doubled(store, run, doubled):
            yield problem


async def _verify_run(looking: _Looking, row: RunRow, verified: Verified, judge: Judge | None) -> AsyncIterator[Broken]:
    try:
        picture = await read_picture(looking.store, row, looking.waits.get(row.uid, ()))
    except Unreadable as error:
        yield Broken(Rule.JOURNAL, str(error))
        return
    if picture is None:
        return
    verified.entries += len(picture.journal)
    verified.moving += not picture.is_steady
    looking.marks.add(picture.journal)
    if form := check_form(picture.journal):
        for broken in form:
            yield broken
        return
    found = check_events(picture.events)
    for broken in found:
        yield broken
    if picture.is_steady:
        async for broken in _check_beside(looking, picture):
            found.append(broken)
            yield broken
    async for broken in check_children(looking.store, picture, are_all_kept=looking.are_all_kept):
        found.append(broken)
        yield broken
    if judge is not None and not found:
        for broken in judge(picture.journal):
            yield broken


async def _check_beside(looking: _Looking, picture: Picture) -> AsyncIterator[Broken]:
    """The run's row, tasks and waits."""
    row, store = picture.row, looking.store
    if row.owner is not None and row.owner not in looking.workers:
        looking.workers = {worker.id for worker in await store.list_workers()}
        if row.owner not in looking.workers and await store.find_uid(row.uid) != row:
            return  # it left in good order, since
    found = [
        *check_row(picture, are_parked=looking.are_parked),
        *check_waits(picture),
        *check_tasks(picture),
        *check_is_kept(picture, looking.workers),
        *check_timers_are_kept(picture),
        *check_leftovers(picture),
    ]
    for broken in found:
        yield broken


async def _iter_rows(store: Store, run: RunRow | None) -> AsyncIterator[RunRow]:
    """Newest first; those that start meanwhile are not among them."""
    if run is not None:
        yield run
        return
    after: tuple[int, str] | None = None
    while True:
        rows = await store.list_runs(RunQuery(after=after, limit=PAGE))
        for row in rows:
            yield row
        if len(rows) < PAGE:
            return
        after = (rows[-1].created_at, rows[-1].uid)


async def _read_waits(store: Store, run: RunRow | None) -> dict[str, list[WaitRow]]:
    """Rows of open waits, by run: a run's own cannot be asked for, and it may have some that its journal has not."""
    waits: defaultdict[str, list[WaitRow]] = defaultdict(list)
    after: tuple[int, str, str] | None = None
    while True:
        page = await store.list_waits(WaitQuery(after=after, limit=PAGE))
        for each in page:
            if run is None or each.run == run.uid:
                waits[each.run].append(each)
        if len(page) < PAGE:
            return waits
        after = (page[-1].wait.opened_at, page[-1].run, page[-1].wait.key)


async def _name_doubled(store: Store, run: RunRow | None, doubled: set[int]) -> AsyncIterator[Problem]:
    """Which entries they are: a second walk, made for a broken store alone."""
    async for row in _iter_rows(store, run):
        after = -1
        while page := await store.read_journal(row.uid, after=after):
            for entry in page:
                if entry.mark in doubled:
                    text = f"entry {entry.seq} has a mark that another entry has too"
                    yield Problem(row.uid, text, Rule.JOURNAL, row.id)
            after = page[-1].seq
