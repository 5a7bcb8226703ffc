"""A store of each kind, and what is shared out on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests import postgres_schemas
from tests.pools.world import World


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    if request.param == "postgres":
        yield postgres_schemas.shared_url()
        await postgres_schemas.empty_schema()
    else:
        yield f"memory://{tmp_path}" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"


@pytest.fixture
def world(url: str) -> World:
    return World(url)
