"""Rounds: a run that ends by going on as a fresh one, under its id, with its mail (R6, F30)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast.core.states import RunStatus
from outlast.stores.store import STAYING, Progress, RowChange, RunQuery, Store, Verdict
from outlast.testing.stores.clocks import Clock, MakeStore
from outlast.testing.stores.writing import (
    COMPLETED,
    claim,
    commit,
    end,
    entry,
    ids_in_inbox,
    inbox_of,
    is_due,
    land,
    marks_of,
    message,
    own,
    queue,
    row_of,
    send_to,
    start,
    task,
    wait,
)


def go_on(
    uid: str, follower: str, *, seq: int = 1, origin: str | None = None, id: str | None = None, **effects: Any
) -> Progress:
    """The last entry of a round, with the first of the next."""
    name = f"id of {origin or uid}" if id is None else id
    following = start(follower, id=name, continues=uid, origin=origin or uid)
    return end(uid, seq, children=(following,), **effects)


# SPEC R6
async def test_the_round_that_follows_has_the_id(store: Store, worker: str) -> None:
    """It is due, knows the first round, and is known by the one before; which has ended, and keeps its journal."""
    await land(store, worker, start("a", claimed=True, queue="night"))
    await land(store, worker, go_on("a", "b"))
    found = await store.find_run("id of a")
    assert found is not None
    assert (found.uid, found.origin, found.next, found.status) == ("b", "a", None, RunStatus.QUEUED)
    before = await row_of(store, "a")
    assert (before.live, before.owner, before.status, before.origin, before.next) == (False, None, COMPLETED, None, "b")
    assert len(await marks_of(store, "a")) == 2
    assert await is_due(store, "b")
    assert await claim(store, worker) == []
    assert await claim(store, worker, queues=("night",)) == ["b"]
    await land(store, worker, go_on("b", "c", origin="a"))
    assert (await row_of(store, "c")).queue == "night"
    assert [(await row_of(store, uid)).next for uid in "abc"] == ["c", "c", None]
    assert [(await row_of(store, uid)).origin for uid in "abc"] == [None, "a", "a"]
    assert [row.uid for row in await store.list_runs(RunQuery())] == ["c", "b", "a"]


async def test_a_run_may_go_on_in_the_entry_that_starts_it(store: Store, worker: str) -> None:
    """Its body needed nothing to get there."""
    following = start("b", id="id of a", continues="a", origin="a")
    ended = RowChange(status=COMPLETED, ended=True)
    once = start("a", claimed=True, beside={"children": (following,), "row": ended})
    await land(store, worker, once)
    await land(store, worker, once)
    assert [(await row_of(store, uid)).next for uid in "ab"] == ["b", None]
    found = await store.find_run("id of a")
    assert found is not None
    assert (found.uid, (await row_of(store, "a")).live) == ("b", False)
    assert await claim(store, worker) == ["b"]
    assert (await store.send("a", message())).uid == "b"


async def test_going_on_twice_is_going_on_once(store: Store, worker: str) -> None:
    """A repeat of the commit is recognised, also when the next round has moved since; another writer's is stale."""
    await own(store, worker, "a")
    once = go_on("a", "b")
    await land(store, worker, once)
    await land(store, worker, once)
    assert await claim(store, worker) == ["b"]
    await land(store, worker, entry("b", 1))
    await land(store, worker, once)
    assert len(await marks_of(store, "b")) == 2
    other = go_on("a", "x")
    other = type(other)(other.uid, other.seq, mark=7, prev=other.prev, events=other.events, effects=other.effects)
    assert await commit(store, worker, other) == [Verdict.STALE]
    assert await store.find_uid("x") is None


async def test_a_stale_round_does_not_go_on(store: Store, worker: str) -> None:
    """Refused, nothing of it happens: it lives, and holds its id."""
    await own(store, worker, "a")
    late = entry("a", 1, prev=7, row=RowChange(status=COMPLETED, ended=True),
                 children=(start("b", id="id of a", continues="a", origin="a"),))  # fmt: skip
    assert await commit(store, worker, late) == [Verdict.STALE]
    row = await row_of(store, "a")
    assert (row.live, row.owner, row.next) == (True, worker, None)
    found = await store.find_run("id of a")
    assert found is not None
    assert found.uid == "a"


async def test_unread_mail_goes_along(store: Store, worker: str) -> None:
    """Under its numbers, and the next message gets the next one; what was consumed, and what answers the steps of the
    round that ends, does not. Its tasks and waits end with it."""
    await own(store, worker, "a")
    for id, kind in (("m1", "signal"), ("m2", "child"), ("m3", "cancel"), ("m4", "task"), ("m5", "signal")):
        await store.send("a", message(id, kind))
    await land(store, worker, entry("a", 1, tasks=(task(),), waits_opened=(wait(),)))
    await land(store, worker, go_on("a", "b", seq=2, consumed=(1,)))
    assert [(found.no, found.id) for found in await inbox_of(store, "b")] == [(3, "m3"), (5, "m5")]
    assert await inbox_of(store, "a") == []
    assert (await row_of(store, "b")).mail == 5
    assert (await store.read_inbox("b")).mail == 5
    sent = await store.send("b", message("m6"))
    assert (sent.verdict, sent.no) == ("sent", 6)
    assert (await store.send("b", message("m5"))).verdict == "duplicate"
    assert await store.list_tasks("a") == []
    assert await store.list_waits() == []


