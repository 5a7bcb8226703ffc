"""The public face as type checkers see it: `good.py` passes, and each marked mistake of `bad.py` is found."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
CHECKED = ("good.py", "bad.py")

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(300)]

Found = dict[str, dict[int, str]]
"""Messages by file and line."""


def run(*command: str, cwd: Path, **environment: str) -> str:
    """Standard output; a checker that found something ends with status 1, one that could not run with more."""
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, 1}, done.stdout + done.stderr
    return done.stdout


def run_mypy(folder: Path) -> Found:
    """Strict, with nothing of this project's own settings."""
    options = ("--strict", "--config-file=", "--follow-imports=silent", "--output=json", f"--cache-dir={folder}")
    files = [str(HERE / name) for name in CHECKED]
    found: Found = {name: {} for name in CHECKED}
    for line in run("mypy", *options, *files, cwd=HERE, MYPYPATH=str(SOURCE)).splitlines():
        if line.startswith("{"):
            report = json.loads(line)
            if report["severity"] == "error":
                found[Path(report["file"]).name][report["line"]] = report["message"]
    return found


def run_pyright(folder: Path) -> Found:
    """Strict, with a configuration of its own."""
    config: dict[str, Any] = {
        "include": [os.path.relpath(HERE / name, folder) for name in CHECKED],
        "extraPaths": [str(SOURCE)],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    reports = json.loads(
        run("pyright", "--project", str(folder), "--pythonpath", sys.executable, "--outputjson", cwd=folder)
    )
    assert reports["summary"]["filesAnalyzed"] == len(CHECKED)
    found: Found = {name: {} for name in CHECKED}
    for report in reports["generalDiagnostics"]:
        if report["severity"] == "error":
            found[Path(report["file"]).name][report["range"]["start"]["line"] + 1] = report["message"]
    return found


@pytest.fixture(scope="module", params=[run_mypy, run_pyright], ids=["mypy", "pyright"])
def found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Found:
    return request.param(tmp_path_factory.mktemp("types"))


def test_a_program_that_is_right_has_no_error(found: Found) -> None:
    """Steps, workflows, the context and the app have the types an author expects, under both checkers."""
    assert found["good.py"] == {}


def test_each_mistake_is_found(found: Found) -> None:
    """A wrong argument, a missing await, a misspelt option: each is reported, in its own line, and nothing else is."""
    lines = (HERE / "bad.py").read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, start=1) if "  # E" in line}
    assert len(marked) >= 35
    missed = [lines[number - 1].strip() for number in sorted(marked - found["bad.py"].keys())]
    more = [f"{lines[number - 1].strip()}: {text}" for number, text in found["bad.py"].items() if number not in marked]
    assert (missed, more) == ([], [])


def test_what_the_checkers_accept_python_accepts() -> None:
    """Every declaration of the right program is taken at run time as well."""
    names = runpy.run_path(str(HERE / "good.py"))
    assert names["app"].find_workflow("fulfil") is names["fulfil"]
    assert names["app"].find_step("billing:x") is names["three"]
