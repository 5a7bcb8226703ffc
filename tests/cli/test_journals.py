"""`events`, `timeline`, `export` and `import`: a run's journal from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import begin, call, finish

STORE = ("--store", "sqlite:///shop.db")


@pytest.fixture
def ended(shop: Path) -> Path:
    """Where a run A-1 has ended."""
    given = '{"order": {"id": "A-1", "amount": 3}}'
    assert call("run", "shop.py:fulfil", "--id", "A-1", "--input", given).code == 0
    return shop


def test_timeline_and_events_tell_what_happened(ended: Path) -> None:
    """All of it, a part of it, and the run as it was; as JSON a document a line. # SPEC O1, O2"""
    told = call("timeline", "A-1", *STORE)
    assert told.out == call("show", "A-1", "--timeline", *STORE).out == call("events", "A-1", *STORE).out
    assert call("timeline", "A-1", "--at", "1", *STORE).out == call("show", "A-1", "--at", "1", *STORE).out
    items = [json.loads(line) for line in call("events", "A-1", "--after", "1", "--json", *STORE).out.splitlines()]
    assert [item["seq"] for item in items] == list(range(2, len(told.out.splitlines())))
    followed = call("events", "A-1", "--follow", *STORE)
    assert (followed.code, followed.out) == (0, told.out)
    assert call("events", "nobody", *STORE).code == 1


@pytest.mark.process
def test_events_are_followed_until_the_end(shop: Path) -> None:
    """Each line comes when it happens; how the run ended is the exit code. # SPEC O3"""
    worker = begin(shop, "run", "shop.py:patient", "--id", "P", "--input", '{"file": "go"}')
    try:
        while not (shop / "go.begun").exists():
            assert worker.poll() is None
        follower = begin(shop, "events", "P", "--follow", "--json", *STORE)
        assert follower.stdout is not None
        first = json.loads(follower.stdout.readline())
        call("cancel", "P", *STORE)
        done = finish(follower)
    finally:
        worker.kill()
        worker.communicate()
    assert (first["kind"], done.code) == ("queued", 3)
    assert json.loads(done.out.splitlines()[-1])["kind"] == "cancelled"


def test_a_run_moves_to_another_store(ended: Path) -> None:
    """From a file, or through a pipe; what is there already, or no journal, is told."""
    assert call("export", "A-1", "-o", "run.jsonl", *STORE).code == 0
    text = (ended / "run.jsonl").read_text()
    assert call("export", "A-1", *STORE).out == text
    done = call("import", "run.jsonl", "--json", "--store", "sqlite:///other.db")
    assert (done.code, done.document["status"]) == (0, "completed")
    there = call("show", "A-1", "--json", "--store", "sqlite:///other.db").document
    assert there["output"] == ["receipt for A-1", "parcel of lamp"]
    (ended / "cut.jsonl").write_text(text[: len(text) // 2])
    cut = call("import", "cut.jsonl", "--store", "sqlite:///third.db")
    assert (cut.code, "cut off" in cut.err or "journal" in cut.err) == (2, True)
    assert call("export", "A-1", "-o", "no/such/folder", *STORE).code == 1
    assert call("export", "nobody", *STORE).code == 1
