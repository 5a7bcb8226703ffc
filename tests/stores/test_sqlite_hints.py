"""What another process writes is hinted at, whenever it does (Q3)."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outlast.stores.open import open_store
from outlast.stores.sqlite import hints
from outlast.stores.store import Store
from outlast.testing.stores.writing import HOUR, queue, register

PATIENCE_S = 10


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[list[Store]]:
    """Two handles of one file, as two processes have."""
    opened = [open_store(f"sqlite:///{tmp_path}/store.db") for _ in range(2)]
    for store in opened:
        await store.open()
    yield opened
    for store in opened:
        await store.close()


class Looks:
    """Looks at the file's version, some of which wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, held: bool) -> None:
        """`held`: those of the watch; else those of the writer."""
        self.may_look = threading.Event()
        read = hints._read_version

        def read_version(connection: sqlite3.Connection) -> int:
            if (threading.current_thread().name == "outlast-sqlite-watch") is held:
                self.may_look.wait(PATIENCE_S)
            return read(connection)

        monkeypatch.setattr(hints, "_read_version", read_version)


async def test_a_change_before_the_first_look_is_hinted_at(stores: list[Store], monkeypatch) -> None:
    """Between a subscription and the moment when its watch knows what there was."""
    here, elsewhere = stores
    looks, told = Looks(monkeypatch, held=True), asyncio.Event()
    here.subscribe(told.set)
    await queue(elsewhere, "theirs")
    looks.may_look.set()
    await asyncio.wait_for(told.wait(), PATIENCE_S)


async def test_a_change_before_the_writers_first_look_is_hinted_at(stores: list[Store], monkeypatch) -> None:
    """Where this process has renewed its lease since the last look, its writer is to say whether others wrote too: also
    if that is its first look."""
    here, elsewhere = stores
    await register(here, "w1", HOUR)
    monkeypatch.setattr(hints, "_EVERY_S", 0.3)
    looks, told = Looks(monkeypatch, held=False), asyncio.Event()
    here.subscribe(told.set)
    await asyncio.wait_for(told.wait(), PATIENCE_S)  # the watch has begun
    told.clear()
    await queue(elsewhere, "theirs")
    looks.may_look.set()
    await asyncio.to_thread(here.renew, "w1", HOUR)
    await asyncio.wait_for(told.wait(), PATIENCE_S)
