"""Queued steps: a task is one attempt, with a lease of its own and one outcome (F25, F26)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from outlast.errors import Fenced
from outlast.stores.store import INBOX_LIMIT, TASK_MESSAGE, ClaimedTask, NewTask, Store, TaskOutcome, Verdict
from outlast.testing.stores.clocks import Clock, MakeStore
from outlast.testing.stores.writing import (
    HOUR,
    claiming,
    commit,
    complete,
    end,
    entry,
    inbox_of,
    is_due,
    land,
    own,
    park,
    register,
    row_of,
    send_to,
    task,
)


async def enqueue(store: Store, worker: str, *tasks: NewTask, uid: str = "r") -> None:
    """A run of the worker's, with these tasks."""
    await own(store, worker, uid)
    await land(store, worker, entry(uid, 1, tasks=tasks))


async def claim_tasks(
    store: Store, worker: str, lease_us: int = HOUR, functions: Sequence[str] = ("charge",), **changes: Any
) -> list[str]:
    """The keys of what the worker got."""
    claimed = await store.claim_tasks(claiming(worker, **changes), functions, lease_us)
    return [found.key for found in claimed]


def outcome(attempt: int = 1, key: str = "charge", payload: bytes = b'{"ok":1}') -> TaskOutcome:
    return TaskOutcome("r", key, attempt, payload)


async def outcomes_of(store: Store, uid: str = "r") -> list[tuple[str, str, bytes]]:
    return [(found.id, found.kind, found.payload) for found in await inbox_of(store, uid)]


# --- claims -----------------------------------------------------------------------------------------------------------


async def test_a_task_is_claimed_as_it_was_queued(store: Store, worker: str, other: str) -> None:
    """Who claims a task learns all it needs to run it; nobody else gets it."""
    await enqueue(store, worker, task(attempt=3, queue="gpu", arguments=b'{"a":1}', details=b'{"user":"ada"}'))
    claimed = await store.claim_tasks(claiming(other, queues=("gpu",)), ["pack", "charge"], HOUR)
    assert claimed == [ClaimedTask("r", "charge", 3, "gpu", "charge", b'{"a":1}', b'{"user":"ada"}')]
    assert await claim_tasks(store, worker, queues=("gpu",)) == []


# SPEC Q1
async def test_a_worker_claims_what_it_serves_and_knows(store: Store, worker: str) -> None:
    """Tasks of other queues, or of functions that are not known here, are left."""
    await enqueue(store, worker, task("a"), task("b", queue="gpu"), task("c", function="pack"))
    assert await claim_tasks(store, worker) == ["a"]
    assert await claim_tasks(store, worker, functions=()) == []
    assert await claim_tasks(store, worker, queues=()) == []
    served = await claim_tasks(store, worker, queues=("gpu", "default"), functions=("pack", "charge"))
    assert sorted(served) == ["b", "c"]


async def test_tasks_go_by_priority_and_age(store: Store, worker: str) -> None:
    """Priority 0 first; among equals, who has been due longest; no more than the limit."""
    await enqueue(
        store,
        worker,
        task("a", priority=5, due_at=20),
        task("b", priority=5, due_at=10),
        task("c", priority=0, due_at=30),
        task("d", priority=9, due_at=1),
    )
    assert await claim_tasks(store, worker, limit=3) == ["c", "b", "a"]
    assert await claim_tasks(store, worker, limit=3) == ["d"]


async def test_a_task_is_not_claimed_before_it_is_due(store: Store, worker: str, clock: Clock) -> None:
    """The next attempt of a step waits for its back-off."""
    await enqueue(store, worker, task(due_at=await store.now() + clock.lease_us))
    assert await claim_tasks(store, worker) == []
    await clock.advance(store, clock.lease_us)
    assert await claim_tasks(store, worker) == ["charge"]


async def test_workers_at_once_share_the_tasks_out(
    store: Store, worker: str, other: str, make_store: MakeStore
) -> None:
    """Each task goes to one worker."""
    elsewhere = await make_store()
    await enqueue(store, worker, *(task(f"k{n}") for n in range(40)))
    claims = await asyncio.gather(
        *(claim_tasks(store, worker, limit=5) for _ in range(5)),
        *(claim_tasks(elsewhere, other, limit=5) for _ in range(5)),
    )
    assert sorted(key for part in claims for key in part) == sorted(f"k{n}" for n in range(40))


