"""What is shared out on the store of a test."""

from __future__ import annotations

import pytest

from tests.pools.world import World


@pytest.fixture
def world(url: str) -> World:
    return World(url)
