"""An app on each embedded store: open, with a worker."""

from __future__ import annotations

import pytest

from outlast import Outlast


@pytest.fixture(params=["memory", "sqlite"])
async def app(request, tmp_path):
    """An app that works what it starts."""
    app = Outlast("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db")
    async with app.worker():
        yield app