async def test_a_dead_worker_claims_no_task(store: Store, worker: str, clock: Clock) -> None:
    """A claim of a worker that was marked dead is refused."""
    await enqueue(store, worker, task())
    zombie = await register(store, "zombie", clock.lease_us)
    await clock.advance(store, clock.lease_us)
    await store.reap()
    with pytest.raises(Fenced):
        await store.claim_tasks(claiming(zombie), ["charge"], HOUR)
    assert await claim_tasks(store, worker) == ["charge"]


async def test_a_stale_entry_queues_no_task(store: Store, worker: str) -> None:
    """An attempt is on record before it can run: no entry, no task."""
    await own(store, worker, "r")
    assert await commit(store, worker, entry("r", 1, prev=0, tasks=(task(),))) == [Verdict.STALE]
    assert await claim_tasks(store, worker) == []


async def test_tasks_of_a_key_are_each_runs_own(store: Store, worker: str) -> None:
    """Two runs may queue the same step."""
    await enqueue(store, worker, task())
    await enqueue(store, worker, task(), uid="s")
    claimed = await store.claim_tasks(claiming(worker), ["charge"], HOUR)
    assert sorted(found.run for found in claimed) == ["r", "s"]


# --- outcomes ---------------------------------------------------------------------------------------------------------


async def test_an_outcome_is_a_message_to_its_run(store: Store, worker: str, other: str) -> None:
    """Completing a task deletes it and puts its outcome into the run's inbox, under the id `key#attempt`."""
    await enqueue(store, worker, task(attempt=2))
    await land(store, worker, park("r", wake_at=await store.now() + HOUR))
    await claim_tasks(store, other)
    assert await complete(store, other, outcome(2))
    assert await outcomes_of(store) == [("charge#2", TASK_MESSAGE, b'{"ok":1}')]
    assert (await row_of(store, "r")).mail == 1
    assert await is_due(store, "r")
    assert await claim_tasks(store, other) == []


async def test_a_task_is_completed_once(store: Store, worker: str) -> None:
    """The second outcome of an attempt is dropped, read the first or not."""
    await enqueue(store, worker, task())
    await claim_tasks(store, worker)
    assert await complete(store, worker, outcome())
    assert not await complete(store, worker, outcome(payload=b"2"))
    await land(store, worker, entry("r", 2, consumed=(1,)))
    assert not await complete(store, worker, outcome())
    assert await outcomes_of(store) == []


async def test_tasks_are_completed_in_company(store: Store, worker: str, other: str) -> None:
    """Outcomes of any runs go in one call; each that is superseded is named, and spoils none of the others."""
    await enqueue(store, worker, task("a"), task("b"))
    await enqueue(store, worker, task("c"), uid="s")
    await claim_tasks(store, other)
    answers = await store.complete_tasks(
        other,
        [outcome(key="a"), outcome(2, key="b"), TaskOutcome("s", "c", 1, b"3"), TaskOutcome("gone", "d", 1, b"4")],
    )
    assert answers == [True, False, True, False]
    assert await outcomes_of(store) == [("a#1", TASK_MESSAGE, b'{"ok":1}')]
    assert await outcomes_of(store, "s") == [("c#1", TASK_MESSAGE, b"3")]
    assert [row.key for row in await store.list_tasks("r")] == ["b"]
    assert await store.complete_tasks(other, [outcome(key="a"), outcome(key="b")]) == [False, True]


async def test_only_who_holds_the_task_completes_it(store: Store, worker: str, other: str) -> None:
    """Another worker, another attempt, an unclaimed task, another key, another run: superseded, and nothing happens."""
    await enqueue(store, worker, task(attempt=2))
    assert not await complete(store, worker, outcome(2))
    await claim_tasks(store, worker)
    assert not await complete(store, other, outcome(2))
    assert not await complete(store, worker, outcome(1))
    assert not await complete(store, worker, outcome(2, key="pack"))
    assert not await complete(store, worker, TaskOutcome("gone", "charge", 2, b"1"))
    assert await outcomes_of(store) == []
    assert await complete(store, worker, outcome(2))


