"""Workers: their leases on the store's clock, and how they leave."""

from __future__ import annotations

import asyncio

import pytest

from outlast.errors import Fenced
from outlast.stores.store import Store, WorkerRow
from outlast.testing.stores.clocks import Clock
from outlast.testing.stores.writing import (
    HOUR,
    claim,
    claiming,
    end,
    entry,
    is_due,
    land,
    own,
    park,
    queue,
    register,
    row_of,
)


async def test_the_stores_clock_runs(store: Store, clock: Clock) -> None:
    """Time passes, in µs."""
    before = await store.now()
    await clock.advance(store, 1000)
    assert await store.now() >= before + 1000


async def test_a_worker_is_listed_as_it_registered(store: Store) -> None:
    """Its row says who it is, what it serves, and until when its lease runs."""
    given = WorkerRow(
        "w", "host-7", 4711, queues=("a", "b"), functions=("shop", "charge"), deploy="d1", python="3.13", started_at=5,
        versions=("shop#v1",), release="0.9",
    )  # fmt: skip
    now = await store.register(given, HOUR)
    [found] = await store.list_workers()
    assert found.expires_at == now + HOUR
    assert (found.id, found.host, found.pid, found.queues, found.functions, found.deploy, found.python) == (
        ("w", "host-7", 4711, ("a", "b"), ("shop", "charge"), "d1", "3.13")
    )
    assert found.dead_at is None
    assert found.drain_asked_at is None
    assert (found.versions, found.release, found.started_at) == (("shop#v1",), "0.9", 5)
    assert now - 1_000_000 < found.renewed_at <= await store.now()


async def test_registering_twice_is_registering_once(store: Store) -> None:
    """A worker that got no answer registers again."""
    await register(store, "w", HOUR)
    await register(store, "w", HOUR)
    assert [found.id for found in await store.list_workers()] == ["w"]
    await own(store, "w", "r")


