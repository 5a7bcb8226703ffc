"""An app on each embedded store: closed, with a small workflow."""

from __future__ import annotations

import pytest

from outlast import Context, Outlast


@pytest.fixture(params=["memory", "sqlite"])
def app(request, tmp_path):
    """An app, closed; with a workflow that doubles a number."""
    app = Outlast("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/app.db")

    @app.step(name="double")
    async def double(n: int) -> int:
        return n * 2

    @app.workflow(name="twice")
    async def double_it(ctx: Context, n: int) -> int:
        return await double(n)

    return app


@pytest.fixture
def twice(app):
    """Its workflow."""
    return app.find_workflow("twice")
