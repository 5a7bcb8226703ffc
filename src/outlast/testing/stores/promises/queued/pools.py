"""Runs that are shared out: limits over all workers, and a part for each group (SPEC Q2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast.core.states import RunStatus
from outlast.errors import Fenced
from outlast.stores.store import ClaimedRun, RunSharing, Store
from outlast.testing.stores.clocks import Clock, MakeStore
from outlast.testing.stores.writing import (
    HOUR,
    claiming,
    end,
    entry,
    land,
    message,
    own,
    park,
    queue,
    register,
    row_of,
    send_to,
    start,
)
from outlast.testing.stores.writing import claim as claim_others

ONE, TWO = RunSharing("shop", most=1), RunSharing("shop", most=2)
FAIR = RunSharing("shop")
LANE = ("default", "shop")


async def take(store: Store, worker: str, sharing: RunSharing, limit: int = 100, **changes: Any) -> list[ClaimedRun]:
    return await store.claim(claiming(worker, limit=limit, **changes), sharing)


async def claim(store: Store, worker: str, sharing: RunSharing, limit: int = 100, **changes: Any) -> list[str]:
    """The uids of what the worker got, in the order it got them."""
    return [claimed.uid for claimed in await take(store, worker, sharing, limit, **changes)]


async def pool(store: Store, *uids: str, **new: Any) -> None:
    """Start runs of a pool that nobody owns."""
    await queue(store, *uids, **{"pool": "shop", **new})


async def finish(store: Store, worker: str, *uids: str) -> None:
    await land(store, worker, *(end(uid) for uid in uids))


# --- limits -----------------------------------------------------------------------------------------------------------


async def test_no_more_runs_are_owned_than_a_pool_allows(store: Store, worker: str, other: str) -> None:
    """Whoever owns them: what one worker has counts for the other, until it has ended or was given back."""
    await pool(store, *(f"r{n}" for n in range(9)))
    three = RunSharing("shop", most=3)
    assert await claim(store, worker, three, limit=2) == ["r0", "r1"]
    assert await claim(store, other, three) == ["r2"]
    assert await claim(store, worker, three) == []
    await finish(store, worker, "r0")
    assert await claim(store, worker, three) == ["r3"]
    await land(store, other, park("r2"))
    assert await claim(store, other, three) == ["r4"]
    assert await claim(store, other, ONE) == []
    assert await claim(store, other, RunSharing("shop", most=4)) == ["r5"]
    assert await claim(store, other, FAIR, limit=1) == ["r6"]


async def test_a_run_of_a_pool_is_claimed_with_it_alone(store: Store, worker: str) -> None:
    """A plain claim, and that of another pool or queue, pass it by, however urgent it is."""
    await pool(store, "a", priority=0)
    await pool(store, "b", pool="bakery")
    await pool(store, "c", queue="gpu")
    await queue(store, "d", priority=9)
    assert await claim_others(store, worker, oldest_first=True) == ["d"]
    assert await claim(store, worker, FAIR) == ["a"]
    assert await claim(store, worker, RunSharing("bakery")) == ["b"]
    assert await claim(store, worker, FAIR, queues=("gpu",)) == ["c"]


async def test_a_pool_is_the_same_in_all_queues(store: Store, worker: str) -> None:
    """Its limit counts what is owned of it, whatever queue it came from."""
    await pool(store, "a")
    await pool(store, "b", "c", queue="gpu")
    assert await claim(store, worker, TWO) == ["a"]
    assert await claim(store, worker, TWO, queues=("gpu",)) == ["b"]
    assert await claim(store, worker, TWO, queues=("gpu",)) == []


async def test_a_queue_has_a_limit_for_all_its_pools(store: Store, worker: str) -> None:
    """It counts what is owned of any, and the limit of a pool holds beside it."""
    await pool(store, "a", "b", pool="bakery")
    await pool(store, "c", "d")
    await pool(store, "e", pool="bakery", queue="gpu")
    assert await claim(store, worker, RunSharing("bakery"), queues=("gpu",)) == ["e"]
    assert await claim(store, worker, RunSharing("bakery", most=2, queue_most=2)) == ["a"]
    assert await claim(store, worker, RunSharing("shop", most=2, queue_most=2)) == ["c"]
    assert await claim(store, worker, RunSharing("shop", most=2, queue_most=2)) == []
    assert await claim(store, worker, RunSharing("bakery", most=2, queue_most=9)) == []
    assert await claim(store, worker, RunSharing("bakery", most=3, queue_most=3)) == ["b"]


async def test_what_is_owned_of_no_pool_takes_no_place(store: Store, worker: str) -> None:
    """A limit is of those that are shared out."""
    await own(store, worker, "x")
    await pool(store, "a")
    assert await claim(store, worker, RunSharing("shop", most=1, queue_most=1)) == ["a"]


async def test_claims_of_a_pool_at_once_keep_within_its_limit(
    store: Store, worker: str, other: str, make_store: MakeStore
) -> None:
    """Two workers that look at the same moment do not both find the last place free."""
    peer = await make_store()
    await pool(store, *(f"r{n:02}" for n in range(40)))
    five = RunSharing("shop", most=5, queue_most=5)
    for _ in range(6):
        mine, others = await asyncio.gather(claim(store, worker, five, limit=3), claim(peer, other, five))
        assert len(mine) + len(others) == 5
        await finish(store, worker, *mine)
        await finish(peer, other, *others)


async def test_claims_of_two_pools_at_once_keep_within_the_limit_of_their_queue(
    store: Store, worker: str, other: str, make_store: MakeStore
) -> None:
    """The same for pools that share a queue."""
    peer = await make_store()
    await pool(store, *(f"a{n:02}" for n in range(20)))
    await pool(store, *(f"b{n:02}" for n in range(20)), pool="bakery")
    for _ in range(6):
        mine, others = await asyncio.gather(
            claim(store, worker, RunSharing("shop", queue_most=3)),
            claim(peer, other, RunSharing("bakery", queue_most=3)),
        )
        assert len(mine) + len(others) == 3
        await finish(store, worker, *mine)
        await finish(peer, other, *others)


async def test_a_place_is_kept_until_a_dead_worker_is_reaped(store: Store, worker: str, clock: Clock) -> None:
    """What it had counts until it was taken from it; the taker has the place then."""
    frail = await register(store, "worker-3", clock.lease_us)
    await pool(store, "a")
    assert await claim(store, frail, ONE) == ["a"]
    await clock.advance(store, clock.lease_us)
    await pool(store, "b")
    assert await claim(store, worker, ONE) == []
    assert await store.reap() is not None
    [taken] = await take(store, worker, ONE, oldest_first=True)
    assert await claim(store, worker, ONE) == []
    await finish(store, worker, taken.uid)
    [last] = await take(store, worker, ONE)
    assert sorted([(taken.uid, taken.recoveries), (last.uid, last.recoveries)]) == [("a", 1), ("b", 0)]


async def test_a_worker_that_hands_back_gives_up_its_places(store: Store, worker: str, other: str) -> None:
    """At once."""
    await pool(store, "a", "b")
    assert await claim(store, other, ONE) == ["a"]
    assert await store.retire(other) == 1
    assert len(await claim(store, worker, ONE)) == 1


async def test_an_adopted_run_keeps_its_place(store: Store, worker: str) -> None:
    """It is the same worker's, and the answer names the pool."""
    await pool(store, "a", "b")
    [claimed] = await take(store, worker, ONE)
    assert (claimed.workflow, claimed.queue, claimed.pool, claimed.was_queued) == ("shop", "default", "shop", True)
    adopted = await store.adopt(worker, "a", claimed.epoch)
    assert adopted is not None
    assert (adopted.epoch, adopted.pool) == (claimed.epoch + 1, "shop")
    assert await claim(store, worker, ONE) == []


