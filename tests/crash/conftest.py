"""The nursery, once for all tests, and a world for each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.crash.world import Nursery, World


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


@pytest.fixture
async def world(tmp_path: Path, nursery: Nursery) -> AsyncIterator[World]:
    made = World(tmp_path, nursery)
    yield made
    await made.close()
