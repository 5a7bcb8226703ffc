"""`outlast run`: what it shows, what it says last, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import call

ORDER = '{"id": "A-17", "amount": 3}'


def test_a_run_is_shown_step_by_step_and_ends_with_its_output(shop: Path) -> None:
    """Where standard output is no terminal, each event is a line, and the output is JSON on the last one."""
    done = call("run", "shop.py:fulfil", "--id", "A-17", "--input", ORDER)
    assert done.code == 0, done.err
    *lines, status, output = done.out.splitlines()
    assert json.loads(output) == ["receipt for A-17", "parcel of lamp"]
    assert status.startswith("Run A-17 is completed in ")
    told = [line.split("  ", 1)[1] for line in lines if "  " in line]
    assert [line.partition(" (")[0] for line in told] == [
        "run  queued",
        "charge  started",
        "charge  succeeded",
        "pack  started",
        "pack  retrying",
        "pack  started",
        "pack  succeeded",
        "run  milestone: packed",
        "run  completed",
    ]
    assert "OSError: out of paper" in done.out
    assert done.err == ""


def test_the_same_id_joins_the_run_and_does_nothing_again(shop: Path) -> None:
    """A second `outlast run` of an id shows the first one's run, output and all."""
    # SPEC R3
    first = call("run", "shop.py:fulfil", "--id", "A-17", "--input", ORDER)
    again = call("run", "shop.py:fulfil", "--id", "A-17", "--input", ORDER)
    assert (again.code, again.out.splitlines()[-1]) == (0, first.out.splitlines()[-1])
    assert first.out.count("packing") == 2
    assert "packing" not in again.out


def test_what_to_do_about_a_taken_id_can_be_chosen(shop: Path) -> None:
    """`--on-conflict raise` refuses, `restart` starts anew once the run has ended, other input is always refused."""
    # SPEC R3
    command = ("run", "shop.py:fulfil", "--id", "A-17", "--json", "--input")
    first = call(*command, ORDER).document
    refused = call(*command, ORDER, "--on-conflict", "raise")
    assert (refused.code, refused.document["error"]["code"]) == (1, "RUN_EXISTS")
    other = call(*command, '{"id": "A-17", "amount": 4}')
    assert (other.code, other.document["error"]["code"]) == (1, "RUN_CONFLICT")
    anew = call(*command, ORDER, "--on-conflict", "restart").document
    assert anew["status"] == "completed"
    assert anew["uid"] != first["uid"]


def test_json_is_one_document_whatever_steps_print(shop: Path) -> None:
    """With --json, standard output holds the run's status as one document; what user code prints goes elsewhere."""
    done = call("run", "shop.py:fulfil", "--json", "--input", ORDER)
    assert done.document["status"] == "completed"
    assert done.document["output"] == ["receipt for A-17", "parcel of lamp"]
    assert [(step["key"], step["attempts"]) for step in done.document["steps"]] == [("charge", 1), ("pack", 2)]
    assert "packing lamp" in done.err


def test_a_failed_run_exits_1_with_its_traceback_and_what_to_do(shop: Path) -> None:
    """The error comes with the traceback of the user's code, and with the command that goes on from it."""
    # SPEC R5
    done = call("run", "shop.py:fulfil", "--id", "A-18", "--input", '{"id": "A-18", "amount": -1}')
    assert done.code == 1
    assert "Run A-18 is failed" in done.out
    assert "ValueError: no such amount" in done.err
    assert 'raise ValueError("no such amount")' in done.err
    assert "outlast retry A-18 --store sqlite:///shop.db" in done.err


def test_retry_with_work_goes_on_from_what_failed(shop: Path) -> None:
    """`outlast retry --work MODULE` works the failed run here, and ends as `outlast run` would have."""
    # SPEC R10
    call("run", "shop.py:fulfil", "--id", "A-18", "--input", '{"id": "A-18", "amount": -1}')
    (shop / "mended").touch()
    done = call("retry", "A-18", "--work", "shop.py")
    assert done.code == 0, done.err
    assert "run  reopened" in done.out
    assert json.loads(done.out.splitlines()[-1]) == ["receipt for A-18", "parcel of lamp"]
    again = call("retry", "A-18", "--work", "shop.py")
    assert again.code == 1
    assert "Only a failed run can be retried, this one is completed" in again.err