async def test_a_claim_of_a_pool_is_fenced(store: Store, worker: str) -> None:
    """A worker that lost its lease is given nothing."""
    await pool(store, "a")
    await store.retire(worker)
    with pytest.raises(Fenced):
        await claim(store, worker, ONE)


# --- who comes first --------------------------------------------------------------------------------------------------


async def test_groups_of_a_pool_get_as_many_places(store: Store, worker: str) -> None:
    """Whoever brought more waits for longer, whether it came first or not."""
    await pool(store, *(f"a{n}" for n in range(5)), group="a")
    await pool(store, "b0", "b1", group="b")
    got = await claim(store, worker, FAIR, limit=4)
    assert {name[0] for name in got[:2]} == {"a", "b"}
    assert sorted(got) == ["a0", "a1", "b0", "b1"]
    assert await claim(store, worker, FAIR) == ["a2", "a3", "a4"]


async def test_what_a_group_has_counts(store: Store, worker: str, other: str) -> None:
    """Whoever owns it: a group without a place comes before one that has some."""
    await pool(store, *(f"a{n}" for n in range(4)), group="a")
    assert await claim(store, other, FAIR, limit=2) == ["a0", "a1"]
    await pool(store, *(f"b{n}" for n in range(4)), group="b")
    assert await claim(store, worker, FAIR, limit=2) == ["b0", "b1"]


