"""The yardstick for everything durable: the store alone, given just what the engine gave it.

What always holds: the rows are the engine's own (the same runs, bytes and batches), they go to the same table by the
same statement through the same writer thread, and each batch is committed before the next begins, as in the engine.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec

from benchmarks.figures import Rate
from outlast.engine.ids import new_uid
from outlast.stores.open import open_store
from outlast.stores.store import LANDED, Effects, Entry, NewRun, Outcome, Progress, Store, WorkerRow

__all__ = ["RowWriter", "Tape", "recorded", "write_rows", "write_same"]

QUEUE = "outlast-bench-rows"
"""Nobody serves it."""
LEASE_US = 3_600_000_000
MARK = 1
"""Of the entries that were there before; what is measured lands behind them."""

Batch = list[Progress]


class Tape:
    """What a store was given, commit by commit."""

    def __init__(self, *, keeps: bool) -> None:
        self._keeps = keeps
        self._batches: list[Batch] = []
        self._marks: list[tuple[int, float]] = []
        """Entries of each commit, and the process's CPU seconds before it."""

    def note(self, batch: Sequence[Progress]) -> None:
        """Another commit."""
        self._marks.append((len(batch), time.process_time()))
        if self._keeps:
            self._batches.append(list(batch))

    def last_batches(self, entries: int) -> list[Batch]:
        """The last commits, which together have so many entries."""
        return self._batches[self._first_of(entries) :]

    def last_commits(self, entries: int) -> int:
        """How many they are."""
        return len(self._marks) - self._first_of(entries)

    def last_cpu_seconds(self, entries: int) -> float:
        """What this process took from the first of them on, the last one not counted."""
        return self._marks[-1][1] - self._marks[self._first_of(entries)][1]

    def _first_of(self, entries: int) -> int:
        """Raises `ValueError` if no commits at the end have so many entries together."""
        left, first = entries, len(self._marks)
        while left > 0 and first > 0:
            first -= 1
            left -= self._marks[first][0]
        if left:
            raise ValueError(f"no commits at the end have {entries} entries together")
        return first


@contextmanager
def recorded(url: str, *, keeps: bool = False) -> Iterator[Tape]:
    """Note what every store of this kind is given meanwhile.

    With `keeps`, all of it: it stays in memory, so that is not for what is timed."""
    kind: Any = type(open_store(url))
    tape, commit, name = Tape(keeps=keeps), kind.commit, "commit"

    def noted(store: Store, worker_id: str | None, batch: Sequence[Progress]) -> object:
        tape.note(batch)
        return commit(store, worker_id, batch)

    setattr(kind, name, noted)
    try:
        yield tape
    finally:
        setattr(kind, name, commit)


async def write_rows(url: str, batches: Sequence[Batch]) -> Rate:
    """Rows, when these batches are nothing but rows of the journal."""
    async with _opened(url) as store:
        rows = await RowWriter.register(store)
        uids = {progress.uid for batch in batches for progress in batch}
        await rows.begin(sorted(uids))
        plain = [[_behind(progress) for progress in batch] for batch in batches]
        return await rows.write(plain)


async def write_same(url: str, batches: Sequence[Batch]) -> Rate:
    """Rows, when these batches do all they did: rows, and the starts and ends of runs."""
    async with _opened(url) as store:
        rows = await RowWriter.register(store)
        return await rows.write(batches)


class RowWriter:
    """Commits rows as a worker of its own, on a store that is open."""

    def __init__(self, store: Store, worker: str) -> None:
        self._store = store
        self.worker = worker

    @classmethod
    async def register(cls, store: Store) -> RowWriter:
        """With a lease that outlives the measurement."""
        now = await store.now()
        worker = new_uid(now)
        await store.register(WorkerRow(worker, platform.node(), os.getpid(), (QUEUE,), started_at=now), LEASE_US)
        return cls(store, worker)

    async def begin(self, uids: Sequence[str]) -> None:
        """Runs for rows to land behind: they have an entry 0, and never end."""
        now = await self._store.now()
        for first in range(0, len(uids), 500):
            await self._commit([_beginning(uid, now) for uid in uids[first : first + 500]])

    async def write(self, batches: Sequence[Batch]) -> Rate:
        """Commit them, one after another."""
        commit, worker = self._store.commit, self.worker
        began, cpu = time.perf_counter(), time.process_time()
        outcomes = [await commit(worker, batch) for batch in batches]
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        _require_landed(outcome for batch in outcomes for outcome in batch)
        rows = sum(map(len, batches))
        return Rate(rows / seconds, cpu * 1e6 / rows)

    async def time_commits(self, uid: str, entries: Sequence[Entry]) -> list[float]:
        """Commit these one by one, for this new run; seconds of each."""
        await self.begin([uid])
        commit, worker, mark = self._store.commit, self.worker, MARK
        taken: list[float] = []
        outcomes: list[Outcome] = []
        for seq, entry in enumerate(entries, 1):
            progress = Progress(uid, seq, entry.at, entry.mark, mark, entry.events)
            mark = entry.mark
            began = time.perf_counter()
            outcomes += await commit(worker, [progress])
            taken.append(time.perf_counter() - began)
        _require_landed(outcomes)
        return taken

    async def _commit(self, batch: Batch) -> None:
        _require_landed(await self._store.commit(self.worker, batch))


def _beginning(uid: str, at: int) -> Progress:
    new = NewRun(uid, QUEUE, "1", queue=QUEUE, claimed=True, root=uid)
    return Progress(uid, 0, at, MARK, 0, b"[]", Effects(start=new))


def _behind(progress: Progress) -> Progress:
    """The same row, one position later, without what its commit did besides."""
    prev = progress.prev if progress.seq else MARK
    return msgspec.structs.replace(progress, seq=progress.seq + 1, prev=prev, effects=None)


def _require_landed(outcomes: Iterable[Outcome]) -> None:
    """A yardstick whose rows are refused would be quick."""
    if any(outcome != LANDED for outcome in outcomes):
        raise AssertionError("a row of the yardstick did not land")


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[Store]:
    store = open_store(url)
    await store.open()
    try:
        yield store
    finally:
        await store.close()
