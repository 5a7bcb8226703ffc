"""`outlast cancel`, `resume`, `retry`, `fork`, `delete`, `prune`, `migrate`: what they store, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Done, call

STORE = ("--store", "sqlite:///shop.db")
FAIL = ("run", "shop.py:fulfil", "--id", "A-18", "--input", '{"id": "A-18", "amount": -1}')
STUCK = "\n@app.workflow\nasync def stuck(ctx: Context) -> None:\n    await asyncio.Event().wait()\n"


def steer(*words: str) -> Done:
    done = call(*words, *STORE)
    assert done.code == 0, done.err
    return done


def status_of(run_id: str) -> str:
    return str(call("show", run_id, "--json", *STORE).document["status"])


def work(*words: str) -> Done:
    """Let the next worker do what was stored."""
    return call("run", "shop.py:shop:greet", "--on-conflict", "restart", "--id", "tick", *words)


def test_a_cancel_is_stored_for_whoever_works_the_run_next(shop: Path) -> None:
    """`outlast cancel` needs no worker; of an ended run it says so, and exits 1."""
    # SPEC X1
    call("run", "shop.py:nap", "--id", "N", "--input", "3600", "--timeout", "0.1")
    assert steer("cancel", "N", "--reason", "too long", "--json").document == {"id": "N", "cancel_requested": True}
    done = call("run", "shop.py:nap", "--id", "N", "--input", "3600", "--timeout", "10s")
    assert done.code == 3, done.err
    assert "too long" in done.err
    late = call("cancel", "N", *STORE)
    assert late.code == 1
    assert "The run has ended and is cancelled" in late.err


def test_a_retried_run_goes_on_with_the_next_worker(shop: Path) -> None:
    """`outlast retry` alone stores it; the run is then worked as any other."""
    # SPEC R10
    call(*FAIL)
    (shop / "mended").touch()
    assert "goes on with the next worker" in steer("retry", "A-18").out
    assert status_of("A-18") == "queued"
    done = call(*FAIL, "--json", "--timeout", "10s")
    assert (done.code, done.document["status"]) == (0, "completed")
    assert call("retry", "A-18", *STORE).code == 1


def test_a_suspended_run_is_resumed_once_it_is_mended(shop: Path) -> None:
    """`outlast show` says why; `outlast resume` lifts it, of this reason if one is given; else it is refused."""
    # SPEC W2
    text = (shop / "shop.py").read_text()
    (shop / "shop.py").write_text(text + STUCK)
    assert call("run", "shop.py:stuck", "--id", "D").code == 4
    shown = steer("show", "D").out
    assert "Suspended: DEADLOCK\nThe body waits for what cannot come: no step, timer or answer" in shown
    assert "shop.py" in shown  # where each of its tasks waits
    wrong = call("resume", "D", "--reason", "OTHER", *STORE)
    assert wrong.code == 1
    assert "Open are" in wrong.err
    assert "DEADLOCK" in wrong.err
    steer("resume", "D", "--reason", "DEADLOCK")
    call("run", "shop.py:nap", "--id", "N", "--input", "3600", "--timeout", "0.1")
    refused = call("resume", "N", *STORE)
    assert refused.code == 1


def test_only_an_ended_run_can_be_deleted(shop: Path) -> None:
    """Deleting takes the run with all that is its own; one that goes on is refused, with what to do."""
    # SPEC R9
    call(*FAIL)
    call("run", "shop.py:nap", "--id", "N", "--input", "3600", "--timeout", "0.1")
    refused = call("delete", "N", *STORE)
    assert refused.code == 1
    assert "outlast cancel" in refused.err
    assert steer("delete", "A-18").out == "Run A-18 is deleted.\n"
    assert call("show", "A-18", *STORE).code == 1


def test_prune_deletes_what_ended_long_ago(shop: Path) -> None:
    """By age, and by how it ended; what has not ended stays."""
    # SPEC R9
    call(*FAIL)
    work()
    call("run", "shop.py:nap", "--id", "N", "--input", "3600", "--timeout", "0.1")
    assert steer("prune", "--older-than", "1h").out == "0 runs deleted.\n"
    assert steer("prune", "--older-than", "0", "--status", "failed", "--json").document == {"deleted": 1}
    assert steer("prune", "--older-than", "0s").out == "1 run deleted.\n"
    assert [run["id"] for run in steer("runs", "--json").document["runs"]] == ["N"]


def test_migrate_makes_a_store_once(shop: Path) -> None:
    """A store that is not there is made; one that is stays as it is."""
    # SPEC D3
    assert call("migrate", "--json", *STORE).document == {"store": "sqlite:///shop.db", "created": True}
    assert steer("migrate").out == "sqlite:///shop.db is up to date.\n"
    assert steer("runs").out == "There are no runs yet.\n"
    assert call("migrate", "--store", "memory://x").code == 2


def test_a_store_in_a_folder_that_is_not_there_is_told(shop: Path) -> None:
    """Exit 1, and the folder to create."""
    done = call("migrate", "--store", "sqlite:///nowhere/shop.db")
    assert done.code == 1
    assert "the folder" in done.err
    assert "does not exist; create it" in done.err


@pytest.mark.parametrize("words", [["retry", "A-18", "--work", "absent.py"], ["worker", "absent.py"]])
def test_a_module_that_is_not_there_changes_nothing(shop: Path, words: list[str]) -> None:
    """The module is looked for first: a run is not retried when nobody here could work it."""
    call(*FAIL)
    done = call(*words, *STORE)
    assert done.code == 2
    assert "There is no such file" in done.err
    assert status_of("A-18") == "failed"


def test_a_fork_goes_on_from_a_step_with_another_result(shop: Path) -> None:
    """`outlast fork` alone stores the new run, for the next worker; the old one stays as it is."""
    # SPEC R10
    done = call("run", "shop.py:fulfil", "--id", "A-19", "--input", '{"id": "A-19", "amount": 3}')
    assert done.code == 0, done.err
    forked = steer("fork", "A-19", "--at", "pack", "--result", 'charge="another receipt"', "--id", "A-20", "--json")
    assert forked.document["forked_from"] == "A-19"
    assert status_of("A-20") == "queued"
    joined = call("run", "shop.py:fulfil", "--id", "A-20", "--input", '{"id": "A-19", "amount": 3}', "--json")
    assert joined.document["output"] == ["another receipt", "parcel of lamp"]
    assert call("show", "A-19", "--json", *STORE).document["output"] == ["receipt for A-19", "parcel of lamp"]


def test_a_fork_is_worked_here_if_asked(shop: Path) -> None:
    """With `--work` it is shown until it ends, as with `outlast run`; and an id that is taken is refused."""
    call("run", "shop.py:fulfil", "--id", "A-19", "--input", '{"id": "A-19", "amount": 3}')
    fork = ("fork", "A-19", "--at", "charge", "--id", "A-20", "--work", "shop.py", "--timeout", "10s")
    done = call(*fork, "--json")
    assert (done.code, done.document["output"]) == (0, ["receipt for A-19", "parcel of lamp"])
    again = call(*fork)
    assert again.code == 1
    assert "A-20" in again.err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--at", "nothing"], 2, "has called: charge, pack"),
        (["--at", "pack", "--result", "charge"], 2, "STEP=JSON"),
        (["--at", "pack", "--result", "charge=receipt"], 2, "no JSON"),
        (["--at", "pack", "--result", "pack=1"], 2, "pack"),
        ([], 2, "--at"),
    ],
)
def test_a_fork_that_cannot_be_is_refused(shop: Path, words: list[str], code: int, told: str) -> None:
    """Before anything is stored, and with what is wrong."""
    call("run", "shop.py:fulfil", "--id", "A-19", "--input", '{"id": "A-19", "amount": 3}')
    done = call("fork", "A-19", *words, *STORE)
    assert done.code == code, done.err
    assert told in done.err
    assert len(steer("runs", "--json").document["runs"]) == 1
