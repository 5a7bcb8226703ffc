"""A folder with a shop's code; and what a command leaves behind in this process is put back."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import SHOP, as_before


@pytest.fixture(autouse=True)
def put_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test's command imports is forgotten, and its log levels too; its settings are not this machine's."""
    monkeypatch.delenv("OUTLAST_URL", raising=False)
    with as_before():
        yield


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: it has `shop.py`, and no store yet."""
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that end with the test, whatever becomes of it."""
    begun: list[subprocess.Popen[str]] = []
    yield begun
    for process in begun:
        if process.poll() is None:
            process.kill()
        process.communicate()
