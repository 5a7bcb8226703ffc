"""Fixtures of the tests of PostgreSQL alone: stores in a schema that is emptied after each test, and other sessions."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.settings import parse_url
from outlast.testing.stores.writing import HOUR, register
from tests.postgres_schemas import empty_schema, server_url, shared_url
from tests.stores.postgres.sessions import Session


def schema_of(url: str) -> str:
    """The schema of a store's URL."""
    return parse_url(url).schema


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
async def other(store: PostgresStore) -> str:
    """Another one."""
    return await register(store, "worker-2", HOUR)


@pytest.fixture
async def admin() -> AsyncIterator[Session]:
    """A session that may do anything."""
    connection = await asyncpg.connect(server_url())
    yield connection
    await connection.close()


@pytest.fixture
async def guest(admin: Session) -> AsyncIterator[str]:
    """A role that may do little; its password is `guest`."""
    name = f"outlast_test_{secrets.token_hex(4)}"
    await admin.execute(f"create role {name} login password 'guest'")
    yield name
    await admin.execute(f"drop owned by {name}; drop role {name}")


@pytest.fixture
async def holder(connect: Callable[[], Awaitable[Session]]) -> Session:
    """A session that holds locks."""
    return await connect()


@pytest.fixture
async def connect(url: str) -> AsyncIterator[Callable[[], Awaitable[Session]]]:
    """Makes sessions beside the stores'."""
    opened: list[Session] = []

    async def make() -> Session:
        connection = await asyncpg.connect(server_url(), server_settings={"search_path": schema_of(url)})
        opened.append(connection)
        return connection

    yield make
    for connection in opened:
        connection.terminate()
