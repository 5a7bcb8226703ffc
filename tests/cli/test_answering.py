"""`outlast waits`, `signal`, `approve` and `resume`: what runs wait for, seen and answered from a shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import SHOP, Done, call

STORE = ("--store", "sqlite:///shop.db")
WAITING = """
@app.workflow
async def ship(ctx: Context) -> list[object]:
    amount = await ctx.wait_for("paid", int)
    await ctx.suspend("look")
    answer = await ctx.approval("ship it?", bool, approvers="not-initiator", scope="ship", expires="1h")
    return [amount, answer.value, answer.by.id]
"""


@pytest.fixture
def parked(shop: Path) -> Path:
    """The shop, and a run of `ship` that waits for a signal, with nobody to work it."""
    (shop / "shop.py").write_text(SHOP + WAITING)
    work()
    return shop


def work() -> Done:
    """Let a worker take the run as far as it goes by itself."""
    return call("run", "shop.py:ship", "--id", "S", "--timeout", "0.3")


def answer(*words: str) -> Done:
    done = call(*words, *STORE)
    assert done.code == 0, done.err
    return done


def test_what_runs_wait_for_is_listed_and_answered(parked: Path) -> None:
    """`outlast waits` says who waits for what; `signal`, `resume` and `approve` answer it; `show` says how."""
    # SPEC W2, W3, W4, W6
    (wait,) = answer("waits", "--json").document["waits"]
    assert (wait["run_id"], wait["kind"], wait["key"]) == ("S", "signal", "paid")
    assert "outlast signal S paid --value JSON" in answer("show", "S").out
    (parked / "amount.json").write_text("5")
    done = answer("signal", "S", "paid", "--value", "@amount.json", "--key", "evt", "--json")
    assert done.document == {"id": "S", "signalled": "paid"}
    answer("signal", "S", "paid", "--value", "6", "--key", "evt")
    work()
    assert "outlast resume S --reason look" in answer("show", "S").out
    answer("resume", "S", "--reason", "look")
    work()
    lines = answer("waits", "--kind", "approval").out.splitlines()
    assert "not-initiator, with scope ship" in lines[1]
    assert answer("waits", "--name", "paid").out == "Nobody is waited for.\n"
    approve = ("approve", "S", "ship it?", "--value", "true", "--by", "bob", *STORE)
    refused = call(*approve)
    assert (refused.code, "lack the scope 'ship'" in refused.err) == (1, True)
    late = call(*approve, "--scope", "ship", "--timeout", "0.05", "--key", "b1")
    assert (late.code, "Recorded, but not judged" in late.err) == (4, True)
    ended = call("run", "shop.py:ship", "--id", "S", "--json", "--timeout", "10s")
    assert (ended.code, ended.document["output"]) == (0, [5, True, "bob"])
    told = answer(*approve[:-2], "--scope", "ship", "--key", "b1", "--json").document
    assert (told["id"], told["by"]) == ("S", "bob")
    assert "accepted" in answer("timeline", "S").out


def test_what_cannot_be_sent_is_refused(parked: Path) -> None:
    """A value that is no JSON is a usage error; a gate that is not open is named, with those that are."""
    # SPEC D4
    for words in (("signal", "S", "paid", "--value", "{"), ("approve", "S", "x", "--value", "@none", "--by", "bob")):
        done = call(*words, *STORE)
        assert done.code == 2, done.err
    done = call("resume", "S", "--reason", "look", *STORE)
    assert (done.code, "No such wait is open" in done.err) == (1, True)
    assert call("signal", "nobody", "paid", *STORE).code == 1
