"""An app on each store that needs nothing installed, a diary of what its steps did, and a worker of concurrency one."""

from __future__ import annotations

import pytest

from outlast import Outlast
from tests.children.shop import Shop


@pytest.fixture(params=["memory", "sqlite"])
def app(request, tmp_path):
    """An app, closed."""
    return Outlast("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/app.db")


@pytest.fixture
def diary() -> list[str]:
    """What steps and bodies wrote down, in order."""
    return []


@pytest.fixture
def shop(app, diary):
    """The steps, in the app."""
    return Shop(app, diary)
