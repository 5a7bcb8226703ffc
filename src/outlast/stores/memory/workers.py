"""Workers, their leases, and what becomes of what the dead ones held. Layer: stores (memory).

What always holds: a worker is marked dead before any of its runs is touched, so what it still sends is refused; and its
row goes only when no run of it is left.
"""

# ruff: noqa: D102 - a method's promise stands in stores/store.py, once for all backends

from __future__ import annotations

import collections
import heapq
import itertools
from typing import TYPE_CHECKING

import msgspec

from outlast.errors import Fenced
from outlast.stores.memory.handle import Handle
from outlast.stores.memory.tables import Worker
from outlast.stores.store import Held, HeldTask, Reaped, Renewed, recovery_delay_us

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.stores.memory.tables import Run, Task
    from outlast.stores.store import WorkerRow

__all__ = ["Workers"]


class Workers(Handle):
    """The store's methods about workers."""

    async def register(self, worker: WorkerRow, lease_us: int) -> int:
        with self._opened() as tables:
            now = tables.clock()
            known = tables.workers.get(worker.id)
            if known is not None and not self.may_renew(known, now):
                raise Fenced(worker.id)
            row = msgspec.structs.replace(worker, started_at=worker.started_at or now)
            asked_at = None if known is None else known.drain_asked_at
            tables.workers[worker.id] = Worker(row, now + lease_us, now, drain_asked_at=asked_at)
            return now

    def renew(self, worker_id: str, lease_us: int) -> Renewed | None:
        with self._opened() as tables:
            now = tables.clock()
            worker = tables.workers.get(worker_id)
            if worker is None or not self.may_renew(worker, now):
                return None
            worker.expires_at, worker.renewed_at = now + lease_us, now
            return Renewed(now, worker.drain_asked_at)

    async def ask_drain(self, worker_id: str) -> int | None:
        with self._opened() as tables:
            now = tables.clock()
            worker = tables.workers.get(worker_id)
            if worker is None or _is_gone(worker, now):
                return None
            if worker.drain_asked_at is None:
                worker.drain_asked_at = now
            return worker.drain_asked_at

    async def retire(self, worker_id: str) -> int:
        with self._opened() as tables:
            if tables.workers.pop(worker_id, None) is None:
                return 0
            now = tables.clock()
            runs = list(tables.owned.get(worker_id, {}).values())
            for run in runs:
                tables.disown(run)
                run.epoch += 1
                tables.wake(run, now)
            tables.hints.tell()  # of its tasks, too
            return len(runs)

    async def reap(self, *, limit: int = 500, orphans: bool = False) -> Reaped | None:
        with self._opened() as tables:
            now = tables.clock()
            worker = next((each for each in tables.workers.values() if _is_gone(each, now)), None)
            if worker is None:
                lost = next((owner for owner in tables.owned if owner not in tables.workers), None)
                return self._release(lost, limit, now) if orphans and lost is not None else None
            if worker.dead_at is None:
                worker.dead_at = now
            reaped = self._release(worker.row.id, limit, now)
            if reaped.done:
                del tables.workers[worker.row.id]
            return reaped

    async def list_workers(self) -> list[WorkerRow]:
        with self._opened() as tables:
            return [
                msgspec.structs.replace(
                    worker.row,
                    expires_at=worker.expires_at,
                    dead_at=worker.dead_at,
                    renewed_at=worker.renewed_at,
                    drain_asked_at=worker.drain_asked_at,
                )
                for worker in tables.workers.values()
            ]

    async def count_held(self, worker_ids: Sequence[str], *, most: int) -> list[Held]:
        with self._opened() as tables:
            held = collections.Counter(task.owner for task in tables.held_tasks)
            return [Held(one, min(len(tables.owned.get(one, ())), most), min(held[one], most)) for one in worker_ids]

    async def list_held_tasks(self, worker_id: str, *, limit: int = 100) -> list[HeldTask]:
        with self._opened() as tables:
            held = [_to_held(tables.runs[task.run], task) for task in tables.held_tasks if task.owner == worker_id]
            return heapq.nsmallest(limit, held, key=lambda task: (task.claimed_at, task.run, task.key))

    def _release(self, worker_id: str, limit: int, now: int) -> Reaped:
        """Take runs from a dead worker."""
        tables = self._tables
        runs = list(itertools.islice(tables.owned.get(worker_id, {}).values(), limit))
        for run in runs:
            tables.disown(run)
            run.epoch += 1
            tables.wake(run, now + recovery_delay_us(run.recoveries))
            run.recoveries += 1
            run.updated_at = now
        tables.hints.tell()
        return Reaped(worker_id, len(runs), done=worker_id not in tables.owned)


def _to_held(run: Run, task: Task) -> HeldTask:
    new = task.new
    return HeldTask(
        run.uid, run.new.id, run.new.workflow, new.key, new.attempt, new.queue, new.function, task.claimed_at or 0,
        run.new.user,
    )  # fmt: skip


def _is_gone(worker: Worker, now: int) -> bool:
    return worker.dead_at is not None or worker.expires_at <= now
