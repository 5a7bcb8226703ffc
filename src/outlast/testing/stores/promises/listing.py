"""Listing runs: filters, newest first, in pages that neither repeat nor miss (R9)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from outlast.core.states import RunStatus
from outlast.stores.store import Release, RowChange, RunQuery, RunRow, Store
from outlast.testing.stores.clocks import Clock
from outlast.testing.stores.writing import end, entry, land, message, own, park, queue, row_of, start


async def uids(store: Store, **query: Any) -> list[str]:
    return [row.uid for row in await store.list_runs(RunQuery(**query))]


async def walk(store: Store, **query: Any) -> list[RunRow]:
    """All pages."""
    found: list[RunRow] = []
    after = None
    while page := await store.list_runs(RunQuery(after=after, **query)):
        found += page
        after = (page[-1].created_at, page[-1].uid)
    return found


async def test_nothing_is_listed_of_an_empty_store(store: Store) -> None:
    """No runs, no rows."""
    assert await store.list_runs(RunQuery()) == []


# SPEC R9
async def test_runs_are_listed_newest_first(store: Store, clock: Clock) -> None:
    """The last started comes first; rows are as `find_uid` has them."""
    for uid in ("b", "c", "a"):
        await queue(store, uid)
        await clock.advance(store, 1000)
    rows = await store.list_runs(RunQuery())
    assert [row.uid for row in rows] == ["a", "c", "b"]
    assert rows == [await row_of(store, uid) for uid in "acb"]


async def test_runs_of_the_same_instant_are_listed_by_uid(store: Store) -> None:
    """Ties have an order too, so that no page repeats or misses one of them."""
    await land(store, None, *(start(f"r{n}") for n in (3, 1, 4, 2, 0)))
    rows = await store.list_runs(RunQuery())
    assert [(row.created_at, row.uid) for row in rows] == sorted(
        ((row.created_at, row.uid) for row in rows), reverse=True
    )
    assert len(rows) == 5


# SPEC R9
@pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
async def test_pages_neither_repeat_nor_miss(store: Store, clock: Clock, limit: int) -> None:
    """Walking by `after` meets each run once, in order, whatever the size of a page."""
    for n in range(4):
        await land(store, None, *(start(f"r{n}{m}") for m in range(3)))
        await clock.advance(store, 1000)
    found = await walk(store, limit=limit)
    assert [row.uid for row in found] == await uids(store, limit=100)
    assert len(found) == 12


async def test_a_page_is_not_moved_by_what_is_new(store: Store, clock: Clock) -> None:
    """Runs that start while somebody pages do not shift the next page."""
    for uid in ("a", "b", "c", "d"):
        await queue(store, uid)
        await clock.advance(store, 1000)
    first = await store.list_runs(RunQuery(limit=2))
    await queue(store, "e", "f")
    after = (first[-1].created_at, first[-1].uid)
    assert await uids(store, after=after) == ["b", "a"]


async def test_runs_are_filtered_by_what_their_start_said(store: Store) -> None:
    """Workflow, user and parent match exactly."""
    await queue(store, "a", workflow="fulfil", user="ada")
    await queue(store, "b", workflow="fulfil", user="bob", parent="a")
    await queue(store, "c", workflow="Fulfil", parent="a")
    assert sorted(await uids(store, workflow="fulfil")) == ["a", "b"]
    assert await uids(store, workflow="Fulfil") == ["c"]
    assert await uids(store, user="ada") == ["a"]
    assert sorted(await uids(store, parent="a")) == ["b", "c"]
    assert await uids(store, workflow="fulfil", parent="a") == ["b"]
    assert await uids(store, workflow="ful") == []
    assert await uids(store, user="") == []


async def test_runs_are_filtered_by_status(store: Store, worker: str) -> None:
    """One status or several; none named means any."""
    await own(store, worker, "a", "b", "c")
    await land(store, worker, end("a"), end("b", status=RunStatus.FAILED))
    await queue(store, "d")
    assert await uids(store, statuses=(RunStatus.COMPLETED,)) == ["a"]
    assert sorted(await uids(store, statuses=(RunStatus.FAILED, RunStatus.RUNNING))) == ["b", "c"]
    assert await uids(store, statuses=(RunStatus.QUEUED,)) == ["d"]
    assert await uids(store, statuses=(RunStatus.CANCELLED,)) == []
    assert len(await uids(store)) == 4


async def test_runs_are_filtered_by_what_they_wait_for(store: Store, worker: str) -> None:
    """Exactly, or by a prefix that ends with `*`; other wildcards are plain text."""
    waits = {
        "a": "signal:paid",
        "b": "signal:sent",
        "c": "signal",
        "d": "Signal:paid",
        "e": "100%_sure",
        "f": "100 or so",
    }
    await own(store, worker, *waits)
    await land(store, worker, *(park(uid, waiting_on=text) for uid, text in waits.items()))
    assert await uids(store, waiting_on="signal:paid") == ["a"]
    assert await uids(store, waiting_on="signal") == ["c"]
    assert sorted(await uids(store, waiting_on="signal*")) == ["a", "b", "c"]
    assert sorted(await uids(store, waiting_on="signal:*")) == ["a", "b"]
    assert await uids(store, waiting_on="100%*") == ["e"]
    assert await uids(store, waiting_on="100%_*") == ["e"]
    assert await uids(store, waiting_on="1_0*") == []
    assert await uids(store, waiting_on="[s]ignal*") == []
    assert len(await uids(store, waiting_on="*")) == 6


async def test_runs_are_filtered_by_when_they_started(store: Store, clock: Clock) -> None:
    """From an instant on, and until before another."""
    instants = {}
    for uid in "abc":
        await queue(store, uid)
        instants[uid] = (await row_of(store, uid)).created_at
        await clock.advance(store, 1000)
    assert await uids(store, created_from=instants["b"]) == ["c", "b"]
    assert await uids(store, created_until=instants["b"]) == ["a"]
    assert await uids(store, created_from=instants["b"], created_until=instants["c"]) == ["b"]


# SPEC R9
async def test_runs_are_filtered_by_attributes(store: Store) -> None:
    """All named attributes must be there with these very JSON values."""
    await queue(store, "a", attributes=b'{"region":"eu","size":1}')
    await queue(store, "b", attributes=b'{"region":"us","size":1,"vip":true}')
    await queue(store, "c", attributes=b'{ "size" : "1", "vip":1, "gone":null}')
    await queue(store, "d")
    assert await uids(store, attributes=(("region", b'"eu"'),)) == ["a"]
    assert sorted(await uids(store, attributes=(("size", b"1"),))) == ["a", "b"]
    assert await uids(store, attributes=(("size", b'"1"'),)) == ["c"]
    assert await uids(store, attributes=(("size", b"1"), ("region", b'"us"'))) == ["b"]
    assert await uids(store, attributes=(("vip", b"true"),)) == ["b"]
    assert await uids(store, attributes=(("vip", b"1"),)) == ["c"]
    assert await uids(store, attributes=(("gone", b"null"),)) == ["c"]
    assert await uids(store, attributes=(("region", b'"e"'),)) == []
    assert await uids(store, attributes=(("nope", b"1"),)) == []


# SPEC D4
@pytest.mark.parametrize(
    "name", ["a.b", "a b", "it's", 'say "hi"', "$", "$.x", "[0]", "a\\b", "ключ", "🦊", "", "#1", "*"]
)
async def test_attributes_may_have_any_name(store: Store, name: str) -> None:
    """A name is text, never a path or a pattern."""
    await queue(store, "r", attributes=msgspec.json.encode({name: "x", "other": "y"}))
    await queue(store, "s", attributes=b'{"a":{"b":"x"},"x":"x"}')
    assert await uids(store, attributes=((name, b'"x"'),)) == ["r"]
    assert await uids(store, attributes=((name, b'"y"'),)) == []


@pytest.mark.parametrize(
    "value", [b'"it\'s"', b'"say \\"hi\\""', b'"\xf0\x9f\xa6\x8a"', b'""', b"0", b"-1.5", b"false", b"[1,2]"]
)
async def test_attributes_may_have_any_value(store: Store, value: bytes) -> None:
    """Values are compared as JSON."""
    await queue(store, "r", attributes=b'{"a":' + value + b"}")
    await queue(store, "s", attributes=b'{"a":"something else"}')
    assert await uids(store, attributes=(("a", value),)) == ["r"]


async def test_filters_and_pages_go_together(store: Store) -> None:
    """A page is full when enough runs match, however many others lie between."""
    for n in range(10):
        await queue(store, f"r{n}", workflow="even" if n % 2 == 0 else "odd", attributes=b'{"a":1}')
    found = await walk(store, workflow="even", attributes=(("a", b"1"),), limit=2)
    assert sorted(row.uid for row in found) == ["r0", "r2", "r4", "r6", "r8"]
    assert len(await uids(store, workflow="odd", limit=3)) == 3


# SPEC R9
async def test_a_hot_run_is_running_in_its_row(store: Store, worker: str) -> None:
    """The row of a run that a worker holds says running; what it waits for comes when it parks."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1))
    assert (await store.list_runs(RunQuery()))[0].status is RunStatus.RUNNING
    await land(store, worker, entry("r", 2, row=RowChange(waiting_on="timer")))
    assert await uids(store, waiting_on="timer") == ["r"]


# SPEC O6
async def test_runs_that_have_not_ended_are_counted_by_status(store: Store, worker: str) -> None:
    """Queued, running, suspended: those a person asks about. What has ended is not counted, however many there are, nor
    when it was asked to go on and nobody has looked yet."""
    assert await store.count_runs() == {}
    await queue(store, "q1", "q2")
    await own(store, worker, "r", "s", "e")
    suspended = RowChange(status=RunStatus.SUSPENDED, waiting_on="gate", release=Release(1, 0))
    await land(store, worker, entry("s", 1, row=suspended), end("e"))
    assert (await store.send("e", message(kind="unwind"))).verdict == "sent"
    assert await store.count_runs() == {RunStatus.QUEUED: 2, RunStatus.RUNNING: 1, RunStatus.SUSPENDED: 1}
