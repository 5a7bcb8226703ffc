"""`outlast runs`, `show` and `workers`: what they show of a store, and what they say of one that is not there."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import pytest

from tests.cli.commands import SHOP, Done, as_before, call

STORE = ("--store", "sqlite:///shop.db")


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a completed, a failed and a sleeping run, made once."""
    folder = tmp_path_factory.mktemp("pattern")
    (folder / "shop.py").write_text(SHOP)
    with contextlib.chdir(folder), as_before():
        call("run", "shop.py:fulfil", "--id", "A-17", "--input", '{"id": "A-17", "amount": 3}')
        call("run", "shop.py:fulfil", "--id", "A-18", "--input", '{"id": "A-18", "amount": -1}')
        call("run", "shop.py:nap", "--id", "N", "--input", "3600", "--timeout", "0.1")
    return folder


@pytest.fixture
def sold(shop: Path, pattern: Path) -> Path:
    """The shop, with a copy of those runs."""
    shutil.copytree(pattern, shop, dirs_exist_ok=True)
    return shop


def look(*words: str) -> Done:
    done = call(*words, *STORE)
    assert done.code == 0, done.err
    return done


def test_runs_are_listed_newest_first(sold: Path) -> None:
    """A table for people, one document with --json, page by page."""
    # SPEC R9
    lines = look("runs").out.splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [
        ["N", "nap", "running"],
        ["A-18", "fulfil", "failed"],
        ["A-17", "fulfil", "completed"],
    ]
    assert "ValueError: no such amount" in lines[2]
    first = look("runs", "--json", "--limit", "2").document
    second = look("runs", "--json", "--limit", "2", "--after", first["next"]).document
    assert [run["id"] for run in first["runs"] + second["runs"]] == ["N", "A-18", "A-17"]
    assert second["next"] is None
    assert f"There are more: --after {first['next']}" in look("runs", "--limit", "2").out


def test_runs_can_be_filtered(sold: Path) -> None:
    """By workflow, by several statuses, by what they wait for; none is no error."""
    # SPEC R9
    assert [run["id"] for run in look("runs", "--json", "--workflow", "nap").document["runs"]] == ["N"]
    ended = look("runs", "--json", "--status", "failed", "--status", "completed").document["runs"]
    assert [run["id"] for run in ended] == ["A-18", "A-17"]
    assert look("runs", "--user", "nobody").out == "There are no such runs.\n"


def test_a_run_is_shown_with_every_attempt(sold: Path) -> None:
    """Status, times, each attempt with its error, and the output."""
    # SPEC O1 R7
    out = look("show", "A-17").out
    assert out.startswith("Run A-17  completed\n")
    attempts = [line.split()[:3] for line in out.splitlines() if line.startswith(("charge ", "pack "))]
    assert attempts == [["charge", "succeeded", "1"], ["pack", "failed", "1"], ["pack", "succeeded", "2"]]
    assert "OSError: out of paper" in out
    assert out.splitlines()[-1] == '["receipt for A-17","parcel of lamp"]'
    document = look("show", "A-17", "--json").document
    assert [(one["key"], one["attempt"], one["status"]) for one in document["attempts"]] == [
        ("charge", 1, "succeeded"),
        ("pack", 1, "failed"),
        ("pack", 2, "succeeded"),
    ]


def test_a_failed_run_is_shown_with_its_traceback(sold: Path) -> None:
    """The error that ended it, as Python tells it."""
    # SPEC R8
    out = look("show", "A-18").out
    assert "Traceback (most recent call last)" in out
    assert 'raise ValueError("no such amount")' in out
    assert look("show", "A-18", "--json").document["error"]["type"] == "ValueError"


def test_the_timeline_is_numbered_from_0(sold: Path) -> None:
    """Every event in order; with --json a line of JSON for each."""
    # SPEC O1
    lines = look("show", "A-17", "--timeline").out.splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(len(lines)))
    assert "pack  retrying (until " in "\n".join(lines)
    items = [json.loads(line) for line in look("show", "A-17", "--timeline", "--json").out.splitlines()]
    assert [item["seq"] for item in items] == list(range(len(lines)))
    assert items[-1]["kind"] == "completed"


def test_the_past_can_be_shown_by_event_or_by_time(sold: Path) -> None:
    """`--at` gives the run as it knew itself then; before its first event there is nothing."""
    # SPEC O2
    items = [json.loads(line) for line in look("show", "A-17", "--timeline", "--json").out.splitlines()]
    charged = next(item for item in items if item["step"] == "charge" and item["kind"] == "succeeded")
    then = look("show", "A-17", "--json", "--at", str(charged["seq"])).document
    assert then["results"] == {"charge": "receipt for A-17"}
    assert then["status"] == "running"
    assert look("show", "A-17", "--at", str(charged["seq"])).out.startswith(f"After event {charged['seq']}, ")
    assert look("show", "A-17", "--json", "--at", items[-1]["at"]).document["status"] == "completed"
    assert look("show", "A-17", "--json", "--at", "1970-01-01").document["seq"] == -1
    assert "nothing to show" in look("show", "A-17", "--at", "-1").out


