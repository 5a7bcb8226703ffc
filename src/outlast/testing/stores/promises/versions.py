"""Versions of workflows: kept once, decided by somebody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from outlast.stores.store import Store, VersionRow, VersionStatus, WorkerRow
from outlast.testing.stores.clocks import Clock
from outlast.testing.stores.writing import HOUR

ACTIVE, DECLINED, DRAFT = VersionStatus.ACTIVE, VersionStatus.DECLINED, VersionStatus.DRAFT
FULFIL = VersionRow("fulfil", "v1", "body", plan=b'{"a": 1}')


# SPEC V3
async def test_a_version_is_found_as_it_was_kept(store: Store) -> None:
    """Its plan and definition are bytes that nobody changes; the store says since when."""
    row = VersionRow("fulfil", "v\u00fc \U0001f680", "graph", DRAFT, b"\xff\x00", b"{}", created_by="ada")
    before = await store.now()
    assert await store.save_versions([row, FULFIL]) == 2
    found = await store.find_version(row.workflow, row.version)
    assert found is not None
    assert found.created_at >= before
    assert found == replace(row, created_at=found.created_at)
    assert await store.find_version("fulfil", "v2") is None
    assert await store.find_version("other", "v1") is None


async def test_a_version_is_kept_once(store: Store) -> None:
    """What is kept stays as it is, whatever is sent later: runs rely on it."""
    assert await store.save_versions([FULFIL]) == 1
    assert await store.save_versions([replace(FULFIL, plan=b"other", status=DRAFT)]) == 0
    found = await store.find_version("fulfil", "v1")
    assert found is not None
    assert (found.plan, found.status) == (FULFIL.plan, ACTIVE)
    assert await store.save_versions([]) == 0


async def test_workers_that_start_at_once_keep_it_once(make_store: Callable[[], Awaitable[Store]]) -> None:
    """A fleet that starts together does not get in its own way."""
    stores = [await make_store() for _ in range(4)]
    rows = [replace(FULFIL, version=f"v{number}") for number in range(5)]
    counts = await asyncio.gather(*(store.save_versions(rows) for store in stores))
    assert sum(counts) == 5


async def test_lists_say_what_is_there(store: Store, clock: Clock) -> None:
    """The latest first, by workflow and by status; what is large is left out."""
    await store.save_versions([FULFIL])
    await clock.advance(store, 1000)
    await store.save_versions([replace(FULFIL, version="v2", status=DRAFT), replace(FULFIL, workflow="other")])
    await clock.advance(store, 1000)
    await store.decide_version("fulfil", "v2", ACTIVE, "bob")
    assert [row.version for row in await store.list_versions("fulfil")] == ["v2", "v1"]
    assert (await store.list_versions())[0].workflow == "fulfil"
    assert len(await store.list_versions()) == 3
    assert await store.list_versions("fulfil", status=DRAFT) == []
    assert len(await store.list_versions(status=ACTIVE, limit=2)) == 2
    assert {row.plan for row in await store.list_versions()} == {b""}
    assert await store.list_versions("nobody's") == []


# SPEC V6
async def test_a_draft_is_decided_on_with_who_and_when(store: Store) -> None:
    """Activated or declined; later the other way round; each time with who and when."""
    await store.save_versions([replace(FULFIL, status=DRAFT)])
    before = await store.now()
    assert await store.decide_version("fulfil", "v1", ACTIVE, "ada")
    found = await store.find_version("fulfil", "v1")
    assert found is not None
    assert (found.status, found.decided_by) == (ACTIVE, "ada")
    assert found.decided_at is not None
    assert found.decided_at >= before
    assert await store.decide_version("fulfil", "v1", DECLINED, "bob")
    assert not await store.decide_version("fulfil", "v1", DECLINED, "eve"), "it is declined already, by bob"
    found = await store.find_version("fulfil", "v1")
    assert found is not None
    assert (found.status, found.decided_by) == (DECLINED, "bob")
    assert not await store.decide_version("fulfil", "v9", ACTIVE, "ada")
    with pytest.raises(ValueError, match="draft"):
        await store.decide_version("fulfil", "v1", DRAFT, "ada")


async def test_one_of_two_decisions_is_the_last(make_store: Callable[[], Awaitable[Store]]) -> None:
    """Whoever decides at once: the row says one of them, wholly."""
    one, two = await make_store(), await make_store()
    await one.save_versions([replace(FULFIL, status=DRAFT)])
    await asyncio.gather(
        one.decide_version("fulfil", "v1", ACTIVE, "ada"), two.decide_version("fulfil", "v1", DECLINED, "bob")
    )
    found = await two.find_version("fulfil", "v1")
    assert found is not None
    assert (found.status, found.decided_by) in {(ACTIVE, "ada"), (DECLINED, "bob")}


# SPEC V4
async def test_a_worker_says_which_versions_it_serves(store: Store) -> None:
    """For runs that only some of them can go on with."""
    await store.register(WorkerRow("w", "host", 1, versions=("fulfil#v1", "other#2")), HOUR)
    await store.register(WorkerRow("x", "host", 1), HOUR)
    assert [row.versions for row in await store.list_workers()] == [("fulfil#v1", "other#2"), ()]
