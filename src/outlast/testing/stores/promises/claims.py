"""Claims: which due runs a worker gets, in what order, and what it owns then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast.core.states import RunStatus
from outlast.errors import Fenced
from outlast.stores.store import ClaimedRun, OwnedRun, RowChange, Store
from outlast.testing.stores.clocks import Clock, MakeStore
from outlast.testing.stores.writing import (
    HOUR,
    claim,
    claiming,
    end,
    entry,
    is_due,
    land,
    message,
    own,
    park,
    queue,
    register,
    row_of,
    start,
)


# SPEC L1
async def test_a_claim_takes_ownership(store: Store, worker: str, other: str) -> None:
    """A claimed run has the worker as its owner under a new epoch, runs, and is nobody else's to claim."""
    await queue(store, "r")
    assert await store.claim(claiming(worker)) == [ClaimedRun("r", 1, 0, RunStatus.RUNNING, "shop", was_queued=True)]
    row = await row_of(store, "r")
    assert (row.owner, row.epoch, row.wake_at, row.status) == (worker, 1, None, RunStatus.RUNNING)
    assert row.started_at is not None
    assert await claim(store, other) == []
    assert await claim(store, worker) == []


async def test_each_claim_is_a_new_epoch(store: Store, worker: str, other: str, clock: Clock) -> None:
    """The epoch grows with every ownership, and a run's first start is kept."""
    await own(store, worker, "r")
    first = (await row_of(store, "r")).started_at
    await land(store, worker, park("r", wake_at=0))
    await clock.advance(store, 1000)
    assert [claimed.epoch for claimed in await store.claim(claiming(other))] == [2]
    row = await row_of(store, "r")
    assert (row.epoch, row.started_at) == (2, first)


async def test_a_suspended_run_stays_suspended_when_claimed(store: Store, worker: str) -> None:
    """Only a queued run becomes running by a claim: what wakes a suspended one is for its owner to judge."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, row=RowChange(status=RunStatus.SUSPENDED)))
    await land(store, worker, park("r", wake_at=0))
    assert await store.claim(claiming(worker)) == [ClaimedRun("r", 2, 0, RunStatus.SUSPENDED, "shop")]


async def test_claims_go_by_priority(store: Store, worker: str) -> None:
    """Priority 0 comes first and 9 last; among equals, who has been due longest."""
    now = await store.now()
    for uid, priority, due in [("a", 5, 30), ("b", 9, 90), ("c", 0, 10), ("d", 5, 40), ("e", 1, 20)]:
        await queue(store, uid, priority=priority, wake_at=now - due)
    assert await claim(store, worker, limit=2) == ["c", "e"]
    assert await claim(store, worker) == ["d", "a", "b"]


# PROTOCOL F34
async def test_a_claim_from_the_oldest_ignores_priority(store: Store, worker: str) -> None:
    """Every so often the longest due goes first, so that low priorities do not starve."""
    now = await store.now()
    for uid, priority, due in [("a", 5, 30), ("b", 9, 90), ("c", 0, 10)]:
        await queue(store, uid, priority=priority, wake_at=now - due)
    assert await claim(store, worker, oldest_first=True, limit=2) == ["b", "a"]


async def test_a_worker_serves_its_queues(store: Store, worker: str) -> None:
    """Runs of queues that a worker does not name are not its to claim."""
    for uid, name in [("a", "default"), ("b", "gpu"), ("c", "mail")]:
        await queue(store, uid, queue=name)
    assert sorted(await claim(store, worker, queues=("gpu", "mail"))) == ["b", "c"]
    assert await claim(store, worker, queues=()) == []
    assert await claim(store, worker) == ["a"]


async def test_order_holds_across_queues(store: Store, worker: str) -> None:
    """Priority and age count over all queues of a worker together."""
    now = await store.now()
    for uid, name, priority, due in [("a", "x", 5, 1), ("b", "y", 4, 1), ("c", "x", 5, 3), ("d", "y", 5, 2)]:
        await queue(store, uid, queue=name, priority=priority, wake_at=now - due)
    assert await claim(store, worker, queues=("x", "y")) == ["b", "c", "d", "a"]


# PROTOCOL F35
async def test_a_deploy_that_cannot_serve_a_run_does_not_get_it(store: Store, worker: str) -> None:
    """A run says which deploys are unfit for it; workers of other deploys claim it."""
    await own(store, worker, "r")
    await land(store, worker, park("r", wake_at=0, unfit="deploy-1"))
    assert await claim(store, worker, deploy="deploy-1") == []
    assert await is_due(store, "r")
    assert await claim(store, worker, deploy="deploy-2") == ["r"]
    await land(store, worker, park("r", epoch=2, wake_at=0, unfit="deploy-2"))
    assert await claim(store, worker, deploy="deploy-2") == []
    assert await claim(store, worker, deploy="deploy-1") == []
    assert await claim(store, worker, deploy="deploy-3") == ["r"]


async def test_unfit_runs_do_not_use_up_the_limit(store: Store, worker: str) -> None:
    """A worker gets its fill of fit runs, however many unfit ones are due before them."""
    now = await store.now()
    await own(store, worker, "a", "b", "c")
    await land(store, worker, *(park(uid, wake_at=0, unfit="deploy-1") for uid in "abc"))
    await queue(store, "d", "e", wake_at=now)
    assert await claim(store, worker, limit=2) == ["d", "e"]


async def test_a_claim_takes_no_more_than_its_limit(store: Store, worker: str) -> None:
    """A worker gets at most its free places."""
    await queue(store, *(f"r{n}" for n in range(10)))
    assert len(await claim(store, worker, limit=3)) == 3
    assert await claim(store, worker, limit=0) == []
    assert len(await claim(store, worker, limit=100)) == 7


async def test_what_is_not_due_is_not_claimed(store: Store, worker: str, other: str) -> None:
    """Owned runs, runs that wait for a message or for later, and ended runs are nobody's to claim."""
    await own(store, worker, "owned", "parked", "sleeping", "ended", "ended-2")
    later = await store.now() + HOUR
    await land(store, worker, park("parked"), park("sleeping", wake_at=later), end("ended"))
    await land(store, worker, end("ended-2", status=RunStatus.FAILED), entry("owned", 1))
    assert await claim(store, other) == []


