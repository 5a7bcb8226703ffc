"""Fixtures of the tests of PostgreSQL alone: stores in a schema that is emptied after each test, and other sessions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from outlast.stores.postgres import PostgresStore
from tests.postgres_schemas import empty_schema, server_url, shared_url
from tests.stores.contract.writing import HOUR, register


@pytest.fixture
def url() -> str:
    """Of a store that nobody else uses while the test runs."""
    return shared_url()


@pytest.fixture
async def make_store(url: str) -> AsyncIterator[Callable[..., Awaitable[PostgresStore]]]:
    """Makes opened stores on it; `through` another URL, if need be."""
    opened: list[PostgresStore] = []

    async def make(through: str = url) -> PostgresStore:
        store = PostgresStore(through)
        opened.append(store)
        await store.open()
        return store

    yield make
    for store in opened:
        await store.close()
    await empty_schema()


@pytest.fixture
async def store(make_store: Callable[..., Awaitable[PostgresStore]]) -> PostgresStore:
    return await make_store()


@pytest.fixture
async def worker(store: PostgresStore) -> str:
    """Id of a worker whose lease does not lapse in a test."""
    return await register(store, "worker-1", HOUR)


@pytest.fixture
async def connect() -> AsyncIterator[Callable[[], Awaitable[asyncpg.Connection[Any]]]]:
    """Makes sessions beside the stores'."""
    opened: list[asyncpg.Connection[Any]] = []

    async def make() -> asyncpg.Connection[Any]:
        connection = await asyncpg.connect(server_url())
        opened.append(connection)
        return connection

    yield make
    for connection in opened:
        connection.terminate()
