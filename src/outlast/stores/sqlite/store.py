"""`SqliteStore`: the store's methods, each given to the thread that does it. Layer: stores (sqlite).

Each method's promise stands in `outlast.stores.store`; its subject says where it is done: commits, mail, runs, listing,
tasks, workers.
"""

# ruff: noqa: D102 - a method's promise stands in stores/store.py, once for all backends

from __future__ import annotations

import asyncio
import os
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from outlast.errors import InvalidSetting, StoreRefused, StoreUnavailable
from outlast.stores.checking import check_batch, check_decision, check_text
from outlast.stores.sqlite import commits, listing, mail, pools, runs, tasks, versions, workers
from outlast.stores.sqlite.connection import parse_url
from outlast.stores.sqlite.hints import Hints
from outlast.stores.sqlite.reader import Readers
from outlast.stores.sqlite.transaction import wall_clock_us
from outlast.stores.sqlite.writer import Writer
from outlast.stores.store import ALL_WAITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from outlast.core.states import RunStatus
    from outlast.stores.sqlite.transaction import Transaction
    from outlast.stores.store import (
        ClaimedRun,
        ClaimedTask,
        Claiming,
        Entry,
        Held,
        HeldTask,
        Inbox,
        Look,
        NewMessage,
        Outcome,
        OwnedRun,
        Progress,
        QueueRow,
        Reaped,
        Renewed,
        RunQuery,
        RunRow,
        RunSharing,
        Sent,
        Sharing,
        Store,
        TaskOutcome,
        TaskRow,
        VersionRow,
        VersionStatus,
        WaitQuery,
        WaitRow,
        WorkerRow,
    )

__all__ = ["SqliteStore"]

_PAGE = 500
"""Runs touched by one transaction of what touches many, so that it stays under 100 ms."""
_DELETED_PAGE = 50

T = TypeVar("T")