def test_retry_with_work_joins_a_run_that_was_retried_before(shop: Path) -> None:
    """`outlast retry` without a worker leaves it queued; the same with --work then works it, instead of refusing."""
    # SPEC R10
    call("run", "shop.py:fulfil", "--id", "A-18", "--input", '{"id": "A-18", "amount": -1}')
    (shop / "mended").touch()
    assert call("retry", "A-18", "--store", "sqlite:///shop.db").code == 0
    done = call("retry", "A-18", "--work", "shop.py")
    assert done.code == 0, done.err


def test_a_run_that_takes_too_long_is_left_and_kept(shop: Path) -> None:
    """Past --timeout it exits 4, and says how the run stands and how to go on with it."""
    done = call("run", "shop.py:nap", "--id", "N", "--input", "3600", "--timeout", "0.2")
    assert done.code == 4
    assert "Run N has not ended within 200ms: it is running, waiting on sleep until " in done.err
    assert "It is kept." in done.err
    assert "outlast run shop.py:nap --id N --input 3600 --store sqlite:///shop.db" in done.err


def test_a_suspended_run_exits_4_with_the_reason(shop: Path) -> None:
    """A run that needs a person is not waited for: it says why, and which command lifts it."""
    (shop / "shop.py").write_text(
        (shop / "shop.py").read_text()
        + "\n@app.workflow\nasync def stuck(ctx: Context) -> None:\n    await asyncio.Event().wait()\n"
    )
    done = call("run", "shop.py:stuck", "--id", "D")
    assert done.code == 4
    assert "Run D is suspended" in done.out
    assert "DEADLOCK: The body waits for what cannot come" in done.err
    assert "outlast resume D --store sqlite:///shop.db" in done.err


ASKING = """
@app.workflow
async def asking(ctx: Context) -> bool:
    return (await ctx.approval("ship it?", bool)).value

@app.workflow
async def listening(ctx: Context) -> str:
    return await ctx.wait_for("paid", str)
"""


@pytest.mark.parametrize(
    ("workflow", "answer"),
    [
        ("asking", "outlast approve W 'ship it?' --value JSON --by USER --store sqlite:///shop.db"),
        ("listening", "outlast signal W paid --value JSON --store sqlite:///shop.db"),
    ],
)
def test_a_run_that_waits_for_somebody_says_how_to_answer(shop: Path, workflow: str, answer: str) -> None:
    """It is waited for, since the answer may come while it is watched; with --no-wait it is left, and exits 4."""
    # SPEC R1
    (shop / "shop.py").write_text((shop / "shop.py").read_text() + ASKING)
    waited = call("run", f"shop.py:{workflow}", "--id", "W", "--timeout", "2")
    assert waited.code == 4
    assert "Run W waits for somebody: " in waited.err
    assert waited.err.count(answer) == 1
    left = call("run", f"shop.py:{workflow}", "--id", "W", "--no-wait")
    assert left.code == 4
    assert "It is kept." in left.err
    assert answer in left.err
    assert f"outlast run shop.py:{workflow} --id W --store sqlite:///shop.db" in left.err


def test_a_run_that_is_not_waited_for_still_gets_its_steps(shop: Path) -> None:
    """--no-wait leaves a run that waits for people, and no other: steps and timers are worked to the end."""
    done = call("run", "shop.py:fulfil", "--no-wait", "--input", ORDER)
    assert done.code == 0, done.err


