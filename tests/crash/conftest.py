"""The nursery, once for all tests, and a world for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.crash.world import Nursery, World


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
def backend() -> str:
    """Where the runs of the worlds live. A test that is told `backend` as a parameter has its own."""
    return "sqlite"


@pytest.fixture
async def worlds(tmp_path: Path, nursery: Nursery, backend: str) -> AsyncIterator[Callable[[], World]]:
    """Makes worlds, and ends them."""
    made: list[World] = []

    def make() -> World:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(World(folder, nursery, backend))
        return made[-1]

    yield make
    for each in made:
        await each.close()


@pytest.fixture
def world(worlds: Callable[[], World]) -> World:
    return worlds()
