"""`outlast versions`, `draft`, `activate`, `decline`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import as_before, call

GREET = """
from outlast import Outlast
app = Outlast("sqlite:///shop.db")

@app.step
async def greet(name: str) -> str:
    return f"hello {name}"
"""
GRAPH = {"name": "greeting", "nodes": {"greet": {"function": "greet", "input": "$input"}}, "output": "$nodes.greet"}
STORE = ("--store", "sqlite:///shop.db")


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder with code, a store and a graph."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OUTLAST_URL", raising=False)
    Path("shop.py").write_text(GREET)
    Path("greeting.json").write_text(json.dumps(GRAPH))
    with as_before():
        assert call("migrate", *STORE).code == 0


# SPEC V6
def test_a_graph_is_drafted_activated_and_declined() -> None:
    """Each time the store says what it is, since when and by whom; the same draft again changes nothing."""
    with as_before():
        drafted = call("draft", "greeting.json", "--by", "ada", *STORE)
        assert drafted.code == 0
        version = drafted.out.split()[2].rstrip(",")
        assert drafted.out == f"greeting, version {version}, is draft.\n"
        for verb, status in (("activate", "active"), ("decline", "declined")):
            done = call(verb, "greeting", version, "--by", "bob", *STORE)
            assert (done.code, done.out) == (0, f"greeting, version {version}, is {status}.\n")
        assert call("draft", "greeting.json", "--by", "eve", *STORE).out.endswith("is declined.\n")
        (info,) = call("versions", "--json", *STORE).document
        assert (info["status"], info["created_by"], info["decided_by"]) == ("declined", "ada", "bob")
        shown = call("versions", "greeting", "--status", "declined", *STORE)
        assert all(word in shown.out for word in ("greeting", version, "graph", "declined", "ada", "bob"))
        assert "no such versions" in call("versions", "--status", "active", *STORE).out


def test_what_cannot_be_drafted_is_told() -> None:
    """No file, no graph, no version."""
    Path("broken.json").write_text('{"name": "g", "nodes": {"a": {"function": "f", "next": "b"}}}')
    with as_before():
        missing = call("draft", "nowhere.json", "--by", "ada", *STORE)
        assert (missing.code, "cannot be read" in missing.err) == (2, True)
        broken = call("draft", "broken.json", "--by", "ada", *STORE)
        assert broken.code != 0
        assert "'b'" in broken.err
        unknown = call("activate", "greeting", "v9", "--by", "ada", *STORE)
        assert unknown.code != 0
        assert "v9" in unknown.err
        assert call("draft", "greeting.json", *STORE).code == 2, "who it is has to be said"
