"""What a durable step costs when nothing else goes on, beside a durable commit of the same bytes.

One run, one step after another: from the begin of one step to the begin of the next, which is the step, the thinking
and the commit. In turns with it, the same store's writer thread commits the very rows of that run, one by one, for a
worker of its own. The target is 1.8 commits to a step.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path

from benchmarks.children import Parent, Plan, say
from benchmarks.figures import Report, Table, percentile, ratio, spread
from benchmarks.machine import has_uvloop
from benchmarks.storage import RowWriter
from benchmarks.throughput import run_loop
from outlast import Context, Outlast
from outlast.cli.collector import collect_seldom
from outlast.engine.ids import new_uid

__all__ = ["measure"]

STEPS = 250
ROUNDS = 20
MOST = 1.8
"""Commits to a step: the target."""

Rounds = list[tuple[list[float], list[float]]]
"""Seconds of each step, and of each commit, in each round."""


def measure(plan: Plan, _parent: Parent) -> Report:
    """On both event loops."""
    collect_seldom()  # as `outlast worker` does
    steps, rounds = (10, 2) if plan.quick else (STEPS, ROUNDS)
    settings = {"workload": f"{rounds} rounds in turns: a run of {steps} steps, then as many commits of one row"}
    report = Report("alone", settings, {}, [])
    rows = []
    for loop in ["asyncio", "uvloop"] if has_uvloop() else ["asyncio"]:
        say(f"on {loop}")
        rows += _tell(report, loop, run_loop(loop, _measure(Path(plan.folder) / f"{loop}.db", steps, rounds)))
    columns = ["loop and percentile", "a step, µs", "a commit, µs", "commits to a step", "target"]
    notes = [
        "Percentiles of each round; the cells are their medians over the rounds. p99 has no target: it is the disk's."
    ]
    report.tables.append(Table("One run alone", columns, rows, notes))
    return report


async def _measure(path: Path, steps: int, rounds: int) -> Rounds:
    app = Outlast(f"sqlite:///{path}")
    begun: list[float] = []

    @app.step(name="step")
    async def step(number: int) -> int:
        begun.append(time.perf_counter())
        return number

    @app.workflow(name="body")
    async def body(_: Context, steps: int) -> int:
        for number in range(steps):
            await step(number)
        return steps

    taken: Rounds = []
    async with app.worker() as worker:
        store = worker.engine.store
        writer = await RowWriter.register(store)
        for number in range(rounds + 1):
            begun.clear()
            run = await app.start(body, steps + 1)
            await run.result()
            latencies = [after - before for before, after in itertools.pairwise(begun)]
            entries = await store.read_journal(run.uid, after=0, limit=steps)
            commits = await writer.time_commits(new_uid(await store.now()), entries)
            if number:  # the first warms up
                taken.append((latencies, commits))
            await asyncio.sleep(0)
    return taken


def _tell(report: Report, loop: str, rounds: Rounds) -> list[list[str]]:
    rows = []
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        steps = [1e6 * percentile(steps, share) for steps, _ in rounds]
        commits = [1e6 * percentile(commits, share) for _, commits in rounds]
        figures = {
            "step": spread(steps, "µs"),
            "commit": spread(commits, "µs"),
            "ratio": ratio(steps, commits, target=MOST if name == "p50" else None),
        }
        report.figures.update({f"{loop}/{name}/{key}": figure for key, figure in figures.items()})
        rows.append([f"{loop} {name}", *map(str, figures.values()), figures["ratio"].verdict])
    return rows
