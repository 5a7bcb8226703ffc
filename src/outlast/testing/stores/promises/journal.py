"""Reading journals: in order, in pages, also while they grow."""

from __future__ import annotations

import pytest

from outlast.stores.store import Store
from outlast.testing.stores.writing import entry, land, own


async def test_no_run_has_no_journal(store: Store) -> None:
    """Reading a run that is not there finds nothing, and is no error."""
    assert await store.read_journal("gone") == []
    assert await store.read_journal("gone", after=7) == []


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 6, 1000])
async def test_a_journal_is_read_in_pages(store: Store, worker: str, limit: int) -> None:
    """Pages follow each other by the position of the last entry; an empty one is the end."""
    await own(store, worker, "r", "s")
    for seq in range(1, 6):
        await land(store, worker, entry("r", seq, events=b"%d" % seq), entry("s", seq))
    found = []
    after = -1
    while page := await store.read_journal("r", after=after, limit=limit):
        assert len(page) <= limit
        found += page
        after = page[-1].seq
    assert [each.seq for each in found] == [0, 1, 2, 3, 4, 5]
    assert [each.events for each in found[1:]] == [b"1", b"2", b"3", b"4", b"5"]


async def test_a_tail_is_read_without_the_rest(store: Store, worker: str) -> None:
    """A reader that follows a run asks for what is behind the last entry it has."""
    await own(store, worker, "r")
    assert await store.read_journal("r", after=0) == []
    await land(store, worker, entry("r", 1))
    assert [each.seq for each in await store.read_journal("r", after=0)] == [1]
    assert await store.read_journal("r", after=1) == []


@pytest.mark.slow
async def test_a_page_has_a_thousand_entries(store: Store, worker: str) -> None:
    """By default a page is bounded, and a long journal takes several."""
    await own(store, worker, "r")
    for seq in range(1, 1005):
        await land(store, worker, entry("r", seq))
    first = await store.read_journal("r")
    rest = await store.read_journal("r", after=first[-1].seq)
    assert len(first) == 1000
    assert [each.seq for each in rest] == [1000, 1001, 1002, 1003, 1004]
