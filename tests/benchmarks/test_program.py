"""`make bench`, quickly: every subject runs to its end and says all it should. How quick it was is not looked at."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.table import Figures
from tests.conftest import ROOT
from tests.postgres_schemas import server_url

SUBJECTS = (
    "throughput", "alone", "replay", "growth", "fanout", "footprint", "sleeping", "pickup", "processes", "recovery",
    "finished", "mirrors", "layers", "http",
    "throughput-postgres", "alone-postgres", "sleeping-postgres", "pickup-postgres", "processes-postgres",
    "recovery-postgres", "finished-postgres", "http-postgres",
)  # fmt: skip
TOLD_BY_ANOTHER = {"recovery", "finished", "http"}  # they are on PostgreSQL what they are on SQLite


def bench(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "benchmarks" / "run.py", *arguments]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, cwd=ROOT)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("subject", [name for name in SUBJECTS if name not in TOLD_BY_ANOTHER])
def test_every_subject_runs(subject: str, tmp_path: Path) -> None:
    """It prints tables whose cells are filled, keeps figures that are numbers, and leaves no file behind."""
    # SPEC W7, Q3 and Q5 are measured by `sleeping` and `pickup`, in `make bench`
    folder, kept = tmp_path / "files", tmp_path / "figures.json"
    folder.mkdir()
    where = ["--postgres", server_url()] if subject.endswith("-postgres") else []
    done = bench(subject, "--quick", "--json", kept, "--folder", folder, *where)
    assert done.returncode == 0, done.stdout + done.stderr
    figures = msgspec.json.decode(kept.read_bytes(), type=Figures)
    (report,) = figures.reports
    assert report.subject == subject
    assert report.problems == []
    assert report.figures
    for name, figure in report.figures.items():
        assert figure.samples > 0, name
        assert figure.low <= figure.median <= figure.high, name
        assert math.isfinite(figure.median), name
    assert report.tables
    for table in report.tables:
        assert table.rows, table.title
        assert {len(row) for row in table.rows} == {len(table.columns)}, table.title
        assert table.title in done.stdout
    assert str(figures.machine) in done.stdout
    assert list(folder.iterdir()) == []


@pytest.mark.process
def test_a_subject_that_is_not_there_is_an_error() -> None:
    """The message names those that are; nothing is measured."""
    done = bench("througput")
    assert done.returncode == 2
    assert "no such subject: througput" in done.stderr
    assert all(subject in done.stderr for subject in SUBJECTS)