async def test_a_late_outcome_counts_while_its_task_is_there(store: Store, worker: str, clock: Clock) -> None:
    """A lease that lapsed unnoticed does not spoil the work: nobody else has started it."""
    await enqueue(store, worker, task())
    await claim_tasks(store, worker, clock.lease_us)
    await clock.advance(store, clock.lease_us)
    assert await complete(store, worker, outcome())
    assert await store.lapse_tasks() == 0
    assert await outcomes_of(store) == [("charge#1", TASK_MESSAGE, b'{"ok":1}')]


# SPEC L6
async def test_the_outcome_of_a_superseded_attempt_is_dropped(
    store: Store, worker: str, other: str, clock: Clock
) -> None:
    """After the attempt was taken for lost, and the next one runs, the first one's outcome changes nothing."""
    await enqueue(store, worker, task())
    await claim_tasks(store, other, clock.lease_us)
    await clock.advance(store, clock.lease_us)
    assert await store.lapse_tasks() == 1
    await land(store, worker, entry("r", 2, consumed=(1,), tasks=(task(attempt=2),)))
    await claim_tasks(store, worker)
    assert not await complete(store, other, outcome(1))
    assert await complete(store, worker, outcome(2))
    assert [id for id, _, _ in await outcomes_of(store)] == ["charge#2"]


async def test_a_newer_attempt_takes_the_place_of_an_older_one(store: Store, worker: str, other: str) -> None:
    """A run that gives an attempt up and queues the next has one task; the older attempt's outcome is dropped."""
    await enqueue(store, worker, task())
    await claim_tasks(store, other)
    await land(store, worker, entry("r", 2, tasks=(task(attempt=2),)))
    assert await store.renew_tasks(other, [("r", "charge", 1, b"")], HOUR) == [("r", "charge", 1)]
    assert not await complete(store, other, outcome(1))
    [claimed] = await store.claim_tasks(claiming(other), ["charge"], HOUR)
    assert claimed.attempt == 2


async def test_a_full_inbox_takes_an_outcome(store: Store, worker: str) -> None:
    """An outcome is never refused: without it its run would wait for ever."""
    await enqueue(store, worker, task())
    await land(store, worker, entry("r", 2, sends=tuple(send_to("r", f"m{n}") for n in range(INBOX_LIMIT))))
    await claim_tasks(store, worker)
    assert await complete(store, worker, outcome())
    assert (await row_of(store, "r")).mail == INBOX_LIMIT + 1


async def test_an_outcome_for_an_ended_run_goes_nowhere(store: Store, worker: str) -> None:
    """The task goes; the run stays as it ended."""
    await enqueue(store, worker, task())
    await claim_tasks(store, worker)
    await land(store, worker, end("r", 2))
    before = await row_of(store, "r")
    await complete(store, worker, outcome())
    assert await row_of(store, "r") == before
    assert await inbox_of(store, "r") == []
    assert await store.lost_attempts("r", [("charge", 1)]) == [("charge", 1)]


# PROTOCOL F25
async def test_outcomes_cross_entries_without_deadlock(store: Store, worker: str, make_store: MakeStore) -> None:
    """Outcomes and entries that stop the same tasks, sent at once: each attempt is stopped or has its outcome."""
    elsewhere = await make_store()
    for round in range(5):
        uid = f"r{round}"
        await own(store, worker, uid)
        await land(store, worker, entry(uid, 1, tasks=tuple(task(f"k{n}") for n in range(8))))
        await claim_tasks(store, worker)
        done = await asyncio.gather(
            *(complete(elsewhere, worker, TaskOutcome(uid, f"k{n}", 1, b"1")) for n in range(4)),
            land(store, worker, entry(uid, 2, stop_tasks=True)),
            *(complete(elsewhere, worker, TaskOutcome(uid, f"k{n}", 1, b"1")) for n in range(4, 8)),
        )
        assert sum(answer is True for answer in done) == len(await inbox_of(store, uid)) == 8
