"""The command as a process of its own: signals, standard streams, terminals, and the hash seed."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from outlast.cli.hashseed import is_wanted
from tests.cli.commands import PROMPT_S, begin, call, environment, finish, outlast

pytestmark = pytest.mark.process

SHOW_SEED = """
import os, sys
from outlast import Context, Outlast
app = Outlast("memory://seed")
os.system("echo what a child process prints")
@app.workflow
async def seed(ctx: Context, word: str) -> list[object]:
    return [word, os.environ.get("PYTHONHASHSEED"), sys.flags.hash_randomization, sys.flags.utf8_mode, os.getpid()]
"""


def wait_until(path: Path) -> None:
    """For what another process is to make."""
    until = time.monotonic() + PROMPT_S
    while not path.exists():
        assert time.monotonic() < until, f"{path} never came"
        time.sleep(0.01)


def read_line(process: subprocess.Popen[str]) -> str:
    """The next line that it prints."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], PROMPT_S)
    assert ready, "it prints nothing"
    return process.stdout.readline()


def test_ctrl_c_leaves_the_run_to_the_next_worker(shop: Path, children: list[subprocess.Popen[str]]) -> None:
    """An interrupted `outlast run` exits 130 and keeps the run; a worker ends it, and drains cleanly on SIGTERM."""
    # SPEC Q4
    run = begin(shop, "run", "shop.py:patient", "--id", "P", "--input", '"go"', "--grace", "0.1s")
    children.append(run)
    wait_until(shop / "go.begun")
    run.send_signal(signal.SIGINT)
    done = finish(run)
    assert done.code == 130
    assert "Interrupted: run P is running, waiting on step wait_for_file. It is kept." in done.err
    assert "outlast run shop.py:patient --id P --input '\"go\"'" in done.err
    worker = begin(shop, "worker", "shop.py")
    children.append(worker)
    assert read_line(worker).startswith("ready: worker ")
    (shop / "go").touch()
    joined = call("run", "shop.py:patient", "--id", "P", "--input", '"go"', "--json", "--timeout", "15s")
    assert joined.code == 0, joined.err
    assert joined.document["output"] == 2, "the attempt that was cut off counts"
    worker.send_signal(signal.SIGTERM)
    done = finish(worker)
    assert (done.code, done.out) == (0, "drained: everything is handed back\n"), done.err


def test_who_waits_for_the_lease_of_the_dead_is_told(shop: Path, children: list[subprocess.Popen[str]]) -> None:
    """A run whose process was killed in the middle of a step moves when the lease has lapsed: `outlast run` says so."""
    # SPEC L3
    run = begin(shop, "run", "shop.py:patient", "--id", "P", "--input", '"go"')
    children.append(run)
    wait_until(shop / "go.begun")
    run.kill()
    run.wait()
    joined = call("run", "shop.py:patient", "--id", "P", "--input", '"go"', "--timeout", "0.5s")
    assert joined.code == 4
    assert re.search(rf"Run P is held by worker .*, pid {run.pid}\)\..* lease lapses, in \d", joined.err), joined.err


def test_a_worker_lets_running_steps_end_unless_told_twice(shop: Path, children: list[subprocess.Popen[str]]) -> None:
    """A drain waits for the steps that execute; a second signal stops now, exit 130, and their runs are handed back."""
    # SPEC Q4
    left = call("run", "shop.py:patient", "--id", "P", "--input", '"go"', "--timeout", "0.3", "--grace", "0.1")
    assert left.code == 4
    (shop / "go.begun").unlink()
    worker = begin(shop, "worker", "shop.py", "--json")
    children.append(worker)
    wait_until(shop / "go.begun")
    worker.send_signal(signal.SIGINT)
    events = [read_line(worker), read_line(worker)]
    assert '"event":"ready"' in events[0]
    assert events[1] == '{"event":"draining","executing":1}\n'
    assert worker.poll() is None
    worker.send_signal(signal.SIGINT)
    done = finish(worker)
    assert (done.code, done.out) == (130, '{"event":"stopped"}\n')
    (shop / "go").touch()
    after = call("run", "shop.py:patient", "--id", "P", "--input", '"go"', "--json", "--timeout", "15s")
    assert after.document["output"] == 3


