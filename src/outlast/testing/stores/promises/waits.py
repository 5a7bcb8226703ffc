"""Open waits: what people can look at and answer (W6)."""

from __future__ import annotations

from typing import Any

from outlast.stores.store import NewWait, Store, Verdict, WaitQuery, WaitRow
from outlast.testing.stores.writing import commit, entry, land, own, start, wait


async def keys(store: Store, **query: Any) -> list[tuple[str, str]]:
    return [(row.run, row.wait.key) for row in await store.list_waits(WaitQuery(**query))]


async def test_a_wait_is_listed_as_it_was_opened(store: Store, worker: str) -> None:
    """With who waits: the run, its id, its workflow and whose it is."""
    await land(store, worker, start("r", id="A-17", workflow="fulfil", user="ada", claimed=True))
    opened = NewWait("ok?#1", "approval", "ship it?", opened_at=5, deadline=77, policy=b'{"approvers":"any"}')
    await land(store, worker, entry("r", 1, waits_opened=(opened,)))
    assert await store.list_waits() == [WaitRow("r", "A-17", "fulfil", opened, "ada")]


async def test_a_wait_may_have_no_deadline(store: Store, worker: str) -> None:
    """A gate without a deadline waits for ever."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, waits_opened=(wait(deadline=None),)))
    assert [row.wait.deadline for row in await store.list_waits()] == [None]


# SPEC W6
async def test_waits_of_all_runs_are_listed_oldest_first(store: Store, worker: str) -> None:
    """Who has waited longest comes first; the limit cuts the newest off."""
    await own(store, worker, "r", "s")
    await land(store, worker, entry("r", 1, waits_opened=(wait("a", opened_at=3), wait("b", opened_at=1))))
    await land(store, worker, entry("s", 1, waits_opened=(wait("c", opened_at=2),)))
    assert await keys(store) == [("r", "b"), ("s", "c"), ("r", "a")]
    assert await keys(store, limit=2) == [("r", "b"), ("s", "c")]


async def test_a_closed_wait_is_not_listed(store: Store, worker: str) -> None:
    """A wait goes with the entry that closes it; closing what is not open is no error."""
    await own(store, worker, "r", "s")
    await land(
        store, worker, entry("r", 1, waits_opened=(wait("a"), wait("b"))), entry("s", 1, waits_opened=(wait("a"),))
    )
    await land(store, worker, entry("r", 2, waits_closed=("a", "never")))
    assert sorted(await keys(store)) == [("r", "b"), ("s", "a")]


async def test_a_wait_is_closed_and_opened_anew_in_one_entry(store: Store, worker: str) -> None:
    """The next occurrence of a gate under the same key stays open."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, waits_opened=(wait("a", opened_at=1),)))
    await land(store, worker, entry("r", 2, waits_closed=("a",), waits_opened=(wait("a", opened_at=2),)))
    assert [row.wait.opened_at for row in await store.list_waits()] == [2]


async def test_a_stale_entry_opens_and_closes_no_wait(store: Store, worker: str) -> None:
    """Without its entry nothing of it happens."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, waits_opened=(wait("a"),)))
    late = entry("r", 1, mark=9, waits_closed=("a",), waits_opened=(wait("b"),))
    assert await commit(store, worker, late) == [Verdict.STALE]
    assert await keys(store) == [("r", "a")]


# SPEC W6
async def test_waits_are_found_by_kind_name_and_workflow(store: Store, worker: str) -> None:
    """Of several filters all must fit."""
    await land(store, worker, start("r", workflow="fulfil", claimed=True), start("s", workflow="bill", claimed=True))
    signal, approval = wait("a", kind="signal", name="paid"), wait("b", kind="approval", name="ship?")
    await land(store, worker, entry("r", 1, waits_opened=(signal, approval)), entry("s", 1, waits_opened=(signal,)))
    assert await keys(store, kind="signal") == [("r", "a"), ("s", "a")]
    assert await keys(store, name="ship?") == [("r", "b")]
    assert await keys(store, workflow="bill") == [("s", "a")]
    assert await keys(store, kind="signal", name="paid", workflow="fulfil") == [("r", "a")]
    assert await keys(store, kind="gate") == []


# SPEC W6
async def test_a_page_of_waits_begins_behind_the_one_before(store: Store, worker: str) -> None:
    """Also among waits that were opened at once; none is missed and none comes twice."""
    await own(store, worker, "r", "s")
    await land(
        store,
        worker,
        entry("r", 1, waits_opened=(wait("a", opened_at=1), wait("b", opened_at=2), wait("c", opened_at=2))),
        entry("s", 1, waits_opened=(wait("a", opened_at=2),)),
    )
    found, after = [], None
    while page := await store.list_waits(WaitQuery(after=after, limit=1)):
        found.append((page[0].run, page[0].wait.key))
        after = (page[0].wait.opened_at, page[0].run, page[0].wait.key)
    assert found == [("r", "a"), ("r", "b"), ("r", "c"), ("s", "a")]