def test_state_and_unfinished_steps_are_shown(sold: Path) -> None:
    """A run that goes on is shown with its state, what it waits for, and steps that have no outcome."""
    call("run", "shop.py:shop:greet", "--id", "G")
    assert 'greeted     "world"' in look("show", "G").out
    call("run", "shop.py:patient", "--id", "P", "--input", '"go"', "--timeout", "0.3", "--grace", "0")
    out = look("show", "P").out
    assert "waiting on  step wait_for_file" in out
    assert "wait_for_file" in out.split("Steps")[1]


def test_workers_are_listed(sold: Path) -> None:
    """None is alive where none is, and it says how to start one."""
    assert look("workers").out == "There are no workers. Start one: outlast worker MODULE.\n"
    assert look("workers", "--json").document == []


@pytest.mark.parametrize(
    "words", [["runs"], ["show", "A"], ["workers"], ["cancel", "A"], ["resume", "A"], ["retry", "A"], ["delete", "A"]]
)
def test_a_command_that_looks_or_steers_makes_no_store(shop: Path, words: list[str]) -> None:
    """A wrong --store is told, with the file that is not there, and no file is made."""
    done = call(*words, "--store", "sqlite:///typo.db")
    assert done.code == 1
    assert f"There is no store yet: sqlite:///typo.db, the file {shop / 'typo.db'}" in done.err
    assert not (shop / "typo.db").exists()
    as_json = call(*words, "--store", "sqlite:///typo.db", "--json")
    assert as_json.document["error"]["code"] == "STORE_NOT_FOUND"


@pytest.mark.parametrize("words", [["show"], ["cancel"], ["resume"], ["retry"], ["delete"]])
def test_a_run_that_is_not_there_is_told(sold: Path, words: list[str]) -> None:
    """Exit 1, the id, and the command that lists what there is."""
    done = call(*words, "A-19", *STORE)
    assert done.code == 1
    assert "There is no such run: run 'A-19' in sqlite:///shop.db." in done.err
    assert "outlast runs --store sqlite:///shop.db" in done.err
    assert "outlast runs" in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["show", "A-17", "--at", "yesterday"], "neither an event's number nor a time"),
        (["show", "A-17", "--at", "1", "--timeline"], "give one of them"),
        (["show"], "Missing argument 'RUN'"),
        (["runs", "--status", "done"], "'done' is not one of"),
        (["runs", "--limit", "0"], "a whole number from 1 to 1000"),
        (["runs", "--after", "here"], "the `next` of an earlier page"),
        (["runs", "--store", "memory://x"], "seen by its own process alone"),
        (["prune"], "Missing option '--older-than'"),
        (["prune", "--older-than", "30d", "--status", "running"], "'running' is not one of"),
        (["nonsense"], "No such command 'nonsense'"),
    ],
)
def test_wrong_usage_exits_2(sold: Path, words: list[str], said: str) -> None:
    """What was expected is said, without a traceback."""
    done = call(*(words if "--store" in words or words == ["nonsense"] else [*words, *STORE]))
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert said in done.err


def test_a_file_of_another_program_is_refused(shop: Path) -> None:
    """A store URL that names something else is told, and nothing is written into it."""
    (shop / "notes.db").write_text("these are my notes, not a database at all\n" * 200)
    done = call("runs", "--store", "sqlite:///notes.db")
    assert done.code == 1
    assert "is not an SQLite database" in done.err
    assert (shop / "notes.db").read_text().startswith("these are my notes")


def test_text_of_users_cannot_command_the_terminal(shop: Path) -> None:
    """Escape sequences in ids and errors are spelt out."""
    call("run", "shop.py:shop:greet", "--id", "\x1b[31mred\x07")
    for words in (["runs"], ["show", "\x1b[31mred\x07"], ["show", "absent\x1b[2J"]):
        done = call(*words, *STORE)
        assert "\x1b" not in done.out + done.err
    assert "\\x1b[31mred\\x07" in look("runs").out


def test_the_version_is_told() -> None:
    """`outlast --version` names the release and the Python it runs on."""
    done = call("--version")
    assert done.code == 0
    assert done.out.startswith("outlast ")
    assert "Python 3." in done.out


def test_every_command_explains_itself() -> None:
    """`--help` works for each, and the list of all says what each is for."""
    listed = call("--help").out
    for name in ("run", "worker", "runs", "show", "retry", "cancel", "resume", "delete", "prune", "workers"):
        assert f"\n  {name} " in listed
    for name in ("run", "worker", "migrate", "doctor", "bench"):
        done = call(name, "--help")
        assert done.code == 0
        assert "--store" in done.out
        assert "--json" in done.out


def test_queues_are_listed(sold: Path) -> None:
    """What waits, held or not, by queue; the sleeping run waits for a time, and for nobody."""
    # SPEC Q1
    assert "Nothing waits" in look("queues").out
    call("run", "shop.py:send", "--id", "S", "--timeout", "0.1")
    (gpu,) = look("queues", "--json").document
    assert (gpu["name"], gpu["waiting_steps"], gpu["workers"], gpu["unknown"]) == ("gpu", 1, 0, ["render"])
    assert "render" in look("queues").out