async def test_two_workers_never_get_the_same_run(store: Store, worker: str, other: str, make_store: MakeStore) -> None:
    """Workers that claim at once share the runs out: each run goes to one of them."""
    elsewhere = await make_store()
    uids = [f"r{n}" for n in range(60)]
    await land(store, worker, *(start(uid) for uid in uids))
    claims = await asyncio.gather(
        *(claim(store, worker, limit=7) for _ in range(6)), *(claim(elsewhere, other, limit=7) for _ in range(6))
    )
    rest = await claim(store, worker)
    got = [uid for part in [*claims, rest] for uid in part]
    assert sorted(got) == sorted(uids)
    owned = {name: {run.uid for run in await store.list_owned(name)} for name in (worker, other)}
    assert owned[worker].isdisjoint(owned[other])
    assert owned[worker] | owned[other] == set(uids)


# PROTOCOL F3
async def test_a_dead_worker_claims_nothing(store: Store, clock: Clock) -> None:
    """A claim that arrives after its worker was marked dead is refused: it would be owned by nobody."""
    zombie = await register(store, "zombie", clock.lease_us)
    await queue(store, "r")
    await clock.advance(store, clock.lease_us)
    await store.reap()
    for worker in (zombie, "nobody"):
        with pytest.raises(Fenced):
            await store.claim(claiming(worker))
    assert await is_due(store, "r")


# --- reconcile --------------------------------------------------------------------------------------------------------


# PROTOCOL F4
async def test_a_worker_can_ask_what_it_owns(store: Store, worker: str, other: str) -> None:
    """After a lost answer a worker asks which runs are its own, and under which epochs."""
    await own(store, worker, "a", "b", "c")
    await own(store, other, "d")
    await queue(store, "e")
    await land(store, worker, park("b"), end("c"))
    await claim(store, worker)
    assert sorted(await store.list_owned(worker), key=lambda run: run.uid) == [OwnedRun("a", 1), OwnedRun("e", 1)]
    assert await store.list_owned(other) == [OwnedRun("d", 1)]
    assert await store.list_owned("nobody") == []


async def test_a_run_is_adopted_under_a_new_epoch(store: Store, worker: str) -> None:
    """A worker that did not know of a run it owns takes it anew, so that its own late requests miss it."""
    await own(store, worker, "r")
    assert await store.adopt(worker, "r", 1) == ClaimedRun("r", 2, 0, RunStatus.RUNNING, "shop")
    assert await store.list_owned(worker) == [OwnedRun("r", 2)]
    await land(store, worker, park("r", epoch=1))
    assert (await row_of(store, "r")).owner == worker


async def test_only_what_is_still_so_is_adopted(store: Store, worker: str, other: str) -> None:
    """Another epoch, another owner, no owner, no run: nothing is adopted, nothing changes."""
    await own(store, worker, "r", "parked")
    await land(store, worker, park("parked"))
    before = await row_of(store, "r")
    assert await store.adopt(worker, "r", 0) is None
    assert await store.adopt(worker, "r", 2) is None
    assert await store.adopt(other, "r", 1) is None
    assert await store.adopt(worker, "parked", 1) is None
    assert await store.adopt(worker, "gone", 1) is None
    assert await row_of(store, "r") == before


