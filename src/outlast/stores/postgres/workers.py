"""Workers, their leases, and what becomes of what the dead ones held. Layer: stores (postgres).

What always holds: a worker's row is locked against its fence and marked dead before any of its runs is touched, so what
it has in flight is waited for, and what it still sends is refused (PROTOCOL F1); and its row goes only when no run of
it is left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from outlast.errors import Fenced
from outlast.stores.postgres.migrate import known_migrations
from outlast.stores.postgres.statements import load_statements
from outlast.stores.store import Held, HeldTask, Reaped, Renewed, WorkerRow, recovery_delay_us

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.stores.postgres.link import Link, Record

__all__ = [
    "ask_drain",
    "count_held",
    "hand_back",
    "list_held_tasks",
    "list_workers",
    "now",
    "reap",
    "register",
    "renew",
]

_sql = load_statements("workers")

_LAST_DELAY = 8  # from here on `recovery_delay_us` does not grow
_DELAYS = [recovery_delay_us(n) for n in range(_LAST_DELAY)]


async def now(link: Link) -> int:
    """The store's `now`."""
    [(now_us,)] = await link.fetch(_sql["now"])
    return int(now_us)


async def register(link: Link, worker: WorkerRow, lease_us: int) -> int:
    """The store's `register`."""
    row = await link.find(
        _sql["register"],
        id=worker.id,
        host=worker.host,
        pid=worker.pid,
        queues=worker.queues,
        functions=worker.functions,
        deploy=worker.deploy,
        python=worker.python,
        versions=worker.versions,
        release=worker.release,
        schema=known_migrations()[-1].number,
        started_at=worker.started_at,
        lease=lease_us,
    )
    if row is None:
        raise Fenced(worker.id)
    return int(row[0])


async def renew(link: Link, worker_id: str, lease_us: int) -> Renewed | None:
    """The store's `renew`."""
    row = await link.find(_sql["renew"], id=worker_id, lease=lease_us)
    return None if row is None else Renewed(*row)


async def ask_drain(link: Link, worker_id: str) -> int | None:
    """The store's `ask_drain`."""
    row = await link.find(_sql["ask_drain"], id=worker_id)
    return None if row is None else int(row[0])


async def hand_back(link: Link, worker_id: str, limit: int) -> int:
    """A page of the store's `retire`: how many runs it released. Fewer than `limit`: the worker is gone."""
    async with link.transaction():
        if not await link.fetch(_sql["lock"], id=worker_id):
            return 0
        await link.run(_sql["mark_dead"], id=worker_id)
        released = await link.run(_sql["hand_back_runs"], id=worker_id, limit=limit)
        if released < limit:
            await link.run(_sql["delete"], id=worker_id)
        return released


async def reap(link: Link, limit: int, *, orphans: bool) -> Reaped | None:
    """The store's `reap`."""
    async with link.transaction():
        gone = await link.find(_sql["find_gone"]) or await link.find(_sql["find_held"])
        if gone is None:
            owner = await link.find(_sql["find_orphan_owner"]) if orphans else None
            return None if owner is None else await _release(link, owner[0], limit)
        worker_id = gone[0]
        await link.run(_sql["mark_dead"], id=worker_id)
        # CRASH: it is undone, and the next worker that looks reaps the same. [test_a_reaper_dies_half_way]
        reaped = await _release(link, worker_id, limit)
        if reaped.done:
            await link.run(_sql["delete"], id=worker_id)
        return reaped


async def list_workers(link: Link) -> list[WorkerRow]:
    """The store's `list_workers`."""
    return [_to_worker_row(row) for row in await link.fetch(_sql["list"])]


async def count_held(link: Link, worker_ids: Sequence[str], most: int) -> list[Held]:
    """The store's `count_held`."""
    return [Held(*row) for row in await link.fetch(_sql["count_held"], ids=worker_ids, most=most)]


async def list_held_tasks(link: Link, worker_id: str, limit: int) -> list[HeldTask]:
    """The store's `list_held_tasks`."""
    return [HeldTask(*row) for row in await link.fetch(_sql["list_held_tasks"], worker=worker_id, limit=limit)]


async def _release(link: Link, worker_id: str, limit: int) -> Reaped:
    """Take runs from a dead worker."""
    longest = recovery_delay_us(_LAST_DELAY)
    released = await link.run(_sql["reap_runs"], id=worker_id, limit=limit, delays=_DELAYS, longest=longest)
    [(more,)] = await link.fetch(_sql["owns_any"], id=worker_id)
    return Reaped(worker_id, released, done=not more)


def _to_worker_row(row: Record) -> WorkerRow:
    values: dict[str, Any] = dict(row)
    values |= {name: tuple(row[name]) for name in ("queues", "functions", "versions")}
    return WorkerRow(**values)