async def test_with_one_place_groups_take_turns(store: Store, worker: str, clock: Clock) -> None:
    """When nothing is held, who was longest not given a place comes first; so nobody's backlog starves another."""
    await pool(store, *(f"a{n}" for n in range(6)), group="a")
    await pool(store, "b0", "b1", group="b")
    await pool(store, "c0", group="c")
    got = []
    for _ in range(6):
        [uid] = await claim(store, worker, ONE)
        got.append(uid)
        await clock.advance(store, 1_000)
        await finish(store, worker, uid)
    assert sorted(got[:3]) == ["a0", "b0", "c0"]
    assert sorted(got[3:5]) == ["a1", "b1"]
    assert got[5] == "a2"


async def test_runs_that_wake_again_and_again_starve_nobody(store: Store, worker: str, clock: Clock) -> None:
    """One group's that is due again as soon as it was parked takes its turn behind another's that waits."""
    await pool(store, "a0", "a1", "a2", group="a")
    await claim(store, worker, ONE)
    await land(store, worker, park("a0", wake_at=0))
    await clock.advance(store, 1_000)
    await pool(store, "b0", "b1", group="b")
    first = await claim(store, worker, ONE)
    assert first == ["b0"]
    await clock.advance(store, 1_000)
    await finish(store, worker, "b0")
    [second] = await claim(store, worker, ONE)
    assert second[0] == "a"
    await clock.advance(store, 1_000)
    await land(store, worker, park(second, epoch=2 if second == "a0" else 1, wake_at=0))
    assert await claim(store, worker, ONE) == ["b1"]


async def test_priority_comes_before_groups(store: Store, worker: str) -> None:
    """And within a group it is who has been due for longest; when the oldest is asked for, priority does not count."""
    await pool(store, "late", group="a", wake_at=2)
    await pool(store, "early", group="a", wake_at=1)
    await pool(store, "urgent", group="b", priority=1, wake_at=3)
    await pool(store, "low", group="b", priority=9, wake_at=0)
    assert await claim(store, worker, FAIR, limit=1) == ["urgent"]
    assert await claim(store, worker, FAIR, limit=1) == ["early"]
    assert await claim(store, worker, FAIR, limit=1, oldest_first=True) == ["low"]


async def test_a_pool_leaves_alone_what_is_not_due_or_not_for_it(store: Store, worker: str) -> None:
    """Runs that sleep, and those that a deploy cannot serve."""
    now = await store.now()
    await pool(store, "later", wake_at=now + HOUR)
    await pool(store, "unfit")
    await claim(store, worker, FAIR)
    await land(store, worker, park("unfit", unfit="deploy-1", wake_at=now))
    assert await claim(store, worker, FAIR) == []
    assert await claim(store, worker, FAIR, deploy="deploy-2") == ["unfit"]


# --- looks ------------------------------------------------------------------------------------------------------------


async def test_a_look_tells_of_pools(store: Store, worker: str) -> None:
    """In which a run is due; and of those in which none is, when one will be. What is due of them is not `due`."""
    now = await store.now()
    await pool(store, "a", wake_at=now + HOUR, pool="bakery")
    asking = claiming(worker, lanes=(LANE, ("default", "bakery"), ("gpu", "shop")))
    look = await store.look(asking)
    assert (look.due, look.lanes, look.next_at) == (False, (), now + HOUR)
    await pool(store, "b", group="x")
    await queue(store, "c", wake_at=now + 2 * HOUR)
    look = await store.look(asking)
    assert (look.due, look.lanes, look.next_at) == (False, (LANE,), now + HOUR)
    look = await store.look(claiming(worker))
    assert (look.due, look.lanes, look.next_at) == (False, (), now + 2 * HOUR)
    await claim(store, worker, FAIR)
    look = await store.look(asking)
    assert look.lanes == ()


async def test_pools_in_which_runs_wait_are_listed(store: Store, worker: str) -> None:
    """By queue; what is owned, or waits for a message, is not there."""
    assert await store.list_pools() == []
    await pool(store, "a", "b")
    await pool(store, "c", pool="bakery", queue="gpu")
    await pool(store, "d", pool="bakery")
    await queue(store, "e", queue="night")
    assert await store.list_pools() == [("default", "bakery"), LANE, ("gpu", "bakery")]
    await claim(store, worker, FAIR)
    assert await store.list_pools() == [("default", "bakery"), ("gpu", "bakery")]


async def test_rows_and_queues_show_runs_of_pools_as_others(store: Store, worker: str) -> None:
    """A row names the pool and the priority that was given; a queue counts what waits in its pools."""
    await pool(store, "a", "b", priority=7, group="x")
    row = await row_of(store, "a")
    assert (row.priority, row.pool, row.group, row.queue) == (7, "shop", "x", "default")
    await claim(store, worker, ONE)
    [standing] = await store.list_queues()
    assert (standing.queue, standing.waiting, standing.held) == ("default", 1, 1)


