"""Four processes that work on one SQLite file: steps a second in sum, and nothing lost.

Each process starts runs and works them, and every tenth run it starts is due a moment later, for whoever claims it
first. Before and after, one process alone does the same, so that the sum has something to be compared with. Afterwards
every run that was started must have completed, and nobody may have had an error or a warning: that is a failure,
whatever the machine does. How quick it was is not.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import sqlite3
import time
from contextlib import ExitStack, closing
from pathlib import Path

import msgspec

from benchmarks.children import Child, Parent, Plan, say
from benchmarks.figures import Report, Table, spread
from outlast import Context, Outlast

__all__ = ["measure", "work"]

STEPS = 10
CONCURRENCY = 64
PROCESSES = 4
SECONDS = 60.0
ALONE_S = 10.0
QUICK_S = 10.0
QUICK_ALONE_S = 1.0


class Order(msgspec.Struct, frozen=True):
    """To each process."""

    url: str
    seconds: float


class Worked(msgspec.Struct, frozen=True):
    """From each process."""

    runs: int
    """That it started, and whose result it had."""
    seconds: float
    """Until the last of them."""
    slowest: float
    """Seconds of the slowest run, from its start to its result."""
    problems: list[str]
    """What was raised, and what was logged as a warning or worse."""


def measure(plan: Plan, _parent: Parent) -> Report:
    """One alone, four, one alone."""
    seconds, alone_s = (QUICK_S, QUICK_ALONE_S) if plan.quick else (SECONDS, ALONE_S)
    settings = {
        "workload": f"runs of {STEPS} steps, {CONCURRENCY} at once in each process, on one SQLite file",
        "for": f"{seconds:g} s with {PROCESSES} processes, {alone_s:g} s with one before and after",
    }
    report = Report("processes", settings, {}, [])
    rows = []
    for name, processes, duration in (("before", 1, alone_s), ("together", PROCESSES, seconds), ("after", 1, alone_s)):
        say(f"{processes} at work for {duration:g} s")
        path = Path(plan.folder) / f"{name}.db"
        worked = _work_together(f"sqlite:///{path}", processes, duration)
        rows.append(_tell(report, path, name, worked))
    alone = (report.figures["before/steps"].median + report.figures["after/steps"].median) / 2
    to_alone = report.figures["to_alone"] = spread([report.figures["together/steps"].median / alone], "×")
    columns = [
        "processes",
        "steps/s in sum",
        "least to most of one",
        "slowest run, s",
        "runs",
        "lost",
        "errors, warnings",
    ]
    notes = [f"In sum they do {to_alone} times what one does alone."]
    report.tables.append(Table("Processes on one file", columns, rows, notes))
    return report


def _work_together(url: str, processes: int, seconds: float) -> list[Worked]:
    """Start them all, then let them begin at one moment."""
    with ExitStack() as stack:
        limit_s = 2 * seconds + 60
        children = [stack.enter_context(Child(work, Order(url, seconds), limit_s=limit_s)) for _ in range(processes)]
        for child in children:
            child.hear(bool)
        for child in children:
            child.go_on()
        return [child.hear(Worked) for child in children]


def _tell(report: Report, path: Path, name: str, worked: list[Worked]) -> list[str]:
    each = [process.runs * STEPS / process.seconds for process in worked]
    runs, problems = sum(process.runs for process in worked), [text for process in worked for text in process.problems]
    completed, others = _count_runs(path)
    lost = runs - completed + others
    report.figures[f"{name}/steps"] = spread([sum(each)], "steps/s")
    report.figures[f"{name}/each"] = spread(each, "steps/s")
    report.figures[f"{name}/runs"] = spread([runs], "runs")
    report.figures[f"{name}/lost"] = spread([lost], "runs")
    if lost:
        report.problems.append(f"{name}: of {runs} runs, {completed} completed and {others} others are in the store")
    report.problems += [f"{name}: {text}" for text in problems[:10]]
    slowest = max(process.slowest for process in worked)
    return [
        f"{len(worked)} ({name})", f"{sum(each):,.0f}", f"{min(each):,.0f}–{max(each):,.0f}", f"{slowest:.2f}",
        f"{runs:,}", str(lost), str(len(problems)),
    ]  # fmt: skip


def _count_runs(path: Path) -> tuple[int, int]:
    """In the store: those that completed, and all others."""
    with closing(sqlite3.connect(path)) as connection:
        counts = dict(connection.execute("select status, count(*) from runs group by status").fetchall())
    completed = counts.pop("completed", 0)
    return completed, sum(counts.values())


# --- in the children --------------------------------------------------------------------------------------------------


class _Problems(logging.Handler):
    """What outlast found worth a warning."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(f"{record.levelname.lower()}: {record.getMessage()}")


def work(order: Order, parent: Parent) -> Worked:
    """Start runs and work them until the time is up, then wait for the last."""
    return asyncio.run(_work(order, parent))


async def _work(order: Order, parent: Parent) -> Worked:
    problems = _Problems()
    logging.getLogger("outlast").addHandler(problems)
    app, numbers = Outlast(order.url), itertools.count()
    taken: list[float] = []

    @app.step(name="step")
    async def step(number: int) -> int:
        return number

    @app.workflow(name="body")
    async def body(_: Context) -> int:
        for number in range(STEPS):
            await step(number)
        return STEPS

    async def start_and_wait(until: float) -> None:
        while (began := time.perf_counter()) < until:
            delay = "10ms" if next(numbers) % 10 == 0 else None
            run = await app.start(body, delay=delay)
            if await run.result(timeout="60s") != STEPS:
                problems.texts.append(f"run {run.id} has another result")
            taken.append(time.perf_counter() - began)

    async with app.worker():
        parent.tell(True)
        await asyncio.to_thread(parent.wait)
        began = time.perf_counter()
        loops = [start_and_wait(began + order.seconds) for _ in range(CONCURRENCY)]
        for outcome in await asyncio.gather(*loops, return_exceptions=True):
            if isinstance(outcome, BaseException):
                problems.texts.append(f"{type(outcome).__name__}: {outcome}")
        seconds = time.perf_counter() - began
    return Worked(len(taken), seconds, max(taken, default=0.0), problems.texts)
