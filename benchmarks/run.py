"""`make bench`: what outlast does on this machine, each figure beside the yardstick it is to be read with.

    python benchmarks/run.py [SUBJECT …] [--quick] [--json FILE] [--folder FOLDER]
    make bench ARGS="throughput alone"
    make bench ARGS="--json figures.json" && python benchmarks/table.py figures.json    # into docs/figures.md

All of it takes about half an hour on a machine that does nothing else; `--help` says what the subjects are. Each runs
in a fresh process. Those on PostgreSQL are skipped where none answers; one that was asked for by name then failed. The
exit status is 0 unless something was *wrong*: a run that was lost, an error. A figure that misses its target says so,
and is no failure: it may be the machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:1] = [str(ROOT), str(ROOT / "src")]

import msgspec  # noqa: E402

from benchmarks import (  # noqa: E402
    alone,
    fanout,
    finished,
    footprint,
    growth,
    kinds,
    layers,
    mirrors,
    pickup,
    processes,
    recovery,
    replay,
    serving,
    sleeping,
    throughput,
)
from benchmarks.children import ChildFailed, Parent, Plan, call  # noqa: E402
from benchmarks.figures import Report  # noqa: E402
from benchmarks.machine import describe_machine  # noqa: E402
from benchmarks.places import VARIABLE, drop_stores, find_postgres  # noqa: E402
from benchmarks.table import Figures, draw  # noqa: E402

SUBJECTS: dict[str, Callable[[Plan, Parent], Report]] = {
    "throughput": throughput.measure,
    "alone": alone.measure,
    "kinds": kinds.measure,
    "replay": replay.measure,
    "growth": growth.measure,
    "fanout": fanout.measure,
    "footprint": footprint.measure,
    "sleeping": sleeping.measure,
    "pickup": pickup.measure,
    "processes": processes.measure,
    "recovery": recovery.measure,
    "finished": finished.measure,
    "mirrors": mirrors.measure,
    "layers": layers.measure,
    "http": serving.measure,
}
ON_POSTGRES = ("throughput", "alone", "kinds", "sleeping", "pickup", "processes", "recovery", "finished", "http")
"""What is measured on PostgreSQL too: as a subject of its own, with this behind its name."""
SUFFIX = "-postgres"
SUBJECTS |= {f"{name}{SUFFIX}": SUBJECTS[name] for name in ON_POSTGRES}
LIMIT_S = 1800.0
"""For one subject."""


def main() -> int:
    """Measure, print, keep."""
    options = _parse()
    folder = Path(options.folder or tempfile.gettempdir()).absolute()
    postgres = options.postgres or find_postgres()
    taken = Figures(
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        command=" ".join(["python benchmarks/run.py", *options.subjects, *(["--quick"] if options.quick else [])]),
        is_quick=options.quick,
        machine=describe_machine(folder),
        reports=[],
    )
    print(f"machine  {taken.machine}\nload     {_load_text()}\ncommand  {taken.command}\n", flush=True)
    failed = False
    for subject in options.subjects or SUBJECTS:
        if subject.endswith(SUFFIX) and postgres is None:
            print(
                f"SKIPPED  {subject}: no PostgreSQL answers here; say where, by --postgres or {VARIABLE}\n", flush=True
            )
            failed = failed or bool(options.subjects)
            continue
        report = _measure(subject, folder, (postgres or "") if subject.endswith(SUFFIX) else "", quick=options.quick)
        failed = failed or report is None or bool(report.problems)
        if report is not None:
            taken.reports.append(report)
            print(draw(report), flush=True)
    if options.json:
        Path(options.json).write_bytes(msgspec.json.format(msgspec.json.encode(taken), indent=1) + b"\n")
    return 1 if failed else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="What outlast does on this machine, beside what it could.",
        epilog="\n".join(["subjects:", *(f"  {name:19} {_first_line(measure)}" for name, measure in SUBJECTS.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help="which of those below; default: all")
    parser.add_argument("--quick", action="store_true", help="a smoke test of this program; its figures mean nothing")
    parser.add_argument("--json", metavar="FILE", help="keep the figures; benchmarks/table.py makes Markdown of them")
    parser.add_argument("--postgres", metavar="URL", help="a database for it; default: one that answers here")
    parser.add_argument("--folder", help="where the files go, and so on which disk; default: the temporary one")
    options = parser.parse_args()
    unknown = [name for name in options.subjects if name not in SUBJECTS]
    if unknown:
        parser.error(f"no such subject: {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    return options


def _first_line(measure: Callable[[Plan, Parent], Report]) -> str:
    """Of its module's docstring."""
    return (sys.modules[measure.__module__].__doc__ or "").partition("\n")[0]


def _measure(subject: str, folder: Path, postgres: str, *, quick: bool) -> Report | None:
    """None: it failed, and has said so."""
    print(f"{subject}:", file=sys.stderr, flush=True)
    load = os.getloadavg()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="outlast-bench-", dir=folder) as name:
        plan = Plan(name, quick, postgres)
        try:
            report = call(SUBJECTS[subject], plan, Report, limit_s=LIMIT_S)
        except ChildFailed as error:
            print(f"FAILED   {subject}: {error}\n", flush=True)
            return None
        finally:
            drop_stores(plan)
    report.subject = subject
    report.load, report.seconds = load, time.monotonic() - began
    return report


def _load_text() -> str:
    one, five, fifteen = os.getloadavg()
    return f"{one:.1f} {five:.1f} {fifteen:.1f} over 1, 5 and 15 minutes, before"


if __name__ == "__main__":
    sys.exit(main())
