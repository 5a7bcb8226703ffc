"""How soon a run that was started has begun its first step: in the process that started it, and in another one.

One run at a time, on a worker that has nothing else to do. In turns with the first, commits of one row each say what
the disk alone would take. Targets: well under 5 ms in the same process, under 50 ms in another (SPEC Q3); on PostgreSQL
under 15 ms in another, and under 100 ms for 99 of 100 (issue 3).
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import msgspec

from benchmarks.children import Child, Parent, Plan, say
from benchmarks.figures import Report, Table, percentile, spread
from benchmarks.places import describe_store, new_store
from benchmarks.storage import RowWriter
from outlast import Context, Outlast
from outlast.engine.ids import new_uid

__all__ = ["measure", "work"]

RUNS = 250
WARM = 2
"""Runs that do not count."""
BLOCK = 25
"""Runs after which it is the commits' turn."""
MOST_HERE_MS = 5.0
MOST_THERE_MS = {"sqlite": (50.0, None), "postgres": (15.0, 100.0)}
"""Of half of them, and of 99 in 100."""


class Order(msgspec.Struct, frozen=True):
    """To the worker in the other process."""

    url: str


def measure(plan: Plan, _parent: Parent) -> Report:
    """Here, and there."""
    runs = 5 if plan.quick else RUNS
    say("in the same process")
    with new_store(plan) as url:
        here, commits = asyncio.run(_measure_here(url, runs))
    say("in another process")
    with new_store(plan) as url, Child(work, Order(url), limit_s=180) as child:
        child.hear(bool)
        there, known = asyncio.run(_measure_there(url, runs))
        child.go_on()
        child.hear(bool)
    settings = {"workload": f"{runs} runs, one at a time", "store": describe_store(plan)}
    report = Report("pickup", settings, {}, [])
    samples = {
        "a commit of one row": (commits, (None, None)),
        "start to first step, same process": (here, (MOST_HERE_MS, None)),
        "start to first step, another process": (there, MOST_THERE_MS["postgres" if plan.postgres else "sqlite"]),
        "start to result known here, worked there": (known, (None, None)),
    }
    rows = []
    for what, (taken, (target, target_99)) in samples.items():
        p50 = spread([1000 * percentile(taken, 0.5)], "ms", target=target)
        p99 = spread([1000 * percentile(taken, 0.99)], "ms", target=target_99)
        most = spread([1000 * max(taken)], "ms")
        report.figures.update({f"{what}/p50": p50, f"{what}/p99": p99, f"{what}/most": most})
        rows.append([what, str(p50), str(p99), str(most), p50.verdict, p99.verdict])
    columns = ["what", "p50, ms", "p99, ms", "most, ms", "target, p50", "target, p99"]
    report.tables.append(Table("Pick-up", columns, rows))
    return report


def work(order: Order, parent: Parent) -> bool:
    """The other process: a worker until it is told to stop."""
    return asyncio.run(_work(order, parent))


async def _work(order: Order, parent: Parent) -> bool:
    app, _ = _make(order.url)
    async with app.worker():
        parent.tell(True)
        await asyncio.to_thread(parent.wait)
    return True


def _make(url: str) -> tuple[Outlast, Any]:
    app = Outlast(url)

    @app.step(name="look")
    async def look() -> int:
        return time.monotonic_ns()  # one clock for all processes of a machine

    @app.workflow(name="body")
    async def body(_: Context) -> int:
        return await look()

    return app, body


async def _measure_here(url: str, runs: int) -> tuple[list[float], list[float]]:
    app, body = _make(url)
    taken: list[float] = []
    commits: list[float] = []
    async with app.worker() as worker:
        store = worker.engine.store
        writer = await RowWriter.register(store)
        for number in range(0, runs + WARM, BLOCK):
            block = min(BLOCK, runs + WARM - number)
            for _ in range(block):
                began = time.monotonic_ns()
                run = await app.start(body)
                taken.append((await run.result() - began) / 1e9)
                await asyncio.sleep(0.002)
            entries = await store.read_journal(run.uid, after=0)  # at least the step's outcome
            for _ in range(block):
                commits += await writer.time_commits(new_uid(await store.now()), entries[:1])
                await asyncio.sleep(0.002)
    return taken[WARM:], commits


async def _measure_there(url: str, runs: int) -> tuple[list[float], list[float]]:
    """Seconds until the first step began there, and until its result was known here."""
    app, body = _make(url)
    taken: list[float] = []
    known: list[float] = []
    async with app:
        for _ in range(runs + WARM):
            await asyncio.sleep(random.uniform(0.02, 0.08))  # at no fixed distance from what the worker does in turns
            began = time.monotonic_ns()
            run = await app.start(body)
            stepped = await run.result()
            known.append((time.monotonic_ns() - began) / 1e9)
            taken.append((stepped - began) / 1e9)
    return taken[WARM:], known[WARM:]