async def test_what_is_sent_to_a_round_before_reaches_the_last(store: Store, worker: str) -> None:
    """From outside and from other runs: the answer says whose inbox it is. What answers a round's own steps stays."""
    await own(store, worker, "a", "other")
    await land(store, worker, go_on("a", "b"))
    await claim(store, worker)
    await land(store, worker, go_on("b", "c", origin="a"))
    for number, uid in enumerate("abc"):
        sent = await store.send(uid, message(f"m{number}"))
        assert (sent.verdict, sent.uid) == ("sent", "c")
    assert (await store.send("a", message("m1"))).verdict == "duplicate"
    for kind in STAYING:
        assert (await store.send("a", message(f"late {kind}", kind))).verdict == "ended"
    late = tuple(send_to(uid, f"n{uid}", kind) for uid, kind in (("a", "retry"), ("b", "cancel"), ("a", "child")))
    await land(store, worker, entry("other", 1, sends=late))
    assert await ids_in_inbox(store, "c") == ["m0", "m1", "m2", "na", "nb"]
    await land(store, worker, entry("other", 2, sends=(send_to("c", "straight"), send_to("b", "straight"))))
    assert (await ids_in_inbox(store, "c"))[-1] == "straight"
    assert await is_due(store, "c")


async def test_one_commit_may_hold_the_end_and_what_is_sent_to_it(store: Store, worker: str) -> None:
    """A run of the same batch sends to the round that ends: the next round has the message."""
    await own(store, worker, "a", "other")
    await land(store, worker, entry("other", 1, sends=(send_to("a", "m1"),)), go_on("a", "b"))
    assert await ids_in_inbox(store, "b") == ["m1"]


async def test_a_last_round_is_reopened_by_what_is_sent_to_the_first(store: Store, worker: str) -> None:
    """A parent knows its child by the first round: `unwind` and `retry` are for the last."""
    await own(store, worker, "a")
    await land(store, worker, go_on("a", "b"))
    await claim(store, worker)
    await land(store, worker, end("b", 1, RunStatus.FAILED))
    assert (await store.send("a", message("u", "unwind"))).verdict == "ended"
    sent = await store.send("a", message("r", "retry"))
    assert (sent.verdict, sent.uid) == ("sent", "b")
    assert await is_due(store, "b")
    assert not (await row_of(store, "a")).live


async def test_an_id_that_another_run_holds_is_no_rounds(store: Store, worker: str) -> None:
    """A round gets its id from the one before and from no other run, lives it or not."""
    await own(store, worker, "a", "other")
    assert await commit(store, worker, go_on("a", "b", id="id of other")) == [Verdict.TAKEN]
    await land(store, worker, end("other"))
    assert await commit(store, worker, go_on("a", "b", id="id of other")) == [Verdict.TAKEN]
    assert (await row_of(store, "a")).live
    assert await store.find_uid("b") is None


# SPEC R9
async def test_rounds_are_deleted_when_they_are_over(store: Store, worker: str, clock: Clock) -> None:
    """A round in the middle goes when it is old; the first stays until the last has ended, for it is found by it."""
    await own(store, worker, "a")
    await land(store, worker, go_on("a", "b"))
    await claim(store, worker)
    await land(store, worker, go_on("b", "c", origin="a"))
    await claim(store, worker)
    later = await store.now() + 1
    assert await store.delete_run("a") is False
    assert await store.prune([COMPLETED], later) == 1
    assert [await store.find_uid(uid) is not None for uid in "abc"] == [True, False, True]
    assert (await store.send("a", message())).uid == "c"
    assert (await store.send("b", message("m2"))).verdict == "missing"
    await land(store, worker, end("c"))
    assert await store.prune([COMPLETED], await store.now() + 1) == 2


async def test_without_its_first_round_a_run_is_found_from_round_to_round(store: Store, worker: str) -> None:
    """The first round of one that ended may be gone; each other still names the one that followed it."""
    await own(store, worker, "a")
    for before, after in ("ab", "bc", "cd"):
        await land(store, worker, go_on(before, after, origin="a"))
        await claim(store, worker)
    await land(store, worker, end("d", 1, RunStatus.FAILED))
    assert await store.delete_run("a") is True
    sent = await store.send("b", message("r", "retry"))
    assert (sent.verdict, sent.uid) == ("sent", "d")


@pytest.mark.parametrize("count", [20])
async def test_a_signal_that_is_sent_meanwhile_is_not_lost(
    make_store: MakeStore, store: Store, worker: str, count: int
) -> None:
    """Two processes: while the one lets the run go on, again and again, the other sends to its first round. Each
    message is in some inbox once, and none in one that has ended."""
    sender = await make_store()
    await own(store, worker, "r0")

    async def send() -> None:
        for number in range(5 * count):
            assert (await sender.send("r0", message(f"m{number}"))).verdict == "sent"

    sending = asyncio.create_task(send())
    read: list[str] = []
    for number in range(count):
        uid = f"r{number}"
        found = await inbox_of(store, uid)
        read += [each.id for each in found]
        await land(store, worker, go_on(uid, f"r{number + 1}", origin="r0", consumed=tuple(each.no for each in found)))
        while await claim(store, worker) != [f"r{number + 1}"]:
            pass  # a row that is being sent to may be passed over
    await sending
    read += await ids_in_inbox(store, f"r{count}")
    assert sorted(read) == sorted(f"m{number}" for number in range(5 * count))
    assert all([await inbox_of(store, f"r{number}") == [] for number in range(count)])


async def test_a_queued_run_keeps_its_place_without_rounds(store: Store, worker: str) -> None:
    """What has no rounds says nothing of them."""
    await queue(store, "r")
    row = await row_of(store, "r")
    assert (row.origin, row.next) == (None, None)