class SqliteStore:
    """A store in one SQLite file, for any number of processes on one machine.

    `clock` answers µs since the Unix epoch, and makes the store's time a test's own."""

    is_remote = False

    def __init__(self, url: str, clock: Callable[[], int] = wall_clock_us) -> None:
        """Raises `InvalidSetting` for a URL that cannot be meant."""
        self.url = url
        self._settings = parse_url(url)
        self._clock = clock
        self._pid: int | None = None
        """The process that opened it. None: it is not open."""

    # --- its life ---

    async def open(self) -> None:
        if self._pid is not None:
            return
        loop = asyncio.get_running_loop()
        hints = Hints(self._settings, loop)
        writer = Writer(self._settings, self._clock, hints.tell)
        await writer.open(loop)
        self._hints = hints
        self._writer = writer
        self._readers = Readers(self._settings, self._clock, loop)
        self._pid = os.getpid()

    async def close(self) -> None:
        if self._pid != os.getpid():  # not open; or a fork's copy, whose threads are elsewhere
            return
        self._pid = None
        await self._hints.close()
        await self._readers.close()
        await self._writer.close()

    async def now(self) -> int:
        self._check()
        return self._clock()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._check()
        return self._hints.add(callback, self._writer)

    def _check(self) -> None:
        """Open, and in the process that opened it."""
        if self._pid == os.getpid():
            return
        if self._pid is None:
            raise StoreUnavailable(self.url, "it is not open")
        raise InvalidSetting(
            "start method of the process",
            "fork",
            f"spawn or forkserver: {self.url} was opened by process {self._pid}, and an SQLite file used on both sides "
            "of a fork is damaged; open a store of its own in the child",
        )

    async def _write(self, work: Callable[[Transaction], T], *, weight: int = 1) -> T:
        self._check()
        return await self._writer.submit(work, weight=weight)

    async def _read(self, work: Callable[[Transaction], T]) -> T:
        self._check()
        return await self._readers.submit(work)

    # --- workers and leases ---

    async def register(self, worker: WorkerRow, lease_us: int) -> int:
        return await self._write(lambda tx: workers.register(tx, worker, lease_us))

    def renew(self, worker_id: str, lease_us: int) -> Renewed | None:
        self._check()
        return self._writer.run_urgently(lambda tx: workers.renew(tx, worker_id, lease_us))

    async def retire(self, worker_id: str) -> int:
        released = 0
        while True:
            page = await self._write(lambda tx: workers.hand_back(tx, worker_id, _PAGE), weight=_PAGE)
            released += page
            if page < _PAGE:
                return released

    async def reap(self, *, limit: int = 500, orphans: bool = False) -> Reaped | None:
        return await self._write(lambda tx: workers.reap(tx, limit, orphans=orphans), weight=limit)

    async def list_workers(self) -> list[WorkerRow]:
        return await self._read(workers.list_workers)

    async def ask_drain(self, worker_id: str) -> int | None:
        return await self._write(lambda tx: workers.ask_drain(tx, worker_id))

    async def count_held(self, worker_ids: Sequence[str], *, most: int) -> list[Held]:
        return await self._read(lambda tx: workers.count_held(tx, worker_ids, most))

    async def list_held_tasks(self, worker_id: str, *, limit: int = 100) -> list[HeldTask]:
        return await self._read(lambda tx: workers.list_held_tasks(tx, worker_id, limit))

    async def look(self, claiming: Claiming) -> Look:
        return await self._read(lambda tx: runs.look(tx, claiming))

    # --- runs ---

    async def commit(self, worker_id: str | None, batch: Sequence[Progress]) -> list[Outcome]:
        self._check()
        quick = None if worker_id is None else commits.plan_plain(worker_id, batch)
        if quick is None:
            check_batch(self.url, worker_id, batch)
        work = commits.prepare_commit(worker_id, batch, is_plain=quick is not None)
        try:
            return await self._writer.submit(work, quick=quick, weight=len(batch), tells=quick is None)
        except StoreRefused as error:
            if error.run or len(batch) != 1:
                raise
            raise StoreRefused(self.url, batch[0].uid, error.detail) from error.__cause__

    async def claim(self, claiming: Claiming, sharing: RunSharing | None = None) -> list[ClaimedRun]:
        return await self._write(lambda tx: runs.claim(tx, claiming, sharing), weight=claiming.limit)

    async def pool_run(self, worker_id: str, claimed: ClaimedRun, pool: str, group: str) -> bool:
        return await self._write(lambda tx: pools.pool_run(tx, worker_id, claimed, pool, group))

    async def list_pools(self) -> list[tuple[str, str]]:
        return await self._read(pools.list_pools)

    async def list_owned(self, worker_id: str) -> list[OwnedRun]:
        return await self._read(lambda tx: runs.list_owned(tx, worker_id))

    async def adopt(self, worker_id: str, uid: str, epoch: int) -> ClaimedRun | None:
        return await self._write(lambda tx: runs.adopt(tx, worker_id, uid, epoch))

    async def read_journal(self, uid: str, *, after: int = -1, limit: int = 1000) -> list[Entry]:
        return await self._read(lambda tx: runs.read_journal(tx, uid, after, limit))

    async def read_inbox(self, uid: str, *, after: int = 0, limit: int = 500) -> Inbox:
        return await self._read(lambda tx: mail.read_inbox(tx, uid, after, limit))

    async def send(self, to: str, message: NewMessage) -> Sent:
        check_text(self.url, to, (to, message.id, message.kind))
        return await self._write(lambda tx: mail.send(tx, to, message))

    async def find_run(self, id: str) -> RunRow | None:
        return await self._read(lambda tx: listing.find_run(tx, id))

    async def find_uid(self, uid: str) -> RunRow | None:
        return await self._read(lambda tx: listing.find_uid(tx, uid))

    async def list_runs(self, query: RunQuery) -> list[RunRow]:
        return await self._read(lambda tx: listing.list_runs(tx, query))

    async def count_runs(self) -> dict[RunStatus, int]:
        return await self._read(listing.count_runs)

    async def delete_run(self, uid: str) -> bool:
        deleted = await self._write(lambda tx: runs.delete_run(tx, uid))
        await self._sweep()
        return deleted

    async def prune(self, statuses: Sequence[RunStatus], finished_before: int, limit: int = 500) -> int:
        pruned = 0
        while pruned < limit:
            asked = min(_DELETED_PAGE, limit - pruned)
            page = await self._write(
                partial(runs.prune, statuses=statuses, finished_before=finished_before, limit=asked), weight=_PAGE
            )
            pruned += page
            await self._sweep()
            if page < asked:
                break
        return pruned

    async def redue(self, waiting_on: Sequence[str], deploy: str) -> int:
        due = 0
        while True:
            page = await self._write(lambda tx: runs.redue(tx, waiting_on, deploy, _PAGE), weight=_PAGE)
            due += page
            if page < _PAGE:
                return due

    async def refit(self, deploy: str) -> int:
        fit = 0
        while True:
            page = await self._write(lambda tx: runs.refit(tx, deploy, _PAGE), weight=_PAGE)
            fit += page
            if page < _PAGE:
                return fit

    async def _sweep(self) -> None:
        """Delete what is left of deleted runs."""
        while await self._write(runs.sweep, weight=_PAGE):
            pass

    # --- waits and tasks ---

    async def list_waits(self, query: WaitQuery = ALL_WAITS) -> list[WaitRow]:
        return await self._read(lambda tx: listing.list_waits(tx, query))

    async def claim_tasks(
        self, claiming: Claiming, functions: Sequence[str], lease_us: int, sharing: Sharing | None = None
    ) -> list[ClaimedTask]:
        return await self._write(lambda tx: tasks.claim_tasks(tx, claiming, functions, lease_us, sharing))

    async def renew_tasks(
        self, worker_id: str, held: Sequence[tuple[str, str, int, bytes]], lease_us: int
    ) -> list[tuple[str, str, int]]:
        return await self._write(lambda tx: tasks.renew_tasks(tx, worker_id, held, lease_us), weight=len(held))

    async def release_tasks(
        self, worker_id: str, held: Sequence[tuple[str, str, int]], delay_us: int
    ) -> list[tuple[str, str, int]]:
        return await self._write(lambda tx: tasks.release_tasks(tx, worker_id, held, delay_us), weight=len(held))

    async def complete_tasks(self, worker_id: str, outcomes: Sequence[TaskOutcome]) -> list[bool]:
        return await self._write(lambda tx: tasks.complete_tasks(tx, worker_id, outcomes), weight=len(outcomes))

    async def lapse_tasks(self, *, limit: int = 100) -> int:
        return await self._write(lambda tx: tasks.lapse_tasks(tx, limit), weight=limit)

    async def lost_attempts(self, uid: str, open_attempts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        return await self._read(lambda tx: tasks.find_lost_attempts(tx, uid, open_attempts))

    async def list_tasks(self, uid: str) -> list[TaskRow]:
        return await self._read(lambda tx: tasks.list_tasks(tx, uid))

    async def list_queues(self) -> list[QueueRow]:
        return await self._read(tasks.list_queues)

    # --- versions ---

    async def save_versions(self, rows: Sequence[VersionRow]) -> int:
        return await self._write(lambda tx: versions.save_versions(tx, rows), weight=len(rows))

    async def find_version(self, workflow: str, version: str) -> VersionRow | None:
        return await self._read(lambda tx: versions.find_version(tx, workflow, version))

    async def list_versions(
        self, workflow: str | None = None, *, status: VersionStatus | None = None, limit: int = 100
    ) -> list[VersionRow]:
        return await self._read(lambda tx: versions.list_versions(tx, workflow, status, limit))

    async def decide_version(self, workflow: str, version: str, status: VersionStatus, by: str) -> bool:
        check_decision(status)
        return await self._write(lambda tx: versions.decide_version(tx, workflow, version, status, by))


if TYPE_CHECKING:
    _: type[Store] = SqliteStore  # the checker's word that nothing of the protocol is missing
