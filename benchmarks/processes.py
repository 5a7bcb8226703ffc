"""Processes that work on one store: steps a second in sum, and nothing lost.

Four on one SQLite file; two on PostgreSQL, which works beside them: on two cores they are to do more in sum than one.
Each process starts runs and works them, and every tenth run it starts is due a moment later, for whoever claims it
first. Before and after, one process alone does the same, so that the sum has something to be compared with. Afterwards
every run that was started must have completed, and nobody may have had an error or a warning: that is a failure,
whatever the machine does. How quick it was is not.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from contextlib import ExitStack

import msgspec

from benchmarks.children import Child, Parent, Plan, say
from benchmarks.figures import Report, Table, spread
from benchmarks.places import describe_store, new_store
from outlast import Context, Outlast
from outlast.core.states import RunStatus
from outlast.stores.open import open_store
from outlast.stores.store import RunQuery

__all__ = ["measure", "work"]

STEPS = 10
CONCURRENCY = 64
PROCESSES = {"sqlite": 4, "postgres": 2}
SECONDS = 60.0
ALONE_S = 10.0
QUICK_S = 2.0
QUICK_ALONE_S = 0.5


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
    many = PROCESSES["postgres" if plan.postgres else "sqlite"]
    settings = {
        "workload": f"runs of {STEPS} steps, {CONCURRENCY} at once in each process, all on one store",
        "for": f"{seconds:g} s with {many} processes, {alone_s:g} s with one before and after",
        "store": describe_store(plan),
    }
    report = Report("processes", settings, {}, [])
    rows = []
    for name, processes, duration in (("before", 1, alone_s), ("together", many, seconds), ("after", 1, alone_s)):
        say(f"{processes} at work for {duration:g} s")
        with new_store(plan) as url:
            worked = _work_together(url, processes, duration)
            rows.append(_tell(report, url, name, worked))
    alone = (report.figures["before/steps"].median + report.figures["after/steps"].median) / 2
    target = 1.0 if plan.postgres else None
    to_alone = spread([report.figures["together/steps"].median / alone], "×", target=target, is_floor=True)
    report.figures["to_alone"] = to_alone
    columns = [
        "processes",
        "steps/s in sum",
        "least to most of one",
        "slowest run, s",
        "runs",
        "lost",
        "errors, warnings",
    ]
    verdict = f" ({to_alone.verdict})" if to_alone.verdict else ""
    notes = [f"In sum they do {to_alone} times what one does alone{verdict}."]
    report.tables.append(Table("Processes on one store", columns, rows, notes))
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


def _tell(report: Report, url: str, name: str, worked: list[Worked]) -> list[str]:
    each = [process.runs * STEPS / process.seconds for process in worked]
    runs, problems = sum(process.runs for process in worked), [text for process in worked for text in process.problems]
    completed, others = asyncio.run(_count_runs(url))
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


async def _count_runs(url: str) -> tuple[int, int]:
    """In the store: those that completed, and all others."""
    completed = others = 0
    store = open_store(url)
    await store.open()
    query = RunQuery(limit=1000)
    while page := await store.list_runs(query):
        is_completed = [row.status is RunStatus.COMPLETED for row in page]
        completed += sum(is_completed)
        others += len(page) - sum(is_completed)
        query = msgspec.structs.replace(query, after=(page[-1].created_at, page[-1].uid))
    await store.close()
    return completed, others


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
