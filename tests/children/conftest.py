"""An app on each store, a diary of what its steps did, and a worker of concurrency one."""

from __future__ import annotations

import pytest

from outlast import Outlast
from tests.children.shop import Shop


@pytest.fixture
def app(url: str) -> Outlast:
    """An app, closed."""
    return Outlast(url)


@pytest.fixture
def diary() -> list[str]:
    """What steps and bodies wrote down, in order."""
    return []


@pytest.fixture
def shop(app, diary):
    """The steps, in the app."""
    return Shop(app, diary)
