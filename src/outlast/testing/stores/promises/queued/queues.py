"""What people see of queues, and of a run's own tasks."""

from __future__ import annotations

from outlast.stores.store import QueueRow, Store, TaskOutcome, TaskRow
from outlast.testing.stores.clocks import Clock
from outlast.testing.stores.writing import (
    HOUR,
    claim,
    claiming,
    complete,
    end,
    entry,
    land,
    own,
    park,
    queue,
    register,
    task,
)


async def test_an_empty_queue_has_no_row(store: Store, worker: str) -> None:
    """Nothing is due and nothing is held: not even the names of queues are there."""
    await own(store, worker, "r")
    await land(store, worker, end("r"))
    await queue(store, "later", queue="gpu", wake_at=await store.now() + HOUR)
    assert await store.list_queues() == []


async def test_queues_say_what_waits_and_what_is_held(store: Store, worker: str, other: str) -> None:
    """Runs and tasks are counted apart, tasks by function; what is due later is not counted, whatever its priority."""
    now = await store.now()
    await own(store, worker, "r", "s")
    tasks = (
        task("a", due_at=now - 7, priority=9), task("b", due_at=now - 9), task("c", function="pack", due_at=now - 1),
        task("d", due_at=now + HOUR), task("e", queue="gpu", due_at=now - 3),
    )  # fmt: skip
    await land(store, worker, entry("r", 1, tasks=tasks))
    await queue(store, "x", "y", wake_at=now - 5)
    await queue(store, "z", wake_at=now - 6, priority=0)
    assert await store.list_queues() == [
        QueueRow("default", None, 3, now - 6, 2),
        QueueRow("default", "charge", 2, now - 9, 0),
        QueueRow("default", "pack", 1, now - 1, 0),
        QueueRow("gpu", "charge", 1, now - 3, 0),
    ]
    await store.claim_tasks(claiming(other, queues=("gpu",)), ["charge"], HOUR)
    await store.claim_tasks(claiming(other, limit=1, oldest_first=True), ["charge"], HOUR)
    await claim(store, other, limit=1)
    assert await store.list_queues() == [
        QueueRow("default", None, 2, now - 5, 3),
        QueueRow("default", "charge", 1, now - 7, 1),
        QueueRow("default", "pack", 1, now - 1, 0),
        QueueRow("gpu", "charge", 0, None, 1),
    ]
    await complete(store, other, TaskOutcome("r", "e", 1, b"1"))
    await land(store, worker, end("r", 2))
    assert [row.queue for row in await store.list_queues()] == ["default", "default"]


async def test_a_parked_run_that_waits_is_in_no_queue(store: Store, worker: str) -> None:
    """It has its place in the world, but nothing to be done for it now."""
    await own(store, worker, "r")
    await land(store, worker, park("r"))
    assert await store.list_queues() == []


async def test_a_runs_tasks_can_be_looked_at(store: Store, worker: str, clock: Clock) -> None:
    """Each with who holds it, since when, what it last said of itself, and whether it is to stop."""
    await own(store, worker, "r", "s")
    await land(store, worker, entry("r", 1, tasks=(task("b", 3, queue="gpu", due_at=5), task("a"))))
    await land(store, worker, entry("s", 1, tasks=(task("z"),)))
    waiting = [
        TaskRow("a", 1, "default", "charge", 0, None, None, stop=False, progress=b""),
        TaskRow("b", 3, "gpu", "charge", 5, None, None, stop=False, progress=b""),
    ]
    assert await store.list_tasks("r") == waiting
    before = await store.now()
    await store.claim_tasks(claiming(worker, queues=("gpu",)), ["charge"], HOUR)
    await store.renew_tasks(worker, [("r", "b", 3, b'{"at":1}')], HOUR)
    await land(store, worker, entry("r", 2, stopped=("b",)))
    first, second = await store.list_tasks("r")
    assert first == waiting[0]
    assert second.claimed_at is not None
    assert before <= second.claimed_at <= await store.now()
    claimed = TaskRow("b", 3, "gpu", "charge", 5, worker, second.claimed_at, stop=True, progress=b'{"at":1}')
    assert second == claimed
    assert await store.list_tasks("gone") == []


async def test_an_attempt_queued_anew_is_nobodys(store: Store, worker: str, other: str) -> None:
    """The next attempt takes over neither its forerunner's holder nor what that said."""
    await register(store, "third", HOUR)
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, tasks=(task(),)))
    await store.claim_tasks(claiming(other), ["charge"], HOUR)
    await store.renew_tasks(other, [("r", "charge", 1, b"7")], HOUR)
    await land(store, worker, entry("r", 2, tasks=(task(attempt=2),)))
    assert await store.list_tasks("r") == [
        TaskRow("charge", 2, "default", "charge", 0, None, None, stop=False, progress=b"")
    ]
