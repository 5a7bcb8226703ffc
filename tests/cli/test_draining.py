"""`outlast drain` and `outlast workers`: workers that are asked from another process to leave, and what they hold."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import PROMPT_S, begin, call, finish
from tests.cli.test_processes import wait_until
from tests.cli.test_worker_processes import Watched

pytestmark = pytest.mark.process

STORE = ("--store", "sqlite:///shop.db")
PATIENT = ("run", "shop.py:patient", "--id", "P", "--input", '"go"')


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line that it prints, which may have come with the one before."""
    assert process.stdout is not None
    return process.stdout.readline()


def listed() -> list[dict[str, Any]]:
    """The workers of the store."""
    return call("workers", *STORE, "--json").document


def is_listed_as(state: str) -> dict[str, Any]:
    """Wait for the one worker to stand so."""
    until = time.monotonic() + PROMPT_S
    while not (found := [worker for worker in listed() if worker["state"] == state]):
        assert time.monotonic() < until, listed()
        time.sleep(0.02)
    return found[0]


# SPEC Q4
def test_a_worker_that_is_asked_to_drain_ends_with_0(shop: Path, children: list[subprocess.Popen[str]]) -> None:
    """It says so, lets its step end, hands the rest back, and is gone; until then others see that it drains."""
    assert call(*PATIENT, "--timeout", "0.3", "--grace", "0.1").code == 4
    (shop / "go.begun").unlink()
    worker = begin(shop, "worker", "shop.py", "--lease", "1s")
    children.append(worker)
    wait_until(shop / "go.begun")
    (serving,) = listed()
    assert (serving["state"], serving["pid"], serving["held_runs"]) == ("serving", worker.pid, 1)
    (held,) = call("runs", *STORE, "--json", "--worker", serving["id"]).document["runs"]
    assert held["id"] == "P"
    asked = call("drain", serving["id"], *STORE)
    assert asked.code == 0
    assert f"Worker {serving['id']} was asked to drain" in asked.out
    assert "ready" in read_line(worker)
    assert read_line(worker) == "asked to drain\n"
    assert read_line(worker) == "draining: 1 step may go on for 30s; a second signal stops now\n"
    draining = is_listed_as("draining")
    again = call("drain", serving["id"], *STORE, "--json")
    assert again.document == {"worker": serving["id"], "drain_asked_at": draining["drain_asked_at"]}
    assert "draining, asked" in call("workers", *STORE).out
    (shop / "go").touch()
    done = finish(worker)
    assert (done.code, done.out) == (0, "drained: everything is handed back\n"), done.err
    assert listed() == []
    shown = call("show", "P", *STORE, "--json").document
    assert (shown["status"], shown["output"]) == ("completed", 2)


def test_who_is_not_there_cannot_be_asked(shop: Path) -> None:
    """The id, and the command that lists who is."""
    call("run", "shop.py:shop:greet", "--id", "G")
    done = call("drain", "w-1", *STORE)
    assert done.code == 2
    assert "No worker of this id is alive" in done.err
    assert "worker 'w-1'" in done.err
    assert "outlast workers" in done.err
    assert call("workers", "--steps", "w-1", *STORE, "--json").document["error"]["code"] == "WORKER_NOT_FOUND"


def test_a_run_that_is_worked_here_is_left_when_its_worker_is_asked_to_drain(
    shop: Path, children: list[subprocess.Popen[str]]
) -> None:
    """`outlast run` does as when it is interrupted: the run is kept, and how to go on with it is said."""
    run = begin(shop, *PATIENT, "--grace", "0.1s")
    children.append(run)
    wait_until(shop / "go.begun")
    assert call("drain", listed()[0]["id"], *STORE).code == 0
    done = finish(run)
    assert done.code == 130
    assert "Interrupted: run P is running" in done.err
    assert listed() == []


def test_one_of_several_processes_leaves_for_good(shop: Path) -> None:
    """What was asked to drain is not started anew; when the last one has, whoever looked after them ends too."""
    process = begin(shop, "worker", "shop.py", "--processes", "2", "--json", "--lease", "1s")
    watched = Watched(process)
    try:
        first, second = (line["worker"] for line in watched.until("ready", 2))
        assert call("drain", first, *STORE).code == 0
        watched.until("ended", 1)
        assert [worker["id"] for worker in listed()] == [second]
        assert call("drain", second, *STORE).code == 0
        assert finish(process).code == 0
        assert [line for line in watched.said if line.get("event") == "restarting"] == []
        assert listed() == []
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_queued_steps_of_a_worker_are_listed(shop: Path, children: list[subprocess.Popen[str]]) -> None:
    """By run, step and attempt, with since when."""
    (shop / "gpu.py").write_text(
        (shop / "shop.py").read_text().replace("@app.step(retries=3)", '@app.step(retries=3, queue="gpu")')
    )
    worker = begin(shop, "worker", "gpu.py", "--queue", "default", "--queue", "gpu")
    children.append(worker)
    assert "ready" in read_line(worker)
    call("run", "gpu.py:patient", "--id", "Q", "--input", '"go"', "--timeout", "0.1", "--grace", "0")
    wait_until(shop / "go.begun")
    (one,) = [each for each in listed() if each["pid"] == worker.pid]
    (step,) = call("workers", "--steps", one["id"], *STORE, "--json").document
    assert (step["run_id"], step["key"], step["attempt"], step["queue"]) == ("Q", "wait_for_file", 1, "gpu")
    assert "wait_for_file" in call("workers", "--steps", one["id"], *STORE).out
    (shop / "go").touch()
