"""What the pages say of the code is made from the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import outlast
from outlast import errors
from outlast.run.definitions import Definitions
from tests.docs.generated import PARTS, ROOT, list_generated, with_parts


@pytest.mark.parametrize("page", list_generated(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_generated_part_is_up_to_date(page: Path) -> None:
    """State diagram, API, command line and errors are what the code says; else: python tests/docs/generated.py."""
    text = page.read_text(encoding="utf-8")
    assert text == with_parts(text), "run: python tests/docs/generated.py"


def test_every_part_has_its_place() -> None:
    """Nothing that is made is left out of the pages."""
    text = "".join(page.read_text(encoding="utf-8") for page in list_generated())
    placed = re.findall(r"<!-- generated: ([\w .]+) -->", text)
    assert sorted(placed) == sorted(PARTS)


def test_every_public_name_is_in_the_reference() -> None:
    """The API page says something of every name that `outlast` exports; errors have a page of their own."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    missing = [name for name in outlast.__all__ if name not in errors.__all__ and not re.search(rf"\b{name}\b", text)]
    assert not missing, missing


def test_every_method_is_in_the_reference() -> None:
    """Of the classes that authors and callers hold, each public method and property is told."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    owners = {"Outlast": "app", "Context": "ctx", "Run": "run", "StepInfo": "current_step()"}
    inside = {"stop", "portable", "functions", "find_step", "find_workflow", "iter_workflows"}  # the engine's
    missing = []
    for name, owner in owners.items():
        parts = {"Outlast": (outlast.Outlast, Definitions)}.get(name, (getattr(outlast, name),))
        for member in (member for part in parts for member in vars(part)):
            told = f"`{member}`" in text or f"{owner}.{member}" in text
            if not member.startswith("_") and member not in inside and not told:
                missing.append(f"{owner}.{member}")
    assert not missing, missing