def test_input_may_come_from_a_file_by_name_or_not_at_all(shop: Path) -> None:
    """`@FILE` is read; an object gives parameters by name, anything else the only one; without, defaults apply."""
    (shop / "order.json").write_text('{"order": {"id": "F", "amount": 1}}')
    assert call("run", "shop.py:fulfil", "--json", "--input", "@order.json").document["output"][0] == "receipt for F"
    greet = ("run", "shop.py:shop:greet", "--json")
    assert call(*greet).document["output"] == "hello world"
    assert call(*greet, "--input", '"you"').document["output"] == "hello you"
    assert call(*greet, "--input", '{"name": "you"}').document["output"] == "hello you"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--input", "{not json"], "JSON is malformed"),
        (["--input", '{"id": "A", "amount": "three"}'], "fulfil, at order.amount"),
        (["--input", '{"id": "A"}'], "order.amount"),
        (["--input", "5"], "fulfil, at order"),
        ([], "Give it as JSON with --input"),
        (["--input", "@nowhere.json"], "No such file or directory: @nowhere.json"),
        (["--input", "@."], "Is a directory"),
        (["--input", ORDER, "--attribute", "region"], "is not NAME=VALUE"),
        (["--input", ORDER, "--timeout", "soon"], "is not a duration"),
        (["--input", ORDER, "--id", ""], "is empty"),
        (["--input", ORDER, "--id", "x" * 600], "over the limit of 512"),
        (["--input", ORDER, "--store", "mysql://x"], "Expected sqlite:///"),
        (["--input", ORDER, "--store", "sqlite://x.db"], "three slashes"),
        (["--input", ORDER, "--on-conflict", "maybe"], "is not one of"),
        (["--input", ORDER, "--no-such-option"], "No such option"),
    ],
)
def test_wrong_usage_exits_2_and_stores_nothing(shop: Path, words: list[str], said: str) -> None:
    """What cannot be run is told with what was expected, before there is a run."""
    # SPEC R2
    done = call("run", "shop.py:fulfil", *words)
    assert done.code == 2, done.err
    assert said in done.err
    assert "Traceback" not in done.err
    assert (
        call("runs", "--store", "sqlite:///shop.db").code == 1
        or not call("runs", "--json", "--store", "sqlite:///shop.db").document["runs"]
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--concurrency", "0"], "concurrency"),
        (["--max-hot", "-1"], "max_hot"),
        (["--lease", "1ms"], "lease"),
        (["--lease", "long"], "is not a duration"),
        (["--queue", ""], "is empty"),
    ],
)
def test_a_worker_with_settings_that_cannot_work_does_not_start(shop: Path, words: list[str], said: str) -> None:
    """Exit 2, the setting and what was expected of it, before a store is made."""
    done = call("worker", "shop.py", *words)
    assert (done.code, "Traceback" in done.err) == (2, False)
    assert said in done.err
    assert not (shop / "shop.db").exists()


def test_user_and_attributes_are_stored_with_the_run(shop: Path) -> None:
    """`--user` and `--attribute` are what `outlast runs` can find it by; values are JSON where they can be."""
    # SPEC R4
    marks = ("--user", "ada", "--attribute", "region=eu", "--attribute", "n=5")
    call("run", "shop.py:shop:greet", "--id", "G", *marks)
    store = ("--store", "sqlite:///shop.db", "--json")
    for filters in (marks, ("--user", "ada"), ("--attribute", "n=5", "--status", "completed")):
        (found,) = call("runs", *store, *filters).document["runs"]
        assert (found["id"], found["user"], found["attributes"]) == ("G", "ada", {"region": "eu", "n": 5})
    assert call("runs", *store, "--attribute", 'n="5"').document["runs"] == []


def test_the_store_can_be_another_than_the_modules(shop: Path) -> None:
    """`--store` comes before the URL that the module's app has, also where it stands before the command's name."""
    assert call("--store", "sqlite:///other.db", "run", "shop.py:shop:greet").code == 0
    assert (shop / "other.db").exists()
    assert not (shop / "shop.db").exists()


def test_a_run_that_goes_on_is_followed_to_its_last_round(shop: Path) -> None:
    """Each round is shown as it goes; the output is the last one's, and `show` names the round before."""
    # SPEC R6
    (shop / "rounds.py").write_text(
        "from outlast import Context, Outlast\n\n"
        "app = Outlast('sqlite:///rounds.db')\n\n\n"
        "@app.workflow\n"
        "async def counting(ctx: Context, n: int = 0) -> int:\n"
        "    await ctx.milestone(f'round {n}')\n"
        "    if n < 2:\n"
        "        await ctx.continue_as_new(n + 1)\n"
        "    return n\n"
    )
    done = call("run", "rounds.py:counting", "--id", "c")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-1] == "2"
    assert [line.partition("  run  ")[2].partition(":")[0] for line in done.out.splitlines() if "  run  " in line] == [
        *("queued", "milestone", "continued") * 2, "queued", "milestone", "completed",
    ]  # fmt: skip
    shown = call("show", "c", "--store", "sqlite:///rounds.db", "--json").document
    assert (shown["output"], shown["continued_as"]) == (2, None)
    assert shown["continued_from"] is not None
