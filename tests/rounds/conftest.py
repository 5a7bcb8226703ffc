"""Apps on each store, closed."""

from __future__ import annotations

import pytest

from outlast import Outlast
from tests import postgres_schemas


def make(store: str, tmp_path) -> Outlast:
    urls = {"memory": f"memory://{tmp_path}", "sqlite": f"sqlite:///{tmp_path}/rounds.db"}
    return Outlast(urls.get(store) or postgres_schemas.new_url())


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def any_app(request, tmp_path) -> Outlast:
    """For what the store does."""
    return make(request.param, tmp_path)


@pytest.fixture(params=["memory", "sqlite"])
def app(request, tmp_path) -> Outlast:
    """For the rest: a schema of PostgreSQL takes a second."""
    return make(request.param, tmp_path)


@pytest.fixture
def memory_app(tmp_path) -> Outlast:
    """For what is the same on every store."""
    return make("memory", tmp_path)
