"""Reaping: a dead worker's runs go on elsewhere, and whatever it still sends is refused."""

from __future__ import annotations

import asyncio

import pytest

from outlast.errors import Fenced
from outlast.stores.store import Reaped, RowChange, Store, recovery_delay_us
from outlast.testing.stores.clocks import SECOND, Clock, MakeStore
from outlast.testing.stores.writing import (
    HOUR,
    claim,
    claiming,
    end,
    entry,
    is_due,
    land,
    mark_of,
    marks_of,
    message,
    own,
    park,
    register,
    row_of,
)


async def lapse(store: Store, clock: Clock, *uids: str) -> str:
    """A worker that owns these runs and whose lease lapsed, unnoticed as yet."""
    await register(store, "zombie", clock.lease_us)
    await own(store, "zombie", *uids)
    await clock.advance(store, clock.lease_us)
    return "zombie"


async def test_living_workers_are_left_alone(store: Store, worker: str) -> None:
    """With every lease running there is nobody to reap."""
    await own(store, worker, "r")
    assert await store.reap() is None
    assert await store.reap(orphans=True) is None
    assert (await row_of(store, "r")).owner == worker


# SPEC L3
async def test_a_lapsed_workers_runs_are_due(store: Store, worker: str, clock: Clock) -> None:
    """Its runs are due under a new epoch, with a recovery counted; its row is gone."""
    await lapse(store, clock, "a", "b")
    assert await store.reap() == Reaped("zombie", 2, done=True)
    for uid in "ab":
        row = await row_of(store, uid)
        assert (row.owner, row.epoch, row.recoveries) == (None, 2, 1)
        assert await is_due(store, uid)
    assert [found.id for found in await store.list_workers()] == [worker]
    assert await store.reap() is None
    claimed = await store.claim(claiming(worker))
    assert sorted((run.uid, run.epoch, run.recoveries) for run in claimed) == [("a", 3, 1), ("b", 3, 1)]


async def test_only_the_dead_are_reaped(store: Store, worker: str, clock: Clock) -> None:
    """Runs of the living, parked runs and ended runs are as they were."""
    await register(store, "zombie", clock.lease_us)
    await own(store, "zombie", "r", "parked", "ended")
    await own(store, worker, "s")
    await land(store, "zombie", park("parked", wake_at=await store.now() + HOUR), end("ended"))
    before = [await row_of(store, uid) for uid in ("s", "parked", "ended")]
    await clock.advance(store, clock.lease_us)
    assert await store.reap() == Reaped("zombie", 1, done=True)
    assert [await row_of(store, uid) for uid in ("s", "parked", "ended")] == before


# PROTOCOL F1
async def test_the_taker_sees_what_the_dead_wrote(store: Store, worker: str, clock: Clock) -> None:
    """A commit is wholly before the reap, or refused wholly: the taker knows all that will ever land."""
    await register(store, "zombie", clock.lease_us)
    await own(store, "zombie", "r")
    await land(store, "zombie", entry("r", 1))
    await clock.advance(store, clock.lease_us)
    await store.reap()
    await claim(store, worker)
    assert await marks_of(store, "r") == [mark_of(0), mark_of(1)]
    with pytest.raises(Fenced):
        await store.commit("zombie", [end("r", 2)])
    await land(store, worker, entry("r", 2))
    assert (await row_of(store, "r")).owner == worker


async def test_a_commit_that_crosses_the_reap_is_before_it_or_refused(
    store: Store, clock: Clock, make_store: MakeStore
) -> None:
    """Whichever of the two comes first, no run is left with an owner that is gone."""
    elsewhere = await make_store()
    for round in range(5):
        zombie = await register(store, f"zombie-{round}", clock.lease_us)
        uids = [f"r{round}-{n}" for n in range(5)]
        await own(store, zombie, *uids)
        await clock.advance(store, clock.lease_us)
        results = await asyncio.gather(
            *(store.commit(zombie, [entry(uid, 1, row=RowChange(waiting_on="x"))]) for uid in uids),
            elsewhere.reap(),
            return_exceptions=True,
        )
        for uid, result in zip(uids, results, strict=False):
            row = await row_of(store, uid)
            landed = not isinstance(result, BaseException)
            assert landed or isinstance(result, Fenced)
            assert (row.owner, row.recoveries) == (None, 1)
            assert (len(await store.read_journal(uid)), row.waiting_on) == ((2, "x") if landed else (1, ""))