async def test_a_dead_worker_adopts_nothing(store: Store, clock: Clock) -> None:
    """Adopting is a claim, and fenced like one."""
    zombie = await register(store, "zombie", clock.lease_us)
    await own(store, zombie, "r")
    await clock.advance(store, clock.lease_us)
    await store.reap(limit=1)
    with pytest.raises(Fenced):
        await store.adopt(zombie, "r", 1)


# --- suspended runs that a new deploy can serve -----------------------------------------------------------------------


async def suspend(store: Store, worker: str, uid: str, code: str, **row: Any) -> None:
    await own(store, worker, uid)
    change = park(uid, status=RunStatus.SUSPENDED, waiting_on=code, **row).effects
    assert change is not None
    await land(store, worker, entry(uid, 1, row=change.row))


# SPEC S13; PROTOCOL F35
async def test_runs_that_miss_code_are_due_when_it_comes(store: Store, worker: str) -> None:
    """A deploy that may have what suspended runs lack makes them due, but those that it is unfit for."""
    await suspend(store, worker, "a", "FUNCTION_NOT_FOUND")
    await suspend(store, worker, "b", "FUNCTION_NOT_FOUND", unfit="deploy-2")
    await suspend(store, worker, "c", "VERSION_CONFLICT", unfit="deploy-1")
    await suspend(store, worker, "d", "POISONED")
    await own(store, worker, "e")
    await land(store, worker, park("e", waiting_on="FUNCTION_NOT_FOUND"))
    assert await store.redue(["FUNCTION_NOT_FOUND", "VERSION_CONFLICT"], "deploy-2") == 2
    assert await store.redue(["FUNCTION_NOT_FOUND", "VERSION_CONFLICT"], "deploy-2") == 0, "they are due by now"
    assert [uid for uid in "abcde" if await is_due(store, uid)] == ["a", "c"]
    assert sorted(await claim(store, worker, deploy="deploy-2")) == ["a", "c"]
    assert await store.redue(["FUNCTION_NOT_FOUND", "VERSION_CONFLICT"], "deploy-2") == 0


# SPEC V4; PROTOCOL F35
async def test_what_was_left_to_others_can_be_taken_back(store: Store, worker: str) -> None:
    """When those it was left to are gone, a deploy may look again; at what is suspended it does not."""
    for uid in "ab":
        await own(store, worker, uid)
        await land(store, worker, park(uid, wake_at=await store.now(), unfit="deploy-2"))
    await suspend(store, worker, "c", "VERSION_CONFLICT", unfit="deploy-2")
    assert await claim(store, worker, deploy="deploy-2") == []
    assert await store.refit("deploy-1") == 0
    assert await store.refit("deploy-2") == 2
    assert sorted(await claim(store, worker, deploy="deploy-2")) == ["a", "b"]
    assert await store.redue(["VERSION_CONFLICT"], "deploy-2") == 0


# SPEC X1; PROTOCOL F35
async def test_a_message_lets_any_deploy_look(store: Store, worker: str) -> None:
    """A cancel reaches a run that nobody could serve."""
    await suspend(store, worker, "a", "VERSION_CONFLICT", unfit="deploy-2")
    assert await claim(store, worker, deploy="deploy-2") == []
    await store.send("a", message())
    assert await claim(store, worker, deploy="deploy-2") == ["a"]


# SPEC X1; PROTOCOL F35
async def test_a_message_that_came_meanwhile_is_looked_at_by_the_same_deploy(store: Store, worker: str) -> None:
    """A cancel arrives as a run is set aside by who could not serve it: nobody else may be there to read it."""
    await own(store, worker, "a")
    await store.send("a", message())
    change = park("a", status=RunStatus.SUSPENDED, waiting_on="VERSION_CONFLICT", unfit="deploy-2").effects
    assert change is not None
    await land(store, worker, entry("a", 1, row=change.row))
    assert await claim(store, worker, deploy="deploy-2") == ["a"]
    seen = (await store.read_inbox("a")).mail
    await land(store, worker, park("a", 2, seen=seen, unfit="deploy-2"))
    assert await claim(store, worker, deploy="deploy-2") == []


async def test_a_suspended_run_that_is_owned_is_left_alone(store: Store, worker: str) -> None:
    """Whoever owns a run decides about it."""
    await own(store, worker, "r")
    row = RowChange(status=RunStatus.SUSPENDED, waiting_on="FUNCTION_NOT_FOUND")
    await land(store, worker, entry("r", 1, row=row))
    await store.send("r", message())
    before = await row_of(store, "r")
    assert await store.redue(["FUNCTION_NOT_FOUND"], "deploy-2") == 0
    assert await row_of(store, "r") == before
