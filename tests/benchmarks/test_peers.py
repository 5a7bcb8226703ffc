"""`make bench-peers`, quickly, with outlast alone: peers are installed where they are measured, and nowhere else."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from packaging.requirements import Requirement

from benchmarks.table import Figures
from tests.conftest import ROOT
from tests.postgres_schemas import server_url


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_outlast_takes_its_part(tmp_path: Path) -> None:
    """Every case has a figure, and the settings say which version ran, and how."""
    kept = tmp_path / "figures.json"
    command = [ROOT / "benchmarks" / "peers" / "run.py", "--quick", "--only", "outlast", "--on", "postgres"]
    command += ["--json", kept, "--postgres", server_url()]
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    [report] = msgspec.json.decode(kept.read_bytes(), type=Figures).reports
    assert {name.split("/")[1] for name in report.figures} == {
        "sequence", "a run of many steps", "queued steps", "pick-up", "asleep",
    }  # fmt: skip
    assert all(math.isfinite(figure.median) for figure in report.figures.values())
    assert any(name.startswith("outlast ") for name in report.settings)
    assert all(table.title in done.stdout for table in report.tables)


def test_the_lock_of_the_peers_pins_what_they_ask_for() -> None:
    """Each is at the version that the figures name, and everything is hashed."""
    wanted = (ROOT / "requirements" / "peers.in").read_text(encoding="utf-8").splitlines()
    lock = (ROOT / "requirements" / "peers.lock").read_text(encoding="utf-8")
    for line in (line for line in wanted if not line.startswith("#")):
        requirement = Requirement(line.partition(" #")[0])
        assert f"{requirement.name}{requirement.specifier} " in lock
    assert "://" not in lock
    entries = [entry for entry in lock.split("\n") if "==" in entry]
    assert len(entries) == lock.count("==")
    assert lock.count("--hash=sha256:") >= len(entries)