# --- into a pool, and out of it ---------------------------------------------------------------------------------------


async def test_a_run_that_was_of_none_is_put_into_a_pool(store: Store, worker: str, other: str) -> None:
    """Claimed before its workflow had a limit, it is given back as it was, and takes its turn from then on."""
    await queue(store, "a", priority=3)
    [claimed] = await store.claim(claiming(worker))
    assert (claimed.pool, claimed.was_queued, claimed.status) == (None, True, RunStatus.RUNNING)
    assert await store.pool_run(worker, claimed, "shop", "x")
    row = await row_of(store, "a")
    assert (row.status, row.owner, row.pool, row.group, row.priority) == (RunStatus.QUEUED, None, "shop", "x", 3)
    assert row.started_at is None
    assert not await store.pool_run(worker, claimed, "shop", "x")
    assert await claim_others(store, other) == []
    assert await claim(store, other, ONE) == ["a"]


async def test_what_is_put_into_a_pool_stays_as_it_was(store: Store, worker: str, other: str, clock: Clock) -> None:
    """A run that had begun is running still; one that another owns by now is left alone."""
    await own(store, worker, "a")
    await clock.advance(store, 1_000)
    await land(store, worker, park("a", wake_at=0))
    [claimed] = await store.claim(claiming(worker))
    assert not claimed.was_queued
    assert not await store.pool_run(other, claimed, "shop", "")
    assert await store.pool_run(worker, claimed, "shop", "")
    row = await row_of(store, "a")
    assert row.status is RunStatus.RUNNING
    assert row.started_at is not None


async def test_a_message_leaves_a_run_in_its_pool(store: Store, worker: str) -> None:
    """It is due, and waits for its place."""
    await pool(store, "a", "b")
    await claim(store, worker, ONE)
    await store.send("b", message())
    assert await claim_others(store, worker) == []
    await finish(store, worker, "a")
    assert await claim(store, worker, ONE) == ["b"]


async def test_a_cancel_takes_a_run_out_of_its_pool(store: Store, worker: str) -> None:
    """It waits for no place: whoever comes claims it. One that is owned keeps its place."""
    await pool(store, "a", "b")
    await claim(store, worker, ONE)
    await store.send("b", message("c1", "cancel"))
    await store.send("a", message("c2", "cancel"))
    assert (await row_of(store, "b")).pool is None
    assert (await row_of(store, "a")).pool == "shop"
    assert await claim_others(store, worker) == ["b"]
    assert (await row_of(store, "b")).priority == 5


async def test_a_cancel_from_a_parent_does_so_too(store: Store, worker: str) -> None:
    """As an effect of an entry."""
    await own(store, worker, "p")
    await pool(store, "a", wake_at=await store.now() + HOUR)
    await land(store, worker, entry("p", 1, sends=(send_to("a", "c1", "cancel"),)))
    assert await claim_others(store, worker) == ["a"]


async def test_a_child_starts_in_its_pool(store: Store, worker: str) -> None:
    """As an effect of its parent's entry; and a message in that entry reaches it there."""
    await own(store, worker, "p")
    await land(store, worker, entry("p", 1, children=(start("c", pool="shop", group="x"),), sends=(send_to("c"),)))
    assert await claim_others(store, worker) == []
    assert await claim(store, worker, ONE) == ["c"]


async def test_a_next_round_is_of_the_pool_of_the_one_before(store: Store, worker: str) -> None:
    """With its queue, its group and its priority; the round that ended has given its place back."""
    await pool(store, "a", queue="gpu", group="x", priority=2)
    assert await claim(store, worker, ONE, queues=("gpu",)) == ["a"]
    following = start("b", id="id of a", continues="a", origin="a", priority=2)
    await land(store, worker, end("a", children=(following,)))
    row = await row_of(store, "b")
    assert (row.queue, row.pool, row.group, row.priority) == ("gpu", "shop", "x", 2)
    assert await claim_others(store, worker, queues=("gpu",)) == []
    assert await claim(store, worker, ONE, queues=("gpu",)) == ["b"]


async def test_a_run_that_is_reopened_is_of_its_pool(store: Store, worker: str) -> None:
    """It takes its turn."""
    await pool(store, "a")
    await claim(store, worker, ONE)
    await finish(store, worker, "a")
    await store.send("a", message("u", "unwind"))
    assert await claim_others(store, worker) == []
    assert await claim(store, worker, ONE) == ["a"]
