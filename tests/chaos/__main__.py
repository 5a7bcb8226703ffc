"""`make chaos`: a storm of many minutes, and a report of it in Markdown. Exits 1 if anything was wrong.

python -m tests.chaos [--minutes 10] [--seed N] [--report FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.report import write_report
from tests.chaos.storm import Plan, run_storm
from tests.crash.world import Nursery
from tests.postgres_server import OwnServer, find_binaries


def main() -> int:
    """The exit status. What a storm that went wrong left behind is kept, and named."""
    options = _parse()
    plan = Plan(options.seed, options.minutes * 60, options.workers, options.lease, options.rate)
    print(f"seed {plan.seed}: {plan.seconds:g} s of faults for {plan.workers} workers", flush=True)
    binaries = find_binaries()
    if binaries is None:
        sys.exit("PostgreSQL is not installed here: there is no initdb to make a server with")
    for name in ("asyncio", "outlast"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # the driver's connections break, as they should
    folder = Path(tempfile.mkdtemp(prefix="outlast-chaos-"))
    nursery = Nursery()  # before there is an event loop or a thread: it forks
    server = OwnServer(binaries)
    try:
        server.start()
        verdict = asyncio.run(run_storm(plan, folder, nursery, server))
    finally:
        server.remove()
        nursery.close()
    report = write_report(verdict)
    print(report)
    if options.report is not None:
        options.report.write_text(report, encoding="utf-8")
    if verdict.problems or verdict.is_late:
        print(f"what it left is in {folder}: log, ledger, told, deaths, records")
        return 1
    shutil.rmtree(folder)
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description="Kill, freeze and cut off workers on PostgreSQL.")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--workers", type=int, default=5)
    parser.add_argument("--lease", type=float, default=3.0, help="of the workers, in seconds")
    parser.add_argument("--rate", type=float, default=3.0, help="runs started in a second")
    parser.add_argument("--report", type=Path, help="a file for the report")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