async def test_a_worker_is_dead_before_its_runs_are_touched(store: Store, clock: Clock) -> None:
    """With more runs than one reap takes the worker is fenced from the first page on, also for runs it still has."""
    await lapse(store, clock, "a", "b", "c")
    first = await store.reap(limit=2)
    assert first == Reaped("zombie", 2, done=False)
    [row] = await store.list_workers()
    assert row.dead_at is not None
    for uid in "abc":
        with pytest.raises(Fenced):
            await store.commit("zombie", [entry(uid, 1)])
    assert store.renew("zombie", HOUR) is None


async def test_many_runs_are_released_in_pages(store: Store, worker: str, clock: Clock) -> None:
    """A worker with thousands of runs is reaped in several transactions; each run is released once."""
    uids = [f"r{n}" for n in range(7)]
    await lapse(store, clock, *uids)
    pages = []
    while (reaped := await store.reap(limit=3)) is not None:
        pages.append(reaped.runs)
    assert sum(pages) == 7
    assert max(pages) <= 3
    assert {(await row_of(store, uid)).recoveries for uid in uids} == {1}
    assert len(await claim(store, worker)) == 7
    assert [found.id for found in await store.list_workers()] == [worker]


async def test_a_worker_that_owned_nothing_is_reaped(store: Store, clock: Clock) -> None:
    """Its row goes."""
    await register(store, "zombie", clock.lease_us)
    await clock.advance(store, clock.lease_us)
    assert await store.reap() == Reaped("zombie", 0, done=True)
    assert await store.list_workers() == []


async def test_each_dead_worker_is_reaped(store: Store, worker: str, clock: Clock) -> None:
    """One reap takes one worker; calling until None takes all."""
    for n in range(3):
        await register(store, f"zombie-{n}", clock.lease_us)
        await own(store, f"zombie-{n}", f"r{n}")
    await clock.advance(store, clock.lease_us)
    reaped = set()
    while (one := await store.reap()) is not None:
        reaped.add(one.worker)
    assert reaped == {"zombie-0", "zombie-1", "zombie-2"}
    assert sorted(await claim(store, worker)) == ["r0", "r1", "r2"]


async def test_reapers_at_once_release_a_run_once(store: Store, clock: Clock, make_store: MakeStore) -> None:
    """Peers that look at the same moment do not count a recovery twice."""
    await lapse(store, clock, "a", "b", "c")
    stores = [store, await make_store(), await make_store()]
    results = await asyncio.gather(*(each.reap() for each in stores))
    assert sum(reaped.runs for reaped in results if reaped is not None) == 3
    assert [(await row_of(store, uid)).recoveries for uid in "abc"] == [1, 1, 1]
    assert [(await row_of(store, uid)).epoch for uid in "abc"] == [2, 2, 2]


# SPEC L9
async def test_a_run_that_keeps_losing_its_workers_backs_off(store: Store, clock: Clock) -> None:
    """The first recovery is at once, then after 30 s, doubling up to 10 min, until the run makes progress."""
    expected = [0, 30, 60, 120, 240, 480, 600, 600]
    assert [recovery_delay_us(n) // SECOND for n in range(8)] == expected
    await register(store, "w0", clock.lease_us)
    await own(store, "w0", "r")
    for n, delay in enumerate(expected):
        await clock.advance(store, clock.lease_us)
        before = await store.now()
        await store.reap()
        row = await row_of(store, "r")
        assert row.wake_at is not None
        assert before <= row.wake_at - delay * SECOND <= await store.now()
        assert row.recoveries == n + 1
        await store.send("r", message(f"m{n}"))  # due at once, to spare the test the wait
        await register(store, f"w{n + 1}", clock.lease_us)
        assert await claim(store, f"w{n + 1}") == ["r"]
    await land(store, f"w{len(expected)}", entry("r", 1, row=RowChange(recovered=True)))
    await clock.advance(store, clock.lease_us)
    await store.reap()
    assert await is_due(store, "r")
