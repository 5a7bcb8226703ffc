"""Workers, their leases, and what becomes of what the dead ones held. Layer: stores (memory).

What always holds: a worker is marked dead before any of its runs is touched, so what it still sends is refused; and its
row goes only when no run of it is left.
"""

# ruff: noqa: D102 - a method's promise stands in stores/store.py, once for all backends

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import msgspec

from outlast.errors import Fenced
from outlast.stores.memory.handle import Handle
from outlast.stores.memory.tables import Worker
from outlast.stores.store import Reaped, recovery_delay_us

if TYPE_CHECKING:
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
            tables.workers[worker.id] = Worker(row, expires_at=now + lease_us)
            return now

    def renew(self, worker_id: str, lease_us: int) -> int | None:
        with self._opened() as tables:
            now = tables.clock()
            worker = tables.workers.get(worker_id)
            if worker is None or not self.may_renew(worker, now):
                return None
            worker.expires_at = now + lease_us
            return now

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
                msgspec.structs.replace(worker.row, expires_at=worker.expires_at, dead_at=worker.dead_at)
                for worker in tables.workers.values()
            ]

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


def _is_gone(worker: Worker, now: int) -> bool:
    return worker.dead_at is not None or worker.expires_at <= now
