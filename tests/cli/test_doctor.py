"""`outlast doctor`: what it finds, and what it says to do."""

from __future__ import annotations

import os
import pwd
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outlast.cli.doctor.findings import Finding, Level
from outlast.cli.doctor.processes import find_users
from outlast.cli.doctor.store import judge_queues, judge_runs, judge_workers
from outlast.core.states import RunStatus
from outlast.stores.store import QueueRow, RunRow, WorkerRow
from tests.cli.commands import PROMPT_S, SHOP, Done, begin, call, environment, finish, outlast

STORE = ("--store", "sqlite:///shop.db")
NOW = 1_800_000_000_000_000
SECOND = 1_000_000

HOLD = """
import sqlite3, sys, time
connection = sqlite3.connect("shop.db", isolation_level=None)
connection.execute("begin immediate")
print("held", flush=True)
time.sleep(60)
"""


def examine(*words: str) -> Done:
    return call("doctor", *(words or STORE), "--json")


def find(done: Done, check: str) -> dict[str, Any]:
    (found,) = [one for one in done.document["findings"] if one["check"] == check]
    return found


def make_run(**more: Any) -> RunRow:
    base = RunRow(
        uid="u", id="A-17", workflow="fulfil", version="1", status=RunStatus.RUNNING, waiting_on="", live=True,
        owner=None, epoch=1, wake_at=None, deadline=None, mail=0, priority=5, queue="default", parent=None, root=None,
        user=None, recoveries=0, created_at=NOW, started_at=NOW, updated_at=NOW, finished_at=None, attributes=b"{}",
        trace="", error=None,
    )  # fmt: skip
    return msgspec.structs.replace(base, **more)


def make_worker(**more: Any) -> WorkerRow:
    base = WorkerRow("w1", "here", 42, functions=("fulfil", "charge"), expires_at=NOW + 10 * SECOND)
    return msgspec.structs.replace(base, **more)


def judge(runs: list[RunRow], *workers: WorkerRow) -> list[Finding]:
    return [finding for finding in judge_runs(runs, workers, NOW) if finding.level is not Level.OK]


# --- whole ------------------------------------------------------------------------------------------------------------


def test_a_sound_store_passes(shop: Path) -> None:
    """Every check says ok, and the command exits 0."""
    call("run", "shop.py:shop:greet")
    done = examine()
    assert done.code == 0
    checks = {one["check"]: one["level"] for one in done.document["findings"]}
    assert {"file", "schema", "mode", "structure", "writing", "disk", "opening", "clock", "runs"} <= checks.keys()
    assert "wrong" not in checks.values()
    assert call("doctor", *STORE).out.endswith("Nothing is wrong.\n")


def test_what_needs_somebody_is_wrong(shop: Path) -> None:
    """Suspended and overdue runs fail the check, each with what to do."""
    code = "\n@app.workflow\nasync def stuck(ctx: Context) -> None:\n    await asyncio.Event().wait()\n"
    (shop / "shop.py").write_text((shop / "shop.py").read_text() + code)
    call("run", "shop.py:stuck", "--id", "D")
    done = examine()
    assert done.code == 1
    found = find(done, "suspended")
    assert (found["level"], found["text"]) == ("wrong", "1 on DEADLOCK: D")
    assert "outlast resume D" in found["todo"]
    assert call("doctor", *STORE).out.endswith("1 thing is wrong.\n")


def test_a_store_that_is_not_there_is_told_and_not_made(shop: Path) -> None:
    """Doctor makes no file, and says how to make one or name the right one."""
    done = examine("--store", "sqlite:///typo.db")
    assert done.code == 1
    assert "outlast migrate" in find(done, "file")["todo"]
    assert not (shop / "typo.db").exists()


@pytest.mark.parametrize("content", [b"not a database, but some notes of mine" * 100, b""])
def test_a_file_that_is_no_store_is_told(shop: Path, content: bytes) -> None:
    """Another file is wrong; an empty one would become a store, which is not for doctor to do."""
    (shop / "notes.db").write_bytes(content)
    done = examine("--store", "sqlite:///notes.db")
    assert done.code == (1 if content else 0)
    assert (shop / "notes.db").read_bytes() == content


def test_a_file_of_another_program_is_told(shop: Path) -> None:
    """A database with somebody else's tables is not opened as a store."""
    with closing(sqlite3.connect("other.db")) as connection:
        connection.execute("create table theirs (x)")
    done = examine("--store", "sqlite:///other.db")
    assert done.code == 1
    assert find(done, "schema")["text"] == "another program made this file"


def test_a_schema_of_another_release_is_told(shop: Path) -> None:
    """A newer one needs an upgrade; an older one is left as it is, and the command to migrate it is said."""
    # SPEC D3
    call("migrate", *STORE)
    with closing(sqlite3.connect("shop.db")) as connection, connection:
        connection.execute("insert into migrations values (999, 'later', 'x', 1)")
    done = examine()
    assert done.code == 1
    assert find(done, "schema")["todo"] == "Upgrade outlast here."
    with closing(sqlite3.connect("shop.db")) as connection, connection:
        connection.execute("delete from migrations where number > 1")
    assert "outlast migrate" in find(examine(), "schema")["todo"]
    assert all(one["check"] != "opening" for one in examine().document["findings"])


