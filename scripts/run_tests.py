"""What `make test`, `test-fast` and `soak` do: pytest in one or more passes, and one clear answer at the end.

    python scripts/run_tests.py all|fast|soak [pytest's own arguments]

Tests that spawn processes are marked `process` and run after all others, file by file, and more of them at a time: they
wait more than they compute, for processes to start and leases to lapse. Tests that work runs to their end run once more
in dev mode, where no run stays in memory: each stimulus is a replay, and a body that leaves its journal shows itself.
All passes use one PostgreSQL server (tests/postgres_server.py). The last lines add the passes up, and name what ran:
a store backend that has code but ran no test is a failure in CI, since a suite that skips one says nothing about it.
"""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.postgres_server import find_server  # noqa: E402 - the tests are no package that is installed

STORES = ROOT / "src" / "outlast" / "stores"
BACKENDS = ("memory", "sqlite", "postgres")
NO_TESTS_COLLECTED = 5  # pytest's exit status; a pass may be empty when ARGS select tests of the other


class Pass(NamedTuple):
    """One call of pytest."""

    name: str
    markers: str
    """Its marker expression."""
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = {}
    paths: tuple[str, ...] = ()
    """What it is for, where that is not everything; it is left out when ARGS say what is to run."""
    marked: str = ""
    """It is for the files alone that speak of this marker, so that nobody collects all others for it. tests/conftest.py
    sees to it that they do."""


SIDE_BY_SIDE = ("-n", "2", "--dist", "worksteal")
FILE_BY_FILE = ("-n", "3", "--dist", "loadfile")
QUICK = "not slow and not process and not soak"
ALWAYS_REPLAYED = ("app", "children", "graphs", "run", "engine/test_commits.py", "engine/test_left_alone.py")
PASSES = {
    "all": [
        Pass("side by side", "not process and not soak", SIDE_BY_SIDE),
        Pass(
            "with a replay for each stimulus",
            QUICK,
            SIDE_BY_SIDE,
            environment={"OUTLAST_DEV": "1"},
            paths=tuple(f"tests/{path}" for path in ALWAYS_REPLAYED),
        ),
        Pass("file by file", "process and not soak", FILE_BY_FILE, marked="process"),
    ],
    "fast": [Pass("side by side", QUICK, SIDE_BY_SIDE)],
    "soak": [Pass("soak", "soak", ("-s",))],
}


@dataclass
class Tally:
    """What the passes so far came to."""

    outcomes: Counter[str] = field(default_factory=Counter)
    backends: Counter[str] = field(default_factory=Counter)
    bad_exits: list[str] = field(default_factory=list)

    def add(self, report: Path) -> None:
        """Count one JUnit file. A test of a backend carries its name in its parameters, test_x[sqlite-…], or is one
        of its contract's: TestSqlite."""
        for case in ET.parse(report).iter("testcase"):
            bad = case.find("failure") is not None or case.find("error") is not None
            outcome = "failed" if bad else "skipped" if case.find("skipped") is not None else "passed"
            self.outcomes[outcome] += 1
            words = re.split(r"\W+", case.get("name", "").partition("[")[2])
            words.append(case.get("classname", "").rpartition(".Test")[2].lower())
            if outcome == "passed":
                self.backends.update(backend for backend in BACKENDS if backend in words)


def print_versions() -> None:
    """On what the tests run, so that a log of CI explains itself."""
    others = sorted(path.parent.parent.name.removeprefix(".venv-") for path in ROOT.glob(".venv-3.*/bin/python"))
    server = find_server()  # the passes are told of it in their environment
    postgres = server.how if server is not None else "is not here, and there is nothing to start it from"
    print(f"python   {platform.python_version()}, compared with {', '.join(others) or 'no other'}")
    print(f"msgspec  {version('msgspec')}   pytest {version('pytest')}   hypothesis {version('hypothesis')}")
    print(f"sqlite   {sqlite3.sqlite_version}   postgresql {postgres}")
    print(f"machine  {platform.system()} {platform.machine()}, {os.cpu_count()} cores", flush=True)


def run_passes(kind: str, arguments: list[str]) -> Tally:
    """Run all passes, also when one failed: one answer is worth more than half of one."""
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        for number, each in enumerate(PASSES[kind]):
            if each.paths and arguments:
                continue
            report = Path(folder) / f"{number}.xml"
            print(f"\n--- {each.name}: {each.markers}", flush=True)
            pytest = [sys.executable, "-m", "pytest", "-q", "-m", each.markers, f"--junitxml={report}"]
            paths = arguments or (list_marked(each.marked) if each.marked else each.paths)
            status = subprocess.run(
                [*pytest, *each.options, *paths],
                cwd=ROOT,
                env=os.environ | each.environment,
                stdin=subprocess.DEVNULL,
                check=False,
            ).returncode
            if report.exists():
                tally.add(report)
            if status not in {0, NO_TESTS_COLLECTED}:
                tally.bad_exits.append(f"{each.name} (pytest exit {status})")
    return tally


def list_marked(marker: str) -> list[str]:
    """The test files that speak of it."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(path.relative_to(ROOT)) for path in files if f"mark.{marker}" in path.read_text(encoding="utf-8")]


def find_untested(tally: Tally) -> list[str]:
    """Backends that have code here, and of which no test passed."""
    present = [name for name in BACKENDS if (STORES / name).is_dir() or (STORES / f"{name}.py").is_file()]
    return [name for name in present if not tally.backends[name]]


def main(kind: str, arguments: list[str]) -> int:
    """0 only if tests ran, none failed, and in CI every backend was among them."""
    began = time.monotonic()
    print_versions()
    tally = run_passes(kind, arguments)
    counts = tally.outcomes
    problems = [f"failed pass: {name}" for name in tally.bad_exits]
    if not counts["passed"]:
        problems.append("no test passed")
    if kind == "all" and not arguments and (untested := find_untested(tally)):
        note = f"no test ran on: {', '.join(untested)}"
        if os.environ.get("CI"):
            problems.append(note)
        else:
            print(f"\nnote: {note}; CI would fail")
    ran = ", ".join(f"{name} {tally.backends[name]}" for name in BACKENDS if tally.backends[name]) or "none"
    print(f"\nstores: {ran}")
    for problem in problems:
        print(f"FAILED: {problem}")
    print(f"time: {time.monotonic() - began:.0f} s")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if problems or counts["failed"] else 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in PASSES:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(PASSES)} [pytest arguments]")
    sys.exit(main(sys.argv[1], sys.argv[2:]))