# SPEC L2
async def test_a_renewed_lease_runs_on(store: Store, clock: Clock) -> None:
    """A renewal answers the store's now, from which the lease counts anew; nobody reaps the worker."""
    await register(store, "w", clock.lease_us)
    await own(store, "w", "r")
    for _ in range(4):
        await clock.advance(store, clock.lease_us // 2)
        renewed = store.renew("w", clock.lease_us)
        assert renewed is not None
        [found] = await store.list_workers()
        assert found.expires_at == renewed.now + clock.lease_us
        assert renewed.now - 1_000_000 < found.renewed_at <= await store.now()
    assert await store.reap() is None
    await land(store, "w", entry("r", 1))


async def test_a_lease_is_renewed_from_another_thread(store: Store, clock: Clock) -> None:
    """A heartbeat has its own thread, which no body can block."""
    await register(store, "w", clock.lease_us)
    renewed = await asyncio.to_thread(store.renew, "w", HOUR)
    assert renewed is not None
    [found] = await store.list_workers()
    assert found.expires_at == renewed.now + HOUR


# PROTOCOL F5
async def test_a_lapsed_lease_never_revives(store: Store, clock: Clock) -> None:
    """A renewal that comes too late is refused, also when nobody has noticed yet."""
    await register(store, "w", clock.lease_us)
    await clock.advance(store, clock.lease_us)
    assert store.renew("w", clock.lease_us) is None
    reaped = await store.reap()
    assert reaped is not None
    assert reaped.worker == "w"


async def test_a_worker_that_is_gone_renews_nothing(store: Store, clock: Clock) -> None:
    """No lease: not of a worker that was reaped, nor of one that nobody knows."""
    await register(store, "w", clock.lease_us)
    await clock.advance(store, clock.lease_us)
    await store.reap()
    assert store.renew("w", HOUR) is None
    assert store.renew("nobody", HOUR) is None
    assert await store.list_workers() == []


async def test_a_dead_id_does_not_register_again(store: Store, clock: Clock) -> None:
    """A fenced worker comes back under a new id: under the old one its late requests would count again."""
    await register(store, "w", clock.lease_us)
    await own(store, "w", "a", "b")
    await clock.advance(store, clock.lease_us)
    await store.reap(limit=1)
    with pytest.raises(Fenced):
        await register(store, "w", HOUR)


# --- being asked to drain ---------------------------------------------------------------------------------------------


# SPEC Q4
async def test_a_worker_asked_to_drain_hears_of_it_with_its_next_renewal(store: Store, worker: str, other: str) -> None:
    """It costs no statement of its own; others hear nothing, and everybody can see it."""
    renewed = store.renew(worker, HOUR)
    assert renewed is not None
    assert renewed.drain_asked_at is None
    asked_at = await store.ask_drain(worker)
    assert asked_at is not None
    assert asked_at <= await store.now()
    for _ in range(2):  # an answer may be lost
        renewed = store.renew(worker, HOUR)
        assert renewed is not None
        assert renewed.drain_asked_at == asked_at
    spared = store.renew(other, HOUR)
    assert spared is not None
    assert spared.drain_asked_at is None
    assert {row.id: row.drain_asked_at for row in await store.list_workers()} == {worker: asked_at, other: None}


async def test_asked_twice_is_asked_once(store: Store, worker: str, clock: Clock) -> None:
    """The first time counts, also for a worker that registers again because an answer was lost."""
    asked_at = await store.ask_drain(worker)
    await clock.advance(store, 1000)
    assert await store.ask_drain(worker) == asked_at
    await register(store, worker, HOUR)
    renewed = store.renew(worker, HOUR)
    assert renewed is not None
    assert renewed.drain_asked_at == asked_at


async def test_a_worker_that_drains_still_writes(store: Store, worker: str) -> None:
    """Until it has handed back it holds its lease, and what its steps did is recorded."""
    await own(store, worker, "r")
    await store.ask_drain(worker)
    await land(store, worker, entry("r", 1))
    assert await store.retire(worker) == 1


async def test_nobody_without_a_lease_can_be_asked_to_drain(store: Store, clock: Clock) -> None:
    """Nobody of that name; one that left; one that lapsed, noticed or not: whoever asks is told."""
    assert await store.ask_drain("nobody") is None
    await register(store, "gone", HOUR)
    await store.retire("gone")
    assert await store.ask_drain("gone") is None
    await register(store, "w", clock.lease_us)
    await own(store, "w", "a", "b")
    await clock.advance(store, clock.lease_us)
    assert await store.ask_drain("w") is None
    await store.reap(limit=1)
    assert await store.ask_drain("w") is None


async def test_one_that_dies_while_it_drains_is_reaped_as_any(store: Store, clock: Clock, other: str) -> None:
    """Being asked keeps nobody alive, and nobody's runs."""
    await register(store, "w", clock.lease_us)
    await own(store, "w", "r")
    await store.ask_drain("w")
    await clock.advance(store, clock.lease_us)
    reaped = await store.reap()
    assert reaped is not None
    assert (reaped.worker, reaped.runs) == ("w", 1)
    assert await claim(store, other) == ["r"]


# --- leaving ----------------------------------------------------------------------------------------------------------


# SPEC Q4
async def test_a_retired_worker_hands_its_runs_back(store: Store, worker: str, other: str) -> None:
    """What it owned is due at once for others, and no recovery is counted: it was no crash."""
    await own(store, worker, "a", "b", "parked", "ended")
    await own(store, other, "c")
    later = await store.now() + HOUR
    await land(store, worker, park("parked", wake_at=later), end("ended"))
    assert await store.retire(worker) == 2
    assert [found.id for found in await store.list_workers()] == [other]
    assert {(await row_of(store, uid)).recoveries for uid in "ab"} == {0}
    assert (await row_of(store, "parked")).wake_at == later
    assert (await row_of(store, "c")).owner == other
    assert sorted(await claim(store, other)) == ["a", "b"]


async def test_a_retired_worker_writes_no_more(store: Store, worker: str) -> None:
    """Whatever it sends after it left is refused."""
    await own(store, worker, "r")
    await queue(store, "s")
    await store.retire(worker)
    with pytest.raises(Fenced):
        await store.commit(worker, [entry("r", 1)])
    with pytest.raises(Fenced):
        await store.claim(claiming(worker))
    assert store.renew(worker, HOUR) is None
    assert await is_due(store, "r")
    assert len(await store.read_journal("r")) == 1


async def test_leaving_twice_is_leaving_once(store: Store, worker: str, other: str) -> None:
    """A worker that is gone has nothing to hand back."""
    await own(store, worker, "r")
    assert await store.retire(worker) == 1
    await claim(store, other)
    assert await store.retire(worker) == 0
    assert await store.retire("nobody") == 0
    assert (await row_of(store, "r")).owner == other


async def test_a_run_handed_back_is_a_new_ownership(store: Store, worker: str, other: str) -> None:
    """The next claim has a later epoch than the one handed back."""
    await own(store, worker, "r")
    await store.retire(worker)
    [claimed] = await store.claim(claiming(other))
    assert claimed.epoch > 1