def test_a_damaged_file_is_told(shop: Path) -> None:
    """SQLite's own check finds it, before anybody works on it."""
    call("run", "shop.py:shop:greet")
    with closing(sqlite3.connect("shop.db")) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
    pages = bytearray((shop / "shop.db").read_bytes())
    pages[8192:] = os.urandom(len(pages) - 8192)
    (shop / "shop.db").write_bytes(pages)
    done = examine()
    assert done.code == 1
    assert any("restore a backup" in one["todo"] for one in done.document["findings"])


def test_weaker_durability_is_noted(shop: Path) -> None:
    """A URL that trades it for speed is a choice, not an error."""
    url = "sqlite:///shop.db?synchronous=normal"
    call("migrate", "--store", url)
    done = examine("--store", url)
    assert done.code == 0
    assert find(done, "durability")["level"] == ("note")


# --- processes --------------------------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells who has a file open")
def test_a_stopped_process_that_holds_the_file_is_named(shop: Path) -> None:
    """Nobody can write while a writer is stopped: doctor names it by pid and command, and says how to go on."""
    call("migrate", *STORE)
    holder = subprocess.Popen([sys.executable, "-c", HOLD], cwd=shop, stdout=subprocess.PIPE, env=environment())
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert [process.pid for process in find_users(shop / "shop.db")] == [holder.pid]
        holder.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
        done = examine()
        assert done.code == 1
        found = find(done, "processes")
        assert f"process {holder.pid} is stopped and has the file open" in found["text"]
        assert f"kill -CONT {holder.pid}" in found["todo"]
        writing = find(done, "writing")
        assert writing["level"] == "wrong"
        assert f"process {holder.pid}" in writing["text"]
        waiting = begin(shop, "runs", *STORE)
        wait_until_asked(waiting.pid, shop / "shop.db")
        waiting.send_signal(signal.SIGINT)
        assert finish(waiting).code == 130, "whoever waits for it can be interrupted"
    finally:
        holder.kill()
        holder.communicate()
    assert find(examine(), "writing")["level"] == "ok"


def wait_until_asked(pid: int, path: Path) -> None:
    """Until the process has the file open, too."""
    until = time.monotonic() + PROMPT_S
    while pid not in {process.pid for process in find_users(path)}:
        assert time.monotonic() < until
        time.sleep(0.02)


AS_NOBODY = """
import os, sys
from click.testing import CliRunner
from outlast.cli.main import cli, main
for words in (["run", "shop.py:shop:greet"], ["doctor"], ["doctor", "--json"], ["runs"]):
    CliRunner().invoke(cli, [*words, "--store", "sqlite:///warm.db"])  # import all while this interpreter may be read
os.setuid(int(sys.argv.pop(1)))
main(sys.argv[1:])
"""


@pytest.mark.process
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as nobody")
def test_a_folder_that_may_not_be_written_is_told() -> None:
    """Who may read a store and not write it is told so, and what to change, without a traceback."""
    nobody = pwd.getpwnam("nobody").pw_uid
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "shop.py").write_text(SHOP)
        outlast(folder, "migrate", *STORE)

        def as_nobody(*words: str) -> Done:
            command = [sys.executable, "-c", AS_NOBODY, str(nobody), *words, *STORE]
            done = subprocess.run(
                command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=30, check=False
            )
            return Done(done.returncode, done.stdout, done.stderr)

        doctor = as_nobody("doctor")
        assert doctor.code == 1, doctor.err
        assert "this user may not write" in doctor.out
        assert "Let the user of the workers own the file and its folder" in doctor.out
        run = as_nobody("run", "shop.py:shop:greet")
        assert run.code == 1
        assert "Error: The store cannot be written, this user may not write" in run.err
        assert "Traceback" not in run.err


# --- judgements -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("worker", "todo"),
    [
        (None, "Start a worker: outlast worker MODULE."),
        (make_worker(expires_at=NOW - 1), "Start a worker: outlast worker MODULE."),
        (make_worker(queues=("gpu",)), "No live worker serves queue default: outlast worker MODULE --queue default."),
        (make_worker(functions=("other",)), "No live worker of queue default knows fulfil"),
        (make_worker(), "Workers are there, and cannot keep up"),
    ],
)
def test_overdue_runs_are_told_with_the_reason(worker: WorkerRow | None, todo: str) -> None:
    """A run that is due and untaken for 10 s lacks a worker: which one, the finding says."""
    (found,) = judge([make_run(wake_at=NOW - 11 * SECOND)], *([worker] if worker else []))
    assert (found.level, found.check) == (Level.WRONG, "overdue")
    assert found.text == "1 of fulfil due for up to 11s: A-17"
    assert found.todo.startswith(todo)


