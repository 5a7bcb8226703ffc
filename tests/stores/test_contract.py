"""Outlast's own stores, held to the contract that is there for everybody's (SPEC K4)."""

from __future__ import annotations

from pathlib import Path

from outlast.stores.memory import MemoryStore
from outlast.stores.postgres import PostgresStore
from outlast.stores.sqlite import SqliteStore
from outlast.stores.store import Store
from outlast.testing.stores import Clock, StoreContract
from tests import postgres_schemas

SECOND = 1_000_000  # µs


class TestMemory(StoreContract):
    """A store in this process's memory."""

    def make(self, place: Path, clock: Clock) -> Store:
        return MemoryStore(f"memory://{place}", clock)


class TestSqlite(StoreContract):
    """A store in a file."""

    def make(self, place: Path, clock: Clock) -> Store:
        return SqliteStore(f"sqlite:///{place}/store.db", clock)


class ServerClock:
    """A server's: it goes by itself, and further when the test says so."""

    lease_us = 10 * SECOND

    def __call__(self) -> int:
        raise AssertionError("this store does not take a clock")

    async def advance(self, store: Store, us: int) -> None:
        await postgres_schemas.move_clock(us)


class TestPostgres(StoreContract):
    """A store in a schema of a server."""

    def make(self, place: Path, clock: Clock) -> Store:
        return PostgresStore(postgres_schemas.shared_url())

    def make_clock(self) -> Clock:
        return ServerClock()

    async def clean(self) -> None:
        await postgres_schemas.empty_schema()
