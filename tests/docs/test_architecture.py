"""ARCHITECTURE.md names what there is: every file, function and test in it exists."""

from __future__ import annotations

import ast
import re

import pytest

from outlast.core.states import to_mermaid
from tests.docs.pages import ROOT

TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PATH = re.compile(r"`((?:src|tests|benchmarks|examples|scripts)/[\w./]+)(?:::(\w+))?`(?: \(([^)]*)\))?")
FUNCTION = re.compile(r"`(\w+)`")


def list_definitions(path: str) -> set[str]:
    """Names of all functions and classes of a module."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, definitions)}


def test_every_file_that_is_named_exists() -> None:
    """Nobody is sent to a file that was moved."""
    missing = [path for path, _, _ in PATH.findall(TEXT) if not (ROOT / path).exists()]
    assert not missing, "\n".join(missing)


def test_every_test_and_function_that_is_named_exists() -> None:
    """`file::test` is a test of that file, and `file` (`function`) a function of it."""
    missing = []
    for path, test, beside in PATH.findall(TEXT):
        names = {test} if test else set(FUNCTION.findall(beside))
        if names and path.endswith(".py"):
            missing += [f"{path}::{name}" for name in names - list_definitions(path)]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("number", range(1, 13))
def test_every_invariant_is_held_by_a_test_or_says_that_it_is_not(number: int) -> None:
    """Each of the twelve names a test that holds it, or says "not yet"."""
    section = TEXT.partition("## What always holds")[2].partition("\n## ")[0]
    found = re.search(rf"^{number}\. (.*?)(?=^\d+\. |\Z)", section, re.DOTALL | re.MULTILINE)
    assert found, f"invariant {number} is missing"
    assert "::test_" in found[1] or "*not yet*" in found[1].lower()


def test_the_diagram_is_the_codes() -> None:
    """The states that are drawn are the states there are."""
    assert f"```mermaid\n{to_mermaid()}\n```" in TEXT


def test_it_can_be_read_in_fifteen_minutes() -> None:
    """At 200 words a minute, without the diagram and without paths."""
    words = PATH.sub("", TEXT.partition("```mermaid")[0] + TEXT.partition("<!-- end -->")[2]).split()
    assert len(words) < 15 * 200, len(words)
