"""The class that has every promise of `Store` as a test. Layer: testing.

The tests themselves stand in `promises`, a module for each subject, and take their fixtures from here. What always
holds: they know the protocol alone, so that any backend can be held to them.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType

import pytest
import pytest_asyncio

from outlast.stores.store import Store
from outlast.testing.stores import promises
from outlast.testing.stores.clocks import Clock, MakeStore, MovedClock
from outlast.testing.stores.writing import HOUR, register

__all__ = ["StoreContract"]


class StoreContract:
    """Derive a test class from it that says how your store is made; pytest then finds all tests of the contract in it.

    A test that your store cannot pass yet is marked or replaced by a method of the same name.
    """

    pytestmark = pytest.mark.asyncio

    def make(self, place: Path, clock: Clock) -> Store:
        """A handle on the data in this place (an empty folder, one for each test), not opened yet.

        Two handles that are made for the same place see the same data, as two processes would. `clock` gives the time
        in µs, for a store that can be given one.
        """
        raise NotImplementedError

    def make_clock(self) -> Clock:
        """The clock of one test; a store that goes by a server's needs one that can move that."""
        return MovedClock()

    async def clean(self) -> None:
        """Called after each test, when all handles are closed: for stores whose places are not theirs alone."""

    # --- fixtures -----------------------------------------------------------------------------------------------------

    @pytest.fixture
    def clock(self) -> Clock:
        """The time of all stores of the test."""
        return self.make_clock()

    @pytest_asyncio.fixture
    async def make_store(self, clock: Clock, tmp_path: Path) -> AsyncIterator[MakeStore]:
        """Makes opened handles on the same data: what one process sees, and another."""
        opened: list[Store] = []

        async def make() -> Store:
            store = self.make(tmp_path, clock)
            opened.append(store)
            await store.open()
            return store

        yield make
        for store in opened:
            await store.close()
        await self.clean()

    @pytest_asyncio.fixture
    async def store(self, make_store: MakeStore) -> Store:
        """One of them."""
        return await make_store()

    @pytest_asyncio.fixture
    async def worker(self, store: Store) -> str:
        """Id of a worker whose lease does not lapse in a test."""
        return await register(store, "worker-1", HOUR)

    @pytest_asyncio.fixture
    async def other(self, store: Store) -> str:
        """Another one."""
        return await register(store, "worker-2", HOUR)


def _add_tests(module: ModuleType) -> None:
    for name, test in vars(module).items():
        if name.startswith("test_"):
            assert not hasattr(StoreContract, name), f"two promises are called {name}"
            setattr(StoreContract, name, staticmethod(test))


for _found in pkgutil.walk_packages(promises.__path__, f"{promises.__name__}."):
    _add_tests(importlib.import_module(_found.name))
