"""`PostgresStore`: the store's methods, each given a connection. Layer: stores (postgres).

Each method's promise stands in `outlast.stores.store`; its subject says where it is done: commits, mail, runs, listing,
tasks, workers, deletion.
"""

# ruff: noqa: D102 - a method's promise stands in stores/store.py, once for all backends

from __future__ import annotations

import asyncio
import os
import random
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from outlast.errors import InvalidSetting, StoreBusy, StoreRefused, StoreUnavailable
from outlast.stores.checking import check_batch, check_decision, check_text
from outlast.stores.postgres import commits, deletion, listing, mail, runs, tasks, versions, workers
from outlast.stores.postgres.errors import is_undone
from outlast.stores.postgres.heartbeat import Heartbeats
from outlast.stores.postgres.hints import Hints
from outlast.stores.postgres.migrate import is_up_to_date, migrate
from outlast.stores.postgres.pool import Pool
from outlast.stores.postgres.settings import Role, parse_url
from outlast.stores.postgres.warming import Warming
from outlast.stores.store import ALL_WAITS
from outlast.stores.together import Together

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from outlast.core.states import RunStatus
    from outlast.stores.postgres.link import Link
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

__all__ = ["PostgresStore"]

_PAGE = 500
"""Runs touched by one transaction of what touches many."""
_DELETED_PAGE = 100
_FIRST = 100
"""Entries of each journal, where those of many runs are read at once: most have no more."""
_TRIES = 8
"""Of what the server took back for another's sake: a deadlock's victim."""

T = TypeVar("T")


