"""`outlast worker --processes`: several workers that one process looks after."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import PROMPT_S, begin, call, finish

pytestmark = pytest.mark.process

STORE = "sqlite:///shop.db"


class Watched:
    """A process that prints JSON."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[dict[str, Any]] = []

    def until(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """Read until so many of these were said; gives them."""
        assert self.process.stdout is not None
        while len(found := [line for line in self.said if line.get("event") == event]) < count:
            line = self.process.stdout.readline()
            assert line, f"it ended after {self.said}"
            self.said.append(json.loads(line))
        return found


@pytest.fixture
def watched(shop: Path) -> Iterator[Watched]:
    """Two workers of the shop."""
    process = begin(shop, "worker", "shop.py", "--processes", "2", "--json", "--queue", "default", "--queue", "gpu")
    yield Watched(process)
    if process.poll() is None:
        process.kill()
    process.communicate()


def wait_until(holds: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PROMPT_S
    while not holds():
        assert time.monotonic() < until, f"in vain: {what}"
        time.sleep(0.02)


def is_frozen(pid: int) -> bool:
    """In all its threads: one that still goes takes a signal."""
    stats = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def count_pending(pid: int) -> int:
    """Of the signals that wait for this process, those that ask it to stop."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = int(status.partition("ShdPnd:")[2].split()[0], 16)
    return sum(pending >> (number - 1) & 1 for number in (signal.SIGINT, signal.SIGTERM))


def test_a_process_that_dies_is_started_anew(shop: Path, watched: Watched) -> None:
    """Each is a worker of its own; one is killed, another takes its place, and all drain when the first one is told to
    stop."""
    # SPEC Q4, L9
    ready = watched.until("ready", 2)
    pids = {line["pid"] for line in ready}
    assert len(pids) == len({line["worker"] for line in ready}) == 2
    assert {tuple(line["queues"]) for line in ready} == {("default", "gpu")}
    victim = ready[0]["pid"]
    os.kill(victim, signal.SIGKILL)
    (restarting,) = watched.until("restarting")
    assert restarting["code"] == -signal.SIGKILL
    third = watched.until("ready", 3)[-1]
    assert third["pid"] not in pids
    assert call("run", "shop.py:send", "--id", "S", "--store", STORE, "--timeout", "20").code == 0
    watched.process.send_signal(signal.SIGTERM)
    watched.until("drained", 2)
    assert finish(watched.process).code == 0
    left = [worker["pid"] for worker in call("workers", "--json", "--store", STORE).document]
    assert set(left) <= {victim}, "those that drained are gone; the lease of the one that was killed may last"


def test_children_end_with_the_process_that_looks_after_them(watched: Watched) -> None:
    """Killed outright, it passes no signal on: they notice, hand back what they hold, and end."""
    pids = [line["pid"] for line in watched.until("ready", 2)]
    watched.process.kill()
    for pid in pids:
        wait_until(lambda pid=pid: not Path(f"/proc/{pid}").exists(), f"the end of {pid}")
    assert call("workers", "--json", "--store", STORE).document == []


def test_a_second_signal_does_not_wait(shop: Path, watched: Watched) -> None:
    """It is passed on as well: steps under way are given up, and it exits as interrupted."""
    watched.until("ready", 2)
    begun = begin(shop, "run", "shop.py:patient", "--id", "P", "--input", '"door"', "--timeout", "0.2")
    assert finish(begun).code == 4
    wait_until((shop / "door.begun").exists, "the step")
    watched.process.send_signal(signal.SIGINT)
    watched.until("draining", 1)
    watched.process.send_signal(signal.SIGINT)
    assert finish(watched.process).code == 130


def test_both_signals_arrive_at_a_child_that_hears_of_them_at_once(shop: Path, watched: Watched) -> None:
    """Of two signals alike that wait for a process the system keeps one: what a child that could not run meanwhile was
    told is still that it is not to wait."""
    pids = [line["pid"] for line in watched.until("ready", 2)]
    begun = begin(shop, "run", "shop.py:patient", "--id", "P", "--input", '"door"', "--timeout", "0.2")
    assert finish(begun).code == 4
    wait_until((shop / "door.begun").exists, "the step")
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            wait_until(lambda pid=pid: is_frozen(pid), f"{pid} to freeze")
        for count in (1, 2):
            watched.process.send_signal(signal.SIGINT)
            for pid in pids:
                wait_until(lambda pid=pid, count=count: count_pending(pid) == count, f"signal {count} to {pid}")
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
    assert finish(watched.process).code == 130


def test_what_no_process_can_work_is_said_once_and_ends_all(shop: Path) -> None:
    """A module that is not there is no reason to start processes for ever."""
    process = begin(shop, "worker", "nowhere.py", "--processes", "2")
    done = finish(process)
    assert done.code == 2
    assert "nowhere" in done.err
