"""`outlast doctor --verify`, as people call it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.cli.commands import call
from tests.verifying.faults import FAULTS
from tests.verifying.world import Tables, build


@pytest.fixture
def built(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    asyncio.run(build(f"sqlite:///{path}"))
    return path


@pytest.mark.slow
def test_verify_tells_what_is_broken(built: Path, tmp_path: Path) -> None:
    """It names run, fault and what to do, fails, and changes nothing; `--run` looks at one run alone."""
    sound = call("doctor", "--verify", "--store", f"sqlite:///{built}")
    assert "entries: sound" in sound.out
    tables = Tables(built, tmp_path)
    FAULTS["a success twice"].make(tables)
    before = tables.path.read_bytes()
    done = call("doctor", "--verify", "--store", tables.url, "--json")
    assert done.code == 1
    verified = done.document["verified"]
    assert {problem["id"] for problem in verified["problems"]} == {"done"}
    told = [one for one in done.document["findings"] if one["check"] == "journals" and one["level"] == "wrong"]
    assert any("run done: step add succeeded 2 times (outcome)" in one["text"] for one in told)
    assert all("outlast export done" in one["todo"] for one in told)
    assert verified["broken"] == len(told)
    one = call("doctor", "--verify", "--run", "nap", "--store", tables.url, "--json").document["verified"]
    assert (one["runs"], one["problems"]) == (1, [])
    assert tables.path.read_bytes() == before


def test_what_is_left_of_no_run_is_told(built: Path, tmp_path: Path) -> None:
    """Rows of tasks, waits, mail, values and journals whose run is not there."""
    tables = Tables(built, tmp_path)
    uid = tables.uid("queued")
    tables.run("drop trigger runs_delete")
    tables.run("delete from runs where uid = ?", uid)
    done = call("doctor", "--verify", "--store", tables.url, "--json")
    problems = [problem for problem in done.document["verified"]["problems"] if problem["rule"] == "orphan"]
    assert {problem["uid"] for problem in problems} == {uid}
    text = " ".join(problem["text"] for problem in problems)
    assert all(word in text for word in ("tasks", "journal", "run_values")), text


def test_a_run_that_is_not_there_is_told(built: Path) -> None:
    """As by every command; and `--run` alone is no question."""
    done = call("doctor", "--verify", "--run", "nobody", "--store", f"sqlite:///{built}", "--json")
    assert (done.code, done.document["error"]["code"]) == (1, "RUN_NOT_FOUND")
    assert call("doctor", "--run", "nap", "--store", f"sqlite:///{built}").code == 2