class PostgresStore:
    """A store in a schema of a PostgreSQL database, for any number of processes on any number of machines."""

    is_remote = True

    def __init__(self, url: str) -> None:
        """Raises `InvalidSetting` for a URL that cannot be meant."""
        self._settings = parse_url(url)
        self.url = self._settings.url
        self.schema = self._settings.schema
        self._journals: Together[str, list[Entry]] = Together(
            lambda uids: self._ask(lambda link: runs.read_journals(link, uids, _FIRST)),
        )
        self._inboxes: Together[tuple[str, int, int], Inbox] = Together(
            lambda wanted: self._ask(lambda link: mail.read_inboxes(link, wanted)),
        )
        self._pid: int | None = None
        """The process that opened it. None: it is not open."""

    # --- its life ---

    async def open(self) -> None:
        if self._pid is not None:
            return
        settings = self._settings
        working = Pool(settings, Role.WORK, settings.connections)
        try:
            async with working.link() as link:
                is_prepared = await is_up_to_date(link)
            if not is_prepared:
                await migrate(settings)
        except BaseException:
            await working.close()
            raise
        self._working = working
        self._writing = Pool(settings, Role.WORK)
        self._listing = Pool(settings, Role.LISTS)
        self._warming = Warming(self._working, self._writing)
        self._hints = Hints(self._working)
        self._heartbeats = Heartbeats(settings)
        self._pid = os.getpid()

    async def close(self) -> None:
        if self._pid != os.getpid():  # not open; or a fork's copy, whose loop is elsewhere
            return
        self._pid = None
        await self._warming.close()
        await self._hints.close()
        await self._heartbeats.close()
        for pool in (self._writing, self._working, self._listing):
            await pool.close()

    async def now(self) -> int:
        return await self._ask(workers.now)

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        self._check()
        return self._hints.add(callback)

    def _check(self) -> None:
        """Open, and in the process that opened it."""
        if self._pid == os.getpid():
            return
        if self._pid is None:
            raise StoreUnavailable(self.url, "it is not open")
        raise InvalidSetting(
            "start method of the process",
            "fork",
            f"spawn or forkserver: {self.url} was opened by process {self._pid}, and a connection that both sides of a "
            "fork use is garbled; open a store of its own in the child",
        )

    async def _ask(self, work: Callable[[Link], Awaitable[T]], *, again: bool = True) -> T:
        """Have this done with a connection. Undone by the server: it is done again. Lost with its connection: `again`
        says that it may be sent once more, because a repeat is harmless and the one who asks need not know."""
        self._check()
        return await self._use(self._working, work, again=again)

    async def _use(self, pool: Pool, work: Callable[[Link], Awaitable[T]], *, again: bool) -> T:
        tries = 0
        while True:
            tries += 1
            try:
                link = await pool.take()
                try:
                    return await work(link)
                finally:
                    pool.give_back(link)
            except StoreBusy as error:
                if not is_undone(error) or tries >= _TRIES:
                    raise
                await asyncio.sleep(random.uniform(0, 0.002) * 2**tries)
            except StoreUnavailable:
                if not again:
                    raise
                again = False

    async def _change(self, work: Callable[[Link], Awaitable[T]], *, again: bool = True) -> T:
        """The same for what others may want to know of."""
        answer = await self._ask(work, again=again)
        if answer:
            self._hints.tell()
        return answer

    # --- workers and leases ---

    async def register(self, worker: WorkerRow, lease_us: int) -> int:
        check_text(
            self.url,
            worker.id,
            (worker.id, worker.host, worker.deploy, *worker.queues, *worker.functions, *worker.versions),
        )
        settings = self._settings.with_lease(lease_us)
        self._check()
        if settings.lease_us < self._working.settings.lease_us:
            self._writing.settings = self._working.settings = settings
        await self._heartbeats.warm_up(lease_us)
        return await self._ask(lambda link: workers.register(link, worker, lease_us))

    def renew(self, worker_id: str, lease_us: int) -> Renewed | None:
        self._check()
        return self._heartbeats.renew(worker_id, lease_us)

    async def retire(self, worker_id: str) -> int:
        released = 0
        while True:
            page = await self._change(lambda link: workers.hand_back(link, worker_id, _PAGE))
            released += page
            if page < _PAGE:
                return released

    async def reap(self, *, limit: int = 500, orphans: bool = False) -> Reaped | None:
        return await self._change(lambda link: workers.reap(link, limit, orphans=orphans))

    async def list_workers(self) -> list[WorkerRow]:
        return await self._ask(workers.list_workers)

    async def ask_drain(self, worker_id: str) -> int | None:
        return await self._ask(lambda link: workers.ask_drain(link, worker_id))

    async def count_held(self, worker_ids: Sequence[str], *, most: int) -> list[Held]:
        return await self._ask(lambda link: workers.count_held(link, worker_ids, most))

    async def list_held_tasks(self, worker_id: str, *, limit: int = 100) -> list[HeldTask]:
        return await self._ask(lambda link: workers.list_held_tasks(link, worker_id, limit))

    async def look(self, claiming: Claiming) -> Look:
        look = await self._ask(lambda link: runs.look(link, claiming))
        if not (look.due or look.tasks):
            self._warming.begin(claiming)
        return look

    # --- runs ---

    async def commit(self, worker_id: str | None, batch: Sequence[Progress]) -> list[Outcome]:
        self._check()
        check_batch(self.url, worker_id, batch)
        try:
            outcomes = await self._use(self._writing, lambda link: commits.commit(link, worker_id, batch), again=False)
        except StoreRefused as error:
            if error.run or len(batch) != 1:
                raise
            raise StoreRefused(self.url, batch[0].uid, error.detail) from error.__cause__
        if any(commits.is_news(progress) for progress in batch):
            self._hints.tell()
        return outcomes

    async def claim(self, claiming: Claiming, sharing: RunSharing | None = None) -> list[ClaimedRun]:
        return await self._ask(lambda link: runs.claim(link, claiming, sharing), again=False)

    async def pool_run(self, worker_id: str, claimed: ClaimedRun, pool: str, group: str) -> bool:
        return await self._change(lambda link: runs.pool_run(link, worker_id, claimed, pool, group))

    async def list_pools(self) -> list[tuple[str, str]]:
        return await self._ask(runs.list_pools)

    async def list_owned(self, worker_id: str) -> list[OwnedRun]:
        return await self._ask(lambda link: runs.list_owned(link, worker_id))

    async def adopt(self, worker_id: str, uid: str, epoch: int) -> ClaimedRun | None:
        return await self._ask(lambda link: runs.adopt(link, worker_id, uid, epoch), again=False)

    async def read_journal(self, uid: str, *, after: int = -1, limit: int = 1000) -> list[Entry]:
        if after >= 0 or limit <= _FIRST:
            return await self._ask(lambda link: runs.read_journal(link, uid, after, limit))
        first = await self._journals.ask(uid)
        if len(first) < _FIRST:
            return first
        return first + await self.read_journal(uid, after=first[-1].seq, limit=limit - _FIRST)

    async def read_inbox(self, uid: str, *, after: int = 0, limit: int = 500) -> Inbox:
        return await self._inboxes.ask((uid, after, limit))

    async def send(self, to: str, message: NewMessage) -> Sent:
        check_text(self.url, to, (to, message.id, message.kind))
        sent = await self._ask(lambda link: mail.send(link, to, message))
        if sent.verdict == "sent":
            self._hints.tell()
        return sent

    async def find_run(self, id: str) -> RunRow | None:
        return await self._ask(lambda link: listing.find_run(link, id))

    async def find_uid(self, uid: str) -> RunRow | None:
        return await self._ask(lambda link: listing.find_uid(link, uid))

    async def list_runs(self, query: RunQuery) -> list[RunRow]:
        self._check()
        return await self._use(self._listing, lambda link: listing.list_runs(link, query), again=True)

    async def count_runs(self) -> dict[RunStatus, int]:
        self._check()
        return await self._use(self._listing, listing.count_runs, again=True)

    async def delete_run(self, uid: str) -> bool:
        deleted = await self._ask(lambda link: deletion.delete_run(link, uid))
        await self._sweep()
        return deleted

    async def prune(self, statuses: Sequence[RunStatus], finished_before: int, limit: int = 500) -> int:
        pruned = 0
        while pruned < limit:
            asked = min(_DELETED_PAGE, limit - pruned)
            page = await self._ask(
                partial(deletion.prune, statuses=statuses, finished_before=finished_before, limit=asked)
            )
            pruned += page
            await self._sweep()
            if page < asked:
                break
        return pruned

    async def redue(self, waiting_on: Sequence[str], deploy: str) -> int:
        due = 0
        while True:
            page = await self._change(lambda link: runs.redue(link, waiting_on, deploy, _PAGE))
            due += page
            if page < _PAGE:
                return due

    async def refit(self, deploy: str) -> int:
        fit = 0
        while True:
            page = await self._change(lambda link: runs.refit(link, deploy, _PAGE))
            fit += page
            if page < _PAGE:
                return fit

    async def _sweep(self) -> None:
        """Delete what is left of deleted runs."""
        while await self._ask(deletion.sweep):
            pass

    # --- waits and tasks ---

    async def list_waits(self, query: WaitQuery = ALL_WAITS) -> list[WaitRow]:
        self._check()
        return await self._use(self._listing, lambda link: listing.list_waits(link, query), again=True)

    async def claim_tasks(
        self, claiming: Claiming, functions: Sequence[str], lease_us: int, sharing: Sharing | None = None
    ) -> list[ClaimedTask]:
        return await self._ask(
            lambda link: tasks.claim_tasks(link, claiming, functions, lease_us, sharing), again=False
        )

    async def renew_tasks(
        self, worker_id: str, held: Sequence[tuple[str, str, int, bytes]], lease_us: int
    ) -> list[tuple[str, str, int]]:
        return await self._ask(lambda link: tasks.renew_tasks(link, worker_id, held, lease_us))

    async def release_tasks(
        self, worker_id: str, held: Sequence[tuple[str, str, int]], delay_us: int
    ) -> list[tuple[str, str, int]]:
        return await self._ask(lambda link: tasks.release_tasks(link, worker_id, held, delay_us))

    async def complete_tasks(self, worker_id: str, outcomes: Sequence[TaskOutcome]) -> list[bool]:
        return await self._change(lambda link: tasks.complete_tasks(link, worker_id, outcomes), again=False)

    async def lapse_tasks(self, *, limit: int = 100) -> int:
        return await self._change(lambda link: tasks.lapse_tasks(link, limit))

    async def lost_attempts(self, uid: str, open_attempts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        return await self._ask(lambda link: tasks.find_lost_attempts(link, uid, open_attempts))

    async def list_tasks(self, uid: str) -> list[TaskRow]:
        return await self._ask(lambda link: tasks.list_tasks(link, uid))

    async def list_queues(self) -> list[QueueRow]:
        self._check()
        return await self._use(self._listing, tasks.list_queues, again=True)

    # --- versions ---

    async def save_versions(self, rows: Sequence[VersionRow]) -> int:
        return await self._ask(lambda link: versions.save_versions(link, rows))

    async def find_version(self, workflow: str, version: str) -> VersionRow | None:
        return await self._ask(lambda link: versions.find_version(link, workflow, version))

    async def list_versions(
        self, workflow: str | None = None, *, status: VersionStatus | None = None, limit: int = 100
    ) -> list[VersionRow]:
        self._check()
        work = partial(versions.list_versions, workflow=workflow, status=status, limit=limit)
        return await self._use(self._listing, work, again=True)

    async def decide_version(self, workflow: str, version: str, status: VersionStatus, by: str) -> bool:
        check_decision(status)
        return await self._ask(lambda link: versions.decide_version(link, workflow, version, status, by), again=False)


if TYPE_CHECKING:
    _: type[Store] = PostgresStore  # the checker's word that nothing of the protocol is missing
