"""Fixtures of the contract suite: a store of each backend, further handles on its data, its clock, and two workers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from outlast.stores.store import Store
from tests.stores.contract.backends import BACKENDS, Backend, Clock
from tests.stores.contract.writing import HOUR, register


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> Backend:
    return BACKENDS[request.param]


@pytest.fixture
def clock(backend: Backend) -> Clock:
    return backend.make_clock()


@pytest.fixture
async def make_store(backend: Backend, clock: Clock, tmp_path: Path) -> AsyncIterator[Callable[[], Awaitable[Store]]]:
    """Makes opened handles on the same data: what one process sees, and another."""
    opened: list[Store] = []

    async def make() -> Store:
        store = backend.make(tmp_path, clock)
        opened.append(store)
        await store.open()
        return store

    yield make
    for store in opened:
        await store.close()
    if backend.clean is not None:
        await backend.clean()


@pytest.fixture
async def store(make_store: Callable[[], Awaitable[Store]]) -> Store:
    return await make_store()


@pytest.fixture
async def worker(store: Store) -> str:
    """Id of a worker whose lease does not lapse in a test."""
    return await register(store, "worker-1", HOUR)


@pytest.fixture
async def other(store: Store) -> str:
    """Another one."""
    return await register(store, "worker-2", HOUR)