def test_runs_that_wait_for_a_place_are_told_and_not_wrong() -> None:
    """Beyond a limit they are due for as long as it takes; without a worker for them they are as wrong as any."""
    late = make_run(wake_at=NOW - 11 * SECOND, pool="fulfil")
    assert judge([late], make_worker()) == []
    (told,) = [found for found in judge_runs([late], [make_worker()], NOW) if found.check == "limits"]
    assert told.text.startswith("1 of fulfil due for up to 11s: A-17: they have a limit")
    (found,) = judge([late])
    assert found.check == "overdue"


def test_runs_that_wait_as_they_should_are_not_wrong() -> None:
    """What sleeps, has just become due, or is owned by a worker needs nobody."""
    runs = [make_run(wake_at=NOW + SECOND), make_run(wake_at=NOW - SECOND), make_run(owner="w1"), make_run()]
    assert judge(runs, make_worker()) == []


def test_runs_that_take_workers_down_are_told() -> None:
    """Three takeovers without progress are no accident."""
    (found,) = judge([make_run(recoveries=3, owner="w1")], make_worker())
    assert (found.level, found.check) == (Level.WRONG, "recoveries")


def test_suspended_runs_are_told_by_code() -> None:
    """One finding for each code, however many runs it has."""
    many = [make_run(id=f"A-{n}", status=RunStatus.SUSPENDED, waiting_on="POISONED") for n in range(5)]
    one = make_run(id="B", status=RunStatus.SUSPENDED, waiting_on="DEADLOCK")
    assert [found.text for found in judge([*many, one], make_worker())] == [
        "1 on DEADLOCK: B",
        "5 on POISONED: A-0, A-1, A-2 and 2 more",
    ]


def test_runs_that_wait_for_an_answer_are_no_fault() -> None:
    """A gate or an approval is open: a note says where to look, and nothing is wrong."""
    runs = [
        make_run(id="A", status=RunStatus.SUSPENDED, waiting_on="approval ship it?"),
        make_run(id="B", status=RunStatus.SUSPENDED, waiting_on="gate stock is low"),
    ]
    (found,) = judge(runs, make_worker())
    assert (found.level, found.check) == (Level.NOTE, "waits")
    assert "outlast waits" in found.todo


def test_workers_that_died_are_wrong_only_if_nobody_takes_over() -> None:
    """A lapsed lease is taken over within seconds; one that lapsed long ago needs a worker to be started."""
    fresh, old = make_worker(expires_at=NOW - SECOND), make_worker(expires_at=NOW - 60 * SECOND)
    assert [found.level for found in judge_workers([make_worker(), fresh], NOW)] == [Level.OK]
    assert [found.level for found in judge_workers([old], NOW)] == [Level.NOTE, Level.WRONG]


def test_workers_that_drain_are_told_and_when_no_other_is_left() -> None:
    """They are alive, and work nothing new: where all of them drain, nobody would."""
    leaving = make_worker(id="w2", drain_asked_at=NOW - SECOND)
    (found,) = judge_workers([make_worker(), leaving], NOW)
    assert found.text.startswith("2 alive, 1 of them drain: ")
    assert [found.level for found in judge_workers([leaving], NOW)] == [Level.OK, Level.NOTE]


@pytest.mark.process
def test_doctor_works_while_workers_do(shop: Path) -> None:
    """It looks on: a worker in another process is listed as alive, and by its process."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "outlast", "worker", "shop.py"],
        cwd=shop,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert worker.stdout is not None
        assert worker.stdout.readline().startswith("ready: ")
        done = outlast(shop, "doctor", *STORE, "--json")
        assert done.code == 0, done.out
        assert find(done, "workers")["text"].startswith("1 alive: ")
        assert str(worker.pid) in find(done, "processes")["text"]
        (listed,) = call("workers", *STORE, "--json").document
        assert (listed["pid"], listed["is_alive"]) == (worker.pid, True)
        assert str(worker.pid) in call("workers", *STORE).out
    finally:
        worker.terminate()
        worker.communicate()


def test_queued_steps_that_nobody_takes_are_found() -> None:
    """What waits for long in a queue is said with what is missing: workers, their queue, or their code."""
    workers = [make_worker(), make_worker(id="w2", queues=("gpu",))]
    rows = [
        QueueRow("default", None, 7, NOW - 60 * SECOND, 1),
        QueueRow("gpu", "charge", 3, NOW - SECOND, 1),
        QueueRow("gpu", "embed", 2, NOW - 60 * SECOND, 0),
        QueueRow("mail", "charge", 1, NOW - 60 * SECOND, 0),
    ]
    embed, charge = judge_queues(rows, workers, NOW)
    assert (embed.level, charge.level) == (Level.WRONG, Level.WRONG)
    assert "2 steps embed wait for up to 1m" in embed.text
    assert "No live worker of queue gpu knows embed" in embed.todo
    assert "--queue mail" in charge.todo
    assert "Start a worker" in next(judge_queues(rows[2:], [], NOW)).todo
