"""What a run costs in memory while it is hot, by what it waits for.

Each kind in a fresh process: some runs to warm up, then thousands of runs that wait, and the growth of what the
process has in memory, after a garbage collection, divided by their number. It counts everything: body, loop, tasks, the
attempts that execute, what the allocator keeps.
"""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.children import Parent, Plan, call, say
from benchmarks.figures import Report, Table, spread
from benchmarks.machine import resident_bytes, wait_until
from outlast import Context, Outlast
from outlast.authoring.workflow import Workflow
from outlast.engine.worker import Worker

__all__ = ["measure", "measure_kind"]

RUNS = 2000
WARM = 100
ROUNDS = 2
KINDS = {
    "step": "waits for a step, which executes",
    "line": "waits for a step, which stands in line for a place",
    "group": "waits in a TaskGroup for five steps, which execute",
}


class Order(msgspec.Struct, frozen=True):
    """To the child."""

    url: str
    kind: str
    runs: int


def measure(plan: Plan, _parent: Parent) -> Report:
    """Each kind, a few times."""
    runs, rounds = (60, 1) if plan.quick else (RUNS, ROUNDS)
    report = Report("footprint", {"runs": f"{runs:,} of each kind, {rounds} times, on SQLite"}, {}, [])
    rows = []
    for kind, text in KINDS.items():
        say(f"a run that {text}")
        taken = []
        for number in range(rounds):
            url = f"sqlite:///{Path(plan.folder) / f'{kind}-{number}.db'}"
            taken.append(call(measure_kind, Order(url, kind, runs), float) / 1024)
        report.figures[kind] = spread(taken, "KiB")
        rows.append([f"a run that {text}", str(report.figures[kind])])
    report.tables.append(Table("Memory of a hot run", ["what it does", "KiB a run"], rows))
    return report


def measure_kind(order: Order, _parent: Parent) -> float:
    """Bytes a run. In a process of its own."""
    return asyncio.run(_measure(order))


async def _measure(order: Order) -> float:
    go = asyncio.Event()
    app, body = _make(order, go)
    places = 1 if order.kind == "line" else 5 * (order.runs + WARM)
    async with app.worker(concurrency=places, max_hot=2 * (order.runs + WARM)) as worker:
        await _start(app, body, WARM)
        await _end_all(worker, go)
        before = await _settle()
        await _start(app, body, order.runs)
        after = await _settle()
        await _end_all(worker, go)
    return (after - before) / order.runs


def _make(order: Order, go: asyncio.Event) -> tuple[Outlast, Workflow[[], None]]:
    app = Outlast(order.url)

    @app.step(name="wait")
    async def wait(_: int) -> None:
        await go.wait()

    @app.workflow(name="one")
    async def one(_: Context) -> None:
        await wait(0)

    @app.workflow(name="five")
    async def five(_: Context) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(wait(number))

    return app, five if order.kind == "group" else one


async def _start(app: Outlast, body: Workflow[[], Any], count: int) -> None:
    for first in range(0, count, 250):
        await asyncio.gather(*(app.start(body) for _ in range(min(250, count - first))))


async def _settle() -> int:
    """Bytes, when all that was asked for has begun."""
    await asyncio.sleep(0.5)
    gc.collect()
    return resident_bytes()


async def _end_all(worker: Worker, go: asyncio.Event) -> None:
    go.set()
    await wait_until(lambda: not worker.home)
    go.clear()
