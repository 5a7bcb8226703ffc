"""What a durable step costs when nothing else goes on, beside a durable commit of the same bytes.

One run, one step after another: from the begin of one step to the begin of the next, which is the step, the thinking
and the commit. In turns with it, the same store commits the very rows of that run, one by one, for a worker of its own;
the target on SQLite is 1.8 of those to a step. On PostgreSQL the same driver commits them too, as plain rows of a plain
table (`benchmarks/raw.py`): the target is 1.6 of those.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING

import msgspec

from benchmarks.children import Parent, Plan, say
from benchmarks.figures import Report, Table, percentile, ratio, spread
from benchmarks.machine import list_loops
from benchmarks.places import describe_store, new_store
from benchmarks.storage import RowWriter
from benchmarks.throughput import run_loop
from outlast import Context, Outlast
from outlast.cli.collector import collect_seldom
from outlast.engine.ids import new_uid

if TYPE_CHECKING:
    from benchmarks.raw import RawRows

__all__ = ["measure"]

STEPS = 250
ROUNDS = 20
MOST = 1.8
"""Commits to a step: the target on SQLite."""
MOST_RAW = 1.6
"""Raw commits to a step: the target on PostgreSQL."""


class Round(msgspec.Struct):
    """Seconds of each step and each commit."""

    steps: list[float]
    commits: list[float]
    raw: list[float] = []


def measure(plan: Plan, _parent: Parent) -> Report:
    """On both event loops."""
    collect_seldom()  # as `outlast worker` does
    steps, rounds = (10, 2) if plan.quick else (STEPS, ROUNDS)
    settings = {
        "workload": f"{rounds} rounds in turns: a run of {steps} steps, then as many commits of one row",
        "store": describe_store(plan),
    }
    report = Report("alone", settings, {}, [])
    rows = []
    for loop in list_loops(quick=plan.quick and bool(plan.postgres)):
        say(f"on {loop}")
        with new_store(plan) as url:
            rows += _tell(report, loop, run_loop(loop, _measure(url, steps, rounds)))
    columns = ["loop and percentile", "a step, µs", "a commit, µs", "commits to a step"]
    if plan.postgres:
        columns += ["a raw commit, µs", "raw commits to a step"]
    notes = [
        "Percentiles of each round; the cells are their medians over the rounds. p99 has no target: it is the disk's."
    ]
    report.tables.append(Table("One run alone", [*columns, "target"], rows, notes))
    return report


async def _measure(url: str, steps: int, rounds: int) -> list[Round]:
    app = Outlast(url)
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

    taken: list[Round] = []
    async with app.worker() as worker:
        store = worker.engine.store
        writer = await RowWriter.register(store)
        raw = await _open_raw(url)
        for number in range(rounds + 1):
            begun.clear()
            run = await app.start(body, steps + 1)
            await run.result()
            latencies = [after - before for before, after in itertools.pairwise(begun)]
            entries = await store.read_journal(run.uid, after=0, limit=steps)
            uid = new_uid(await store.now())
            each = Round(latencies, await writer.time_commits(uid, entries))
            if raw is not None:
                each.raw = await raw.time_commits(uid, entries)
            if number:  # the first warms up
                taken.append(each)
            await asyncio.sleep(0)
        if raw is not None:
            await raw.close()
    return taken


async def _open_raw(url: str) -> RawRows | None:
    """None: the store is no PostgreSQL."""
    if url.startswith("sqlite:"):
        return None
    from benchmarks.raw import RawRows  # its driver is an extra

    return await RawRows.open(url)


def _tell(report: Report, loop: str, rounds: list[Round]) -> list[list[str]]:
    rows = []
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        is_promised = name == "p50"
        steps = [1e6 * percentile(each.steps, share) for each in rounds]
        commits = [1e6 * percentile(each.commits, share) for each in rounds]
        raw = [1e6 * percentile(each.raw, share) for each in rounds if each.raw]
        figures = {
            "step": spread(steps, "µs"),
            "commit": spread(commits, "µs"),
            "ratio": ratio(steps, commits, target=MOST if is_promised and not raw else None),
        }
        if raw:
            figures["raw"] = spread(raw, "µs")
            figures["raw_ratio"] = ratio(steps, raw, target=MOST_RAW if is_promised else None)
        report.figures.update({f"{loop}/{name}/{key}": figure for key, figure in figures.items()})
        verdict = next((figure.verdict for figure in figures.values() if figure.verdict), "")
        rows.append([f"{loop} {name}", *map(str, figures.values()), verdict])
    return rows
