"""Opening and closing: of handles; the data stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from outlast.errors import StoreUnavailable
from outlast.stores.store import RunQuery, Store
from outlast.testing.stores.clocks import MakeStore
from outlast.testing.stores.writing import (
    HOUR,
    claim,
    claiming,
    entry,
    land,
    message,
    own,
    queue,
    register,
    row_of,
    start,
)


async def test_data_outlives_the_handle(store: Store, worker: str, make_store: MakeStore) -> None:
    """What one handle wrote is there for the next, after the first was closed."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1))
    await store.close()
    elsewhere = await make_store()
    assert (await row_of(elsewhere, "r")).owner == worker
    assert len(await elsewhere.read_journal("r")) == 2
    await land(elsewhere, worker, entry("r", 2))


# SPEC D3
async def test_handles_that_open_at_once_all_work(make_store: MakeStore) -> None:
    """Processes that start together, on a store that nobody has used yet, are all served."""
    stores = await asyncio.gather(*(make_store() for _ in range(4)))
    for n, store in enumerate(stores):
        await queue(store, f"r{n}")
    assert len(await stores[0].list_runs(RunQuery())) == 4


async def test_closing_twice_is_closing_once(store: Store) -> None:
    """A handle may be closed by whoever is not sure."""
    await store.close()
    await store.close()


async def test_a_closed_store_says_so(store: Store, worker: str) -> None:
    """Every call of a closed handle is a `StoreUnavailable`, and none hangs or raises a driver's error."""
    await store.close()
    calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
        lambda: store.now(),
        lambda: store.commit(worker, [start("r")]),
        lambda: store.claim(claiming(worker)),
        lambda: store.read_journal("r"),
        lambda: store.send("r", message()),
        lambda: store.find_run("r"),
        lambda: store.list_runs(RunQuery()),
        lambda: store.look(claiming(worker)),
        lambda: store.reap(),
        lambda: register(store, "w", HOUR),
    ]
    for call in calls:
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(call(), 5)


async def test_two_handles_are_two_processes(store: Store, worker: str, make_store: MakeStore) -> None:
    """A worker that one handle registered is a worker for the other, and so is what it owns."""
    elsewhere = await make_store()
    await queue(elsewhere, "r")
    assert await claim(store, worker) == ["r"]
    assert [run.uid for run in await elsewhere.list_owned(worker)] == ["r"]
    assert elsewhere.renew(worker, HOUR) is not None
    await land(elsewhere, worker, entry("r", 1))
    assert len(await store.read_journal("r")) == 2