def test_a_step_that_executes_ends_within_the_grace(shop: Path, children: list[subprocess.Popen[str]]) -> None:
    """What ends while a worker drains is recorded, and not done again."""
    # SPEC Q4
    assert (
        call("run", "shop.py:patient", "--id", "P", "--input", '"go"', "--timeout", "0.3", "--grace", "0.1").code == 4
    )
    (shop / "go.begun").unlink()
    worker = begin(shop, "worker", "shop.py")
    children.append(worker)
    wait_until(shop / "go.begun")
    worker.send_signal(signal.SIGTERM)
    assert "ready" in read_line(worker)
    assert read_line(worker) == "draining: 1 step may go on for 30s; a second signal stops now\n"
    (shop / "go").touch()
    assert finish(worker).code == 0
    shown = call("show", "P", "--store", "sqlite:///shop.db", "--json").document
    assert (shown["status"], shown["output"]) == ("completed", 2)


def test_a_cancel_from_another_process_ends_the_run_with_exit_3(
    shop: Path, children: list[subprocess.Popen[str]]
) -> None:
    """Whoever waits for a run is told that it was cancelled, and why."""
    # SPEC X1
    run = begin(shop, "run", "shop.py:patient", "--id", "P", "--input", '"go"')
    children.append(run)
    wait_until(shop / "go.begun")
    assert call("cancel", "P", "--reason", "not wanted", "--store", "sqlite:///shop.db").code == 0
    done = finish(run)
    assert done.code == 3
    assert "run  cancel requested: not wanted" in done.out
    assert "not wanted" in done.err


def test_run_fixes_the_hash_seed_and_stays_the_process_it_was(tmp_path: Path) -> None:
    """It starts itself anew with PYTHONHASHSEED=0: same process id, interpreter options, arguments, standard input.

    And what a child process of the user's code prints stays out of the JSON.
    """
    (tmp_path / "seed.py").write_text(SHOW_SEED)
    command = [sys.executable, "-X", "utf8", "-m", "outlast", "run", "seed.py", "--json", "--input", "-"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(OUTLAST_NO_REEXEC=""),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    out, _ = process.communicate('"häß lich\\n"', timeout=PROMPT_S)
    assert process.returncode == 0
    assert json.loads(out)["output"] == ["häß lich\n", "0", 0, 1, process.pid]
    off = outlast(tmp_path, "run", "seed.py", "--json", "--input", '"x"', "--no-reexec", OUTLAST_NO_REEXEC="")
    assert off.document["output"][1:3] == [None, 1]


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, True),
        ({"PYTHONHASHSEED": "random"}, True),
        ({"OUTLAST_NO_REEXEC": "0"}, True),
        ({"OUTLAST_NO_REEXEC": "1"}, False),
        ({"PYTHONHASHSEED": "0"}, False),
        ({"PYTHONHASHSEED": "7"}, False),
    ],
)
def test_a_hash_seed_that_is_given_stays(settings: dict[str, str], wanted: bool) -> None:
    """The process starts anew only if its seed is a random one, and nobody said that it shall not."""
    assert is_wanted(settings) is wanted


def run_on_terminal(folder: Path, *words: str, **more: str) -> tuple[int, str]:
    """The command, on a terminal of 80 by 24."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "outlast", *words],
        cwd=folder,
        env=environment(TERM="xterm-256color", COLUMNS="80", LINES="24", **more),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    until = time.monotonic() + PROMPT_S
    while time.monotonic() < until:
        ready, _, _ = select.select([ours], [], [], 0.1)
        try:
            seen += os.read(ours, 65536) if ready else b""
        except OSError:  # the other side is closed
            break
    os.close(ours)
    return process.wait(timeout=PROMPT_S), seen.decode()


def test_on_a_terminal_the_run_is_a_table_that_moves(shop: Path) -> None:
    """The live view shows each step with its status; what steps print goes above it; colours only where wanted."""
    code, seen = run_on_terminal(shop, "run", "shop.py:fulfil", "--id", "A", "--input", '{"id": "A", "amount": 3}')
    assert code == 0, seen
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    assert "packing lamp" in plain
    assert re.search(r"fulfil  A  completed", plain)
    assert re.search(r"charge +succeeded", plain)
    assert re.search(r"pack +succeeded +2", plain)
    assert plain.splitlines()[-1] == '["receipt for A","parcel of lamp"]'
    assert "\x1b[32m" in seen
    _, grey = run_on_terminal(
        shop, "run", "shop.py:fulfil", "--id", "A", "--input", '{"id": "A", "amount": 3}', NO_COLOR="1"
    )
    assert "completed" in grey
    assert not re.search(r"\x1b\[(?:[0-9]+;)*3[0-9]", grey)
