"""A place on each store, and an app that works it."""

from __future__ import annotations

import pytest

from outlast.engine import sweeper
from tests.waits.place import Place


@pytest.fixture
def place(url: str) -> Place:
    """A store of the test's own, that several apps of it can be on."""
    return Place(url)


@pytest.fixture
def memory_place(tmp_path) -> Place:
    """For what is the same on every store."""
    return Place(f"memory://{tmp_path}")


@pytest.fixture
async def app(place):
    """An app that works what it starts."""
    app = place.make_app()
    async with app.worker():
        yield app


@pytest.fixture
def parks_at_once(monkeypatch):
    """Runs that rest are parked at the next sweep."""
    monkeypatch.setattr(sweeper, "PARK_AFTER_US", 0)
