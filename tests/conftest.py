"""What all tests share: how Hypothesis draws, and the other Pythons of this machine.

Settings of pytest itself (markers, the limit of 60 s, warnings as errors) are in pyproject.toml.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import hypothesis
import pytest

from tests import postgres_schemas
from tests.homes import STORES

ROOT = Path(__file__).resolve().parent.parent

# No deadline: on a shared machine one slow example says nothing about the code. In CI the same examples each time, so
# that a red run is about the change at hand; on a desk new ones each time, which is how new bugs are found.
hypothesis.settings.register_profile("desk", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "desk")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Raise for a test that is marked from elsewhere: `make test` looks into files for who spawns processes, and would
    leave it out."""
    for path in {item.path for item in items if item.get_closest_marker("process") is not None}:
        if "mark.process" not in path.read_text(encoding="utf-8"):
            raise pytest.UsageError(f"{path} has tests that are marked `process`; say so in the file itself")


def pytest_sessionfinish() -> None:
    """Leave nothing behind in the database for tests."""
    postgres_schemas.drop_schemas()


@pytest.fixture(params=STORES)
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Of an empty store of the test's own, on which several apps can be. `tests.homes` says of which kinds."""
    if request.param == "postgres":
        yield postgres_schemas.shared_url()
        await postgres_schemas.empty_schema()
    else:
        yield f"memory://{tmp_path}" if request.param == "memory" else f"sqlite:///{tmp_path}/store.db"


@pytest.fixture(scope="session")
def other_pythons() -> dict[str, Path]:
    """The interpreters in .venv-3.x (`make pythons`) by version, with the run-time dependencies and not outlast itself.

    Set PYTHONPATH to `src` for them. Empty where this machine has but one Python.
    """
    found = {path.parent.parent.name: path for path in sorted(ROOT.glob(".venv-3.*/bin/python"))}
    return {name.removeprefix(".venv-"): path for name, path in found.items()}
