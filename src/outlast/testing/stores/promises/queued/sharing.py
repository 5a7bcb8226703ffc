"""Queues that are shared out: limits over all workers, and a part for each group (SPEC Q2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast.errors import Fenced
from outlast.stores.store import ClaimedTask, NewTask, Sharing, Store, TaskOutcome
from outlast.testing.stores.clocks import Clock, MakeStore
from outlast.testing.stores.writing import HOUR, claiming, complete, entry, land, own, register, task

FAIR = Sharing()


async def enqueue(store: Store, worker: str, *tasks: NewTask, uid: str = "r") -> None:
    await own(store, worker, uid)
    await land(store, worker, entry(uid, 1, tasks=tasks))


async def claim(
    store: Store, worker: str, sharing: Sharing, *, limit: int = 100, lease_us: int = HOUR, **changes: Any
) -> list[ClaimedTask]:
    return await store.claim_tasks(claiming(worker, limit=limit, **changes), ["charge"], lease_us, sharing)


async def keys(store: Store, worker: str, sharing: Sharing, limit: int = 100, **changes: Any) -> list[str]:
    return [found.key for found in await claim(store, worker, sharing, limit=limit, **changes)]


async def test_no_more_are_held_than_a_queue_allows(store: Store, worker: str, other: str, clock: Clock) -> None:
    """Whoever holds them: what one worker has counts for the other, until it is completed or lost."""
    await enqueue(store, worker, *(task(f"k{n}", due_at=n) for n in range(9)))
    three = Sharing(most=3)
    assert await keys(store, worker, three, limit=2) == ["k0", "k1"]
    assert await keys(store, other, three, lease_us=clock.lease_us) == ["k2"]
    assert await keys(store, worker, three) == []
    assert await complete(store, worker, TaskOutcome("r", "k0", 1, b"1"))
    assert await keys(store, worker, three) == ["k3"]
    await clock.advance(store, clock.lease_us)
    assert await keys(store, worker, three) == []
    assert await store.lapse_tasks() == 1
    assert await keys(store, worker, three) == ["k4"]
    assert await keys(store, worker, Sharing(most=1)) == []
    assert await keys(store, worker, Sharing(most=4)) == ["k5"]


async def test_a_limit_is_of_one_queue(store: Store, worker: str) -> None:
    """What is held of another does not count."""
    await enqueue(store, worker, task("a", queue="gpu"), task("b"), task("c"))
    assert await keys(store, worker, Sharing(most=1), queues=("gpu",)) == ["a"]
    assert await keys(store, worker, Sharing(most=2)) == ["b", "c"]


async def test_claims_at_once_keep_within_the_limit(
    store: Store, worker: str, other: str, make_store: MakeStore
) -> None:
    """Two workers that look at the same moment do not both find the last place free."""
    elsewhere = await make_store()
    await enqueue(store, worker, *(task(f"k{n}") for n in range(40)))
    for most in (1, 5, 12):
        claims = await asyncio.gather(
            *(claim(store, worker, Sharing(most=most), limit=3) for _ in range(4)),
            *(claim(elsewhere, other, Sharing(most=most), limit=3) for _ in range(4)),
        )
        assert sum(map(len, claims)) == most
        for held in claims:
            for found in held:
                done = TaskOutcome(found.run, found.key, 1, b"1")
                assert await complete(store, worker, done) or await complete(store, other, done)


async def test_a_group_that_came_first_does_not_keep_the_others_waiting(store: Store, worker: str) -> None:
    """One after the other: each place goes to a group that has the fewest, and within a group to the oldest."""
    first = [task(f"a{n}", group="ada", due_at=n) for n in range(6)]
    await enqueue(store, worker, *first, *(task(f"b{n}", group="bob", due_at=100 + n) for n in range(2)))
    got = [await keys(store, worker, FAIR, limit=1) for _ in range(8)]
    assert got == [["a0"], ["b0"], ["a1"], ["b1"], ["a2"], ["a3"], ["a4"], ["a5"]]


async def test_with_a_single_place_turns_decide(store: Store, worker: str) -> None:
    """Nothing is held when the only place is given: then it goes to whoever has had fewer turns since both wait. Who
    comes late has no claim on the turns before."""
    await enqueue(store, worker, *(task(f"a{n}", group="ada", due_at=n) for n in range(6)))
    one = Sharing(most=1)
    got = []
    for count in range(9):
        if count == 3:
            await land(store, worker, entry("r", 2, tasks=[task(f"b{n}", group="bob", due_at=50) for n in range(2)]))
        if count == 6:
            await land(store, worker, entry("r", 3, tasks=(task("b2", group="bob", due_at=60),)))
        [found] = await claim(store, worker, one)
        assert await complete(store, worker, TaskOutcome("r", found.key, 1, b"1"))
        got.append(found.key)
    assert got == ["a0", "a1", "a2", "a3", "b0", "a4", "b1", "a5", "b2"]


async def test_a_claim_of_several_is_shared_out(store: Store, worker: str, other: str) -> None:
    """The same within one claim; and what other workers hold for a group counts."""
    tasks = [
        task(f"{name}{n}", group=name, due_at=at + n)
        for at, name in ((0, "a"), (100, "b"), (200, "c"))
        for n in range(4)
    ]
    await enqueue(store, worker, *tasks)
    assert await keys(store, other, FAIR, limit=4) == ["a0", "b0", "c0", "a1"]
    assert await keys(store, worker, FAIR, limit=3) == ["b1", "c1", "a2"]
    for key in ("a0", "a1"):
        assert await complete(store, other, TaskOutcome("r", key, 1, b"1"))
    assert await keys(store, worker, FAIR, limit=2) == ["a3", "b2"]


async def test_priority_comes_before_fairness(store: Store, worker: str) -> None:
    """What is urgent goes first, whoever it is for; unless the claim is for the oldest of all levels."""
    await enqueue(
        store,
        worker,
        task("a0", group="a", priority=0, due_at=50),
        task("a1", group="a", priority=0, due_at=60),
        task("a2", group="a", priority=5, due_at=10),
        task("b0", group="b", priority=5, due_at=70),
    )
    assert await keys(store, worker, FAIR, limit=1, oldest_first=True) == ["a2"]
    assert await keys(store, worker, FAIR, limit=2) == ["a0", "a1"]
    assert await keys(store, worker, FAIR) == ["b0"]


async def test_what_is_shared_out_must_be_due_and_known(store: Store, worker: str, clock: Clock) -> None:
    """As in any claim; and a worker that lost its lease gets nothing."""
    later = await store.now() + clock.lease_us
    await enqueue(
        store, worker, task("a", group="g", due_at=later), task("b", function="pack", group="g"), task("c", queue="gpu")
    )
    assert await keys(store, worker, FAIR) == []
    await clock.advance(store, clock.lease_us)
    assert await keys(store, worker, Sharing(most=5)) == ["a"]
    zombie = await register(store, "zombie", clock.lease_us)
    await clock.advance(store, clock.lease_us)
    while await store.reap() is not None:
        pass
    for sharing in (FAIR, Sharing(most=1)):
        with pytest.raises(Fenced):
            await claim(store, zombie, sharing)


async def test_a_newer_attempt_is_of_its_group(store: Store, worker: str) -> None:
    """The next attempt of a step stands in its own group's line."""
    await enqueue(store, worker, task("a", group="ada"), task("b", group="bob"), task("c", group="bob"))
    assert await keys(store, worker, FAIR, limit=1) == ["a"]
    await land(store, worker, entry("r", 2, tasks=(task("a", 2, group="ada"),)))
    assert await keys(store, worker, FAIR, limit=1) in (["a"], ["b"])
    assert len(await keys(store, worker, FAIR)) == 2
