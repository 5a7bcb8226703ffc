"""Runs as rows: claimed, adopted, looked up, deleted. Layer: stores (memory)."""

# ruff: noqa: D102 - a method's promise stands in stores/store.py, once for all backends

from __future__ import annotations

import collections
import heapq
import itertools
from typing import TYPE_CHECKING

import msgspec

from outlast.core.states import RunStatus, is_ended
from outlast.stores.memory.handle import Handle
from outlast.stores.memory.pools import look_at_lanes, take_pooled
from outlast.stores.memory.tasks import has_lapsed
from outlast.stores.store import ALL_WAITS, ClaimedRun, Look, OwnedRun, WaitRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from outlast.stores.memory.tables import Run, Tables
    from outlast.stores.store import Claiming, Entry, RunQuery, RunRow, RunSharing, WaitQuery

__all__ = ["Runs"]

_MAIL_LIMIT = 500  # of uids in one `Look`


class Runs(Handle):
    """The store's methods about whole runs."""

    # --- whose they are ---

    async def claim(self, claiming: Claiming, sharing: RunSharing | None = None) -> list[ClaimedRun]:
        with self._opened() as tables:
            self._require_lease(claiming.worker)
            now = tables.clock()
            if sharing is None:
                runs = tables.due.take(
                    claiming.queues, now, claiming.limit, _fits(claiming), oldest_first=claiming.oldest_first
                )
            else:
                runs = take_pooled(tables, claiming, sharing, now)
            queued = {run.uid for run in runs if run.status is RunStatus.QUEUED}
            for run in runs:
                tables.own(run, claiming.worker)
                run.updated_at = now
                run.started_at = now if run.started_at is None else run.started_at
                if run.status is RunStatus.QUEUED:
                    run.status = RunStatus.RUNNING
            return [_to_claimed(run, was_queued=run.uid in queued) for run in runs]

    async def list_owned(self, worker_id: str) -> list[OwnedRun]:
        with self._opened() as tables:
            return [OwnedRun(run.uid, run.epoch) for run in tables.owned.get(worker_id, {}).values()]

    async def adopt(self, worker_id: str, uid: str, epoch: int) -> ClaimedRun | None:
        with self._opened() as tables:
            self._require_lease(worker_id)
            run = tables.runs.get(uid)
            if run is None or run.owner != worker_id or run.epoch != epoch:
                return None
            tables.own(run, worker_id)
            return _to_claimed(run)

    async def pool_run(self, worker_id: str, claimed: ClaimedRun, pool: str, group: str) -> bool:
        with self._opened() as tables:
            run = tables.runs.get(claimed.uid)
            if run is None or run.owner != worker_id or run.epoch != claimed.epoch or run.pool is not None:
                return False
            tables.disown(run)
            tables.set_pool(run, pool, group)
            if claimed.was_queued:
                run.status = RunStatus.QUEUED
                run.started_at = None if run.started_at == run.updated_at else run.started_at
            tables.wake(run, tables.clock())
            return True

    async def list_pools(self) -> list[tuple[str, str]]:
        with self._opened() as tables:
            return sorted(tables.pools)

    async def refit(self, deploy: str) -> int:
        with self._opened() as tables:
            left = [
                run
                for run in tables.runs.values()
                if deploy in run.unfit and run.live and run.status is not RunStatus.SUSPENDED
            ]
            for run in left:
                run.unfit.discard(deploy)
            if left:
                tables.hints.tell()
            return len(left)

    async def redue(self, waiting_on: Sequence[str], deploy: str) -> int:
        with self._opened() as tables:
            now = tables.clock()
            found = [
                run
                for run in tables.runs.values()
                if run.status is RunStatus.SUSPENDED
                and run.owner is None
                and run.waiting_on in waiting_on
                and deploy not in run.unfit
                and (run.wake_at is None or run.wake_at > now)
            ]
            for run in found:
                tables.wake(run, now)
            return len(found)

    async def look(self, claiming: Claiming) -> Look:
        with self._opened() as tables:
            now = tables.clock()
            next_at = tables.due.next_at(claiming.queues, _fits(claiming))
            lanes, lanes_at = look_at_lanes(tables, claiming, now)
            next_task_at = tables.due_tasks.next_at(claiming.queues, lambda _: True)
            return Look(
                now=now,
                due=next_at is not None and next_at <= now,
                next_at=min((at for at in (next_at, lanes_at) if at is not None), default=None),
                lanes=lanes,
                mail=_unread_of(tables, claiming.worker),
                tasks=next_task_at is not None and next_task_at <= now,
                stopped=any(task.stop and task.owner == claiming.worker for task in tables.held_tasks),
                lapsed=any(has_lapsed(task, now) for task in tables.held_tasks),
                dead=any(worker.dead_at is not None or worker.expires_at <= now for worker in tables.workers.values()),
            )

    # --- what is known of them ---

    async def read_journal(self, uid: str, *, after: int = -1, limit: int = 1000) -> list[Entry]:
        with self._opened() as tables:
            run = tables.runs.get(uid)
            return [] if run is None else run.journal[after + 1 : after + 1 + limit]

    async def find_run(self, id: str) -> RunRow | None:
        with self._opened() as tables:
            run = tables.holders.get(id)
            return None if run is None else run.to_row()

    async def find_uid(self, uid: str) -> RunRow | None:
        with self._opened() as tables:
            run = tables.runs.get(uid)
            return None if run is None else run.to_row()

    async def list_runs(self, query: RunQuery) -> list[RunRow]:
        with self._opened() as tables:
            matches = _matcher(query)
            found = (run for run in tables.runs.values() if matches(run))
            return [run.to_row() for run in heapq.nlargest(query.limit, found, key=_age)]

    async def list_waits(self, query: WaitQuery = ALL_WAITS) -> list[WaitRow]:
        with self._opened() as tables:
            rows = (
                WaitRow(run.uid, run.new.id, run.new.workflow, wait, run.new.user)
                for run in tables.runs.values()
                for wait in run.waits.values()
            )
            fitting = (row for row in rows if _fits_waits(row, query))
            return heapq.nsmallest(query.limit, fitting, key=_wait_place)

    # --- their deletion ---

    async def count_runs(self) -> dict[RunStatus, int]:
        with self._opened() as tables:
            return dict(collections.Counter(run.status for run in tables.runs.values() if not is_ended(run.status)))

    async def delete_run(self, uid: str) -> bool:
        with self._opened() as tables:
            run = tables.runs.get(uid)
            if run is None:
                return True
            if not _is_deletable(tables, run):
                return False
            tables.drop_run(run)
            return True

    async def prune(self, statuses: Sequence[RunStatus], finished_before: int, limit: int = 500) -> int:
        with self._opened() as tables:
            old = (
                run
                for run in tables.runs.values()
                if run.status in statuses
                and run.finished_at is not None
                and run.finished_at < finished_before
                and _is_deletable(tables, run)
            )
            doomed = list(itertools.islice(old, limit))
            for run in doomed:
                tables.drop_run(run)
            return len(doomed)


