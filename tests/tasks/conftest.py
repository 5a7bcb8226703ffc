"""A store of each kind, and what runs on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests import postgres_schemas
from tests.tasks.flows import gates
from tests.tasks.world import Elsewhere, World


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "postgres":
        yield postgres_schemas.shared_url()
        await postgres_schemas.empty_schema()
    else:
        yield f"memory://{tmp_path}" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def world(url: str) -> World:
    gates.reset()
    return World(url)


@pytest.fixture
async def home(world: World) -> AsyncIterator[Elsewhere]:
    """A worker of runs. It serves no other queue."""
    async with world.working("default") as one:
        yield one


@pytest.fixture
async def gpu(world: World) -> AsyncIterator[Elsewhere]:
    """A worker of the queue `gpu`, and of no runs."""
    async with world.working("gpu") as one:
        yield one
