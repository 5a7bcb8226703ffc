"""What workers hold: counted, and listed in parts, for people who look after them (SPEC U1)."""

from __future__ import annotations

from outlast.stores.store import Held, RunQuery, Store
from outlast.testing.stores.clocks import Clock
from outlast.testing.stores.writing import HOUR, claiming, entry, land, own, park, queue, register, task


async def with_tasks(store: Store, uid: str, *keys: str) -> None:
    """A run of a third worker, with a task of each key."""
    await register(store, "third", HOUR)
    await own(store, "third", uid)
    await land(store, "third", entry(uid, 1, tasks=tuple(task(key) for key in keys)))


async def test_what_workers_hold_is_counted(store: Store, worker: str, other: str) -> None:
    """Runs and tasks of each, in the order asked for, neither past the limit; nothing for who holds nothing."""
    await own(store, worker, "a", "b", "c", "parked")
    await own(store, other, "d")
    await queue(store, "waiting")
    await land(store, worker, park("parked", wake_at=await store.now() + HOUR))
    await with_tasks(store, "tasks", "x", "y", "z")
    await store.claim_tasks(claiming(worker, limit=2), ["charge"], HOUR)
    assert await store.count_held([other, "nobody", worker], most=100) == [
        Held(other, 1, 0), Held("nobody", 0, 0), Held(worker, 3, 2),
    ]  # fmt: skip
    assert await store.count_held([worker], most=1) == [Held(worker, 1, 1)]
    assert await store.count_held([], most=1) == []


async def test_tasks_a_worker_holds_are_listed(store: Store, worker: str, other: str, clock: Clock) -> None:
    """The first ones taken first, each with its run; at most as many as asked for, and none of others."""
    await with_tasks(store, "r", "x", "y", "z")
    for who in (worker, other, worker):
        await store.claim_tasks(claiming(who, limit=1), ["charge"], HOUR)
        await clock.advance(store, 1000)
    held = await store.list_held_tasks(worker)
    assert [(task.run, task.run_id, task.key, task.attempt, task.function) for task in held] == [
        ("r", "id of r", "x", 1, "charge"), ("r", "id of r", "z", 1, "charge"),
    ]  # fmt: skip
    assert held[0].claimed_at < held[1].claimed_at <= await store.now()
    assert await store.list_held_tasks(worker, limit=1) == held[:1]
    assert await store.list_held_tasks("nobody") == []


async def test_runs_a_worker_holds_are_listed(store: Store, worker: str, other: str) -> None:
    """As any list of runs is: by pages, newest first."""
    await own(store, worker, "a", "b", "c")
    await own(store, other, "d")
    first = await store.list_runs(RunQuery(owner=worker, limit=2))
    last = first[-1]
    rest = await store.list_runs(RunQuery(owner=worker, after=(last.created_at, last.uid), limit=2))
    assert sorted(row.uid for row in (*first, *rest)) == ["a", "b", "c"]
    assert await store.list_runs(RunQuery(owner="nobody")) == []
