"""The store backends that the contract suite runs over, and the clocks it moves.

To have a backend tested, add it to `BACKENDS`: how to make a handle on the data in a place, and what its time is. Two
handles made for the same place must see the same data, as two processes would.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from outlast.stores.memory import MemoryStore
from outlast.stores.postgres import PostgresStore
from outlast.stores.sqlite import SqliteStore
from outlast.stores.store import Store
from tests import postgres_schemas

__all__ = ["BACKENDS", "Backend", "Clock", "MovedClock", "ServerClock"]

SECOND = 1_000_000  # µs


class Clock(Protocol):
    """The time of the stores under test."""

    lease_us: int
    """A lease that a test can wait out."""

    def __call__(self) -> int:
        """µs since the Unix epoch."""
        ...

    async def advance(self, store: Store, us: int) -> None:
        """Return when the store's clock is at least this much later."""
        ...


class MovedClock:
    """For stores that take a clock: time passes when the test says so."""

    lease_us = 10 * SECOND

    def __init__(self) -> None:
        self.now_us = 1_700_000_000 * SECOND

    def __call__(self) -> int:
        return self.now_us

    async def advance(self, store: Store, us: int) -> None:
        self.now_us += us


class ServerClock:
    """For stores whose time is a server's: it goes by itself, and further when the test says so."""

    lease_us = 10 * SECOND

    def __call__(self) -> int:
        raise AssertionError("this store does not take a clock")

    async def advance(self, store: Store, us: int) -> None:
        await postgres_schemas.move_clock(us)


@dataclass(frozen=True)
class Backend:
    """One implementation of the `Store` protocol."""

    name: str
    make: Callable[[Path, Clock], Store]
    """A handle, not opened, on the data in this place (an empty folder, one for each test)."""
    make_clock: Callable[[], Clock] = MovedClock
    clean: Callable[[], Awaitable[None]] | None = None
    """Called after each test, for a backend whose places are not its alone."""


def _make_memory(place: Path, clock: Clock) -> Store:
    return MemoryStore(f"memory://{place}", clock)


def _make_sqlite(place: Path, clock: Clock) -> Store:
    return SqliteStore(f"sqlite:///{place}/store.db", clock)


def _make_postgres(place: Path, clock: Clock) -> Store:
    return PostgresStore(postgres_schemas.shared_url())


BACKENDS = {
    backend.name: backend
    for backend in [
        Backend("memory", _make_memory),
        Backend("sqlite", _make_sqlite),
        Backend("postgres", _make_postgres, ServerClock, postgres_schemas.empty_schema),
    ]
}
