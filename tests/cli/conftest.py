"""A folder with a shop's code, and one with runs of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import SHOP


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: it has `shop.py`, and no store yet."""
    (tmp_path / "shop.py").write_text(SHOP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_URL", raising=False)
    return tmp_path