def _fits(claiming: Claiming) -> Callable[[Run], bool]:
    return lambda run: claiming.deploy not in run.unfit


def _to_claimed(run: Run, *, was_queued: bool = False) -> ClaimedRun:
    new = run.new
    return ClaimedRun(run.uid, run.epoch, run.recoveries, run.status, new.workflow, run.queue, run.pool, was_queued)


def _unread_of(tables: Tables, worker_id: str) -> tuple[str, ...]:
    """The worker's runs that have unread messages, by uid."""
    unread = (run.uid for run in tables.unread.values() if run.owner == worker_id)
    return tuple(itertools.islice(unread, _MAIL_LIMIT))


def _is_deletable(tables: Tables, run: Run) -> bool:
    """It ended, and so did the run at the root: an unwind needs the journals of children (SPEC X5). And if it is a
    first round, the last one, which is found by it."""
    root = tables.runs.get(run.new.root) if run.new.root is not None else None
    last = tables.runs.get(run.next) if run.next is not None and run.new.origin is None else None
    return not run.live and run.owner is None and not any(other is not None and other.live for other in (root, last))


def _age(run: Run) -> tuple[int, str]:
    return run.created_at, run.uid


def _matcher(query: RunQuery) -> Callable[[Run], bool]:
    """The query's filters as one predicate."""
    equal = [
        (name, wanted)
        for name, wanted in (("workflow", query.workflow), ("user", query.user), ("parent", query.parent))
        if wanted is not None
    ]
    attributes = {name: _canonical(msgspec.json.decode(value)) for name, value in query.attributes}

    def matches(run: Run) -> bool:
        return (
            all(getattr(run.new, name) == wanted for name, wanted in equal)
            and query.owner in {None, run.owner}
            and (not query.statuses or run.status in query.statuses)
            and (query.waiting_on is None or _is_like(run.waiting_on, query.waiting_on))
            and (query.created_from is None or run.created_at >= query.created_from)
            and (query.created_until is None or run.created_at < query.created_until)
            and (query.after is None or _age(run) < query.after)
            and (not attributes or _has(run.new.attributes, attributes))
        )

    return matches


def _is_like(text: str, pattern: str) -> bool:
    return text.startswith(pattern[:-1]) if pattern.endswith("*") else text == pattern


def _has(attributes: bytes, wanted: dict[str, bytes]) -> bool:
    found = msgspec.json.decode(attributes)
    return all(name in found and _canonical(found[name]) == value for name, value in wanted.items())


def _canonical(value: object) -> bytes:
    """JSON that is equal when the values are: in Python `True` and `1` are, in JSON they are not."""
    return msgspec.json.encode(value, order="deterministic")


def _wait_place(row: WaitRow) -> tuple[int, str, str]:
    return row.wait.opened_at, row.run, row.wait.key


def _fits_waits(row: WaitRow, query: WaitQuery) -> bool:
    return (
        query.kind in {None, row.wait.kind}
        and query.name in {None, row.wait.name}
        and query.workflow in {None, row.workflow}
        and (query.after is None or _wait_place(row) > query.after)
    )
