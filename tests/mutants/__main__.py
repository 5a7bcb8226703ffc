"""Put deliberate faults into a copy of the source, one at a time, and see what catches each: `make mutate`.

The simulation of the engine looks first, then the tests that the fault names. The report says what caught which, and
the exit status is 1 when something was caught by nothing, or does not apply any more.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.mutants.mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
FAILED = re.compile(r"^FAILED (\S+)", re.MULTILINE)
FOUND = re.compile(r"^seed '([^']+)': (.*)", re.MULTILINE)
LONGEST = 110


class DoesNotApply(Exception):
    """What a mutant changes is not there, or not once."""


def apply(mutant: Mutant, source: Path) -> None:
    """Put the fault into this copy of `src`."""
    path = source / "outlast" / mutant.path
    text = path.read_text(encoding="utf-8")
    for before, after in mutant.changes:
        if text.count(before) != 1:
            raise DoesNotApply(f"{mutant.path} has {text.count(before)} times, and not once:\n{before}")
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")


def hunt(mutant: Mutant, schedules: int, seconds: float) -> str | None:
    """What caught it; None: nothing did."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        apply(mutant, source)
        environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "PYTHONDONTWRITEBYTECODE": "1"}
        caught = None
        if mutant.is_simulated:
            walks = [
                "--schedules",
                str(schedules),
                "--seconds",
                str(seconds),
                "--seed",
                "mutants",
                "--most-failures",
                "1",
            ]
            output = _run([sys.executable, "-m", "tests.simulation.engine", *walks], environment)
            if (found := FOUND.search(output)) is not None:
                caught = f"simulation, seed {found[1]}: {found[2][:LONGEST]}"
            elif " schedules, " not in output:
                raise DoesNotApply(f"the simulation does not run with it:\n{output[-2000:]}")
        if caught is None and mutant.tests:
            pytest = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not soak and not process"]
            options = ["-o", f"pythonpath={source} {ROOT}"]
            output = _run([sys.executable, *pytest, *options, *mutant.tests], environment)
            if (failed := FAILED.search(output)) is not None:
                caught = failed[1]
        return caught


def _run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(prog="make mutate", description="Deliberate faults, and what catches them.")
    parser.add_argument("--schedules", type=int, default=2000, help="of the simulation, at most (default: 2,000)")
    parser.add_argument("--seconds", type=float, default=120, help="of the simulation, at most (default: 120)")
    parser.add_argument("--only", default="", help="those with this word in their names")
    options = parser.parse_args()
    bad = 0
    for number, mutant in enumerate(MUTANTS, 1):
        if options.only not in mutant.name:
            continue
        began = time.monotonic()
        try:
            caught = hunt(mutant, options.schedules, options.seconds)
        except DoesNotApply as error:
            caught, bad = f"DOES NOT APPLY ANY MORE: {error}", bad + 1
        if caught is None:
            caught, bad = "CAUGHT BY NOTHING", bad + 1
        print(f"{number:2}. {mutant.name}\n    {caught}   ({time.monotonic() - began:.0f} s)", flush=True)
    print(f"{bad} of them are not caught, or do not apply" if bad else "all are caught")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
