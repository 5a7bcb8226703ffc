"""How many durable steps a second one process does, beside what its store alone takes of the very same rows.

Each round measures, one after another: the engine; the journal rows it wrote, committed again by the store alone; the
same commits with all they did (starts and ends of runs); and the least any engine must do: on SQLite a small one
(`floor`), on PostgreSQL the rows alone, by the same driver into a plain table (`raw`). What always holds: a share is of
a round's own yardstick, on the same kind of event loop, in batches as large as the engine's were.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from benchmarks.children import Parent, Plan, say
from benchmarks.figures import Figure, Rate, Report, Table, ratio, spread
from benchmarks.floor import measure_floor
from benchmarks.machine import list_loops
from benchmarks.places import describe_store, new_store
from benchmarks.storage import Batch, recorded, write_rows, write_same
from outlast.cli.bench import RunFigures, measure_runs
from outlast.cli.collector import collect_seldom

__all__ = ["measure", "run_loop"]

STEPS = 10
ROWS = STEPS + 1
"""Entries of one run: the start carries the first step's start, the last step's outcome the end."""
RUNS = {1: 150, 16: 600, 64: 1200, 256: 2000, 1000: 3000}
"""By how many are under way at once: enough that beginning and end do not count."""
QUICK_RUNS = {16: 32}
ROUNDS = {"sqlite": 5, "memory": 3, "postgres": 5}
NAMES = {"sqlite": "SQLite", "memory": "the memory store", "postgres": "PostgreSQL"}
LEAST_AT_256 = 12_000.0
"""Steps a second of one process on PostgreSQL: the target (issue 3)."""
COLUMNS = {
    "steps": "steps/s",
    "cpu": "CPU µs/step",
    "batch": "rows a commit",
    "rows": "store alone, rows/s",
    "share": "share %",
    "share_of_same": "of same commits %",
    "to_floor": "× floor",
    "cpu_to_floor": "× floor, CPU",
    "raw": "raw, rows/s",
    "share_of_raw": "of raw %",
}

T = TypeVar("T")


class Case(msgspec.Struct, frozen=True):
    """What is measured in turns with the other loop."""

    store: str
    loop: str
    concurrency: int
    runs: int

    def new_store(self, plan: Plan) -> AbstractContextManager[str]:
        """Its URL."""
        return nullcontext("memory://") if self.store == "memory" else new_store(plan)

    def work(self, url: str) -> Coroutine[Any, Any, RunFigures]:
        """The engine's part."""
        return measure_runs(url, steps=STEPS, runs=self.runs, concurrency=self.concurrency, keep=True)


class Samples(msgspec.Struct):
    """Of one store, loop and concurrency. Each list has one sample for each round."""

    steps: list[Rate] = []
    commits: list[int] = []
    """How many the engine made."""
    rows: list[Rate] = []
    same: list[Rate] = []
    floor: list[Rate] = []
    raw: list[Rate] = []


def measure(plan: Plan, _parent: Parent) -> Report:
    """Each store, at each concurrency, on asyncio's own loop and on uvloop."""
    collect_seldom()  # as `outlast worker` does
    wanted = QUICK_RUNS if plan.quick else RUNS
    loops = list_loops(quick=plan.quick and bool(plan.postgres))  # on SQLite both are quick enough
    report = Report("throughput", _settings(plan, wanted), {}, [])
    for store in ("postgres",) if plan.postgres else ("sqlite", "memory"):
        rows = []
        for concurrency, runs in wanted.items():
            say(f"{store}, {concurrency} runs at once")
            cases = [Case(store, loop, concurrency, runs) for loop in loops]
            samples = [Samples() for _ in cases]
            tapes = [_record(plan, case) for case in cases]
            for _ in range(1 if plan.quick else ROUNDS[store]):
                for case, tape, each in zip(cases, tapes, samples, strict=True):
                    _measure_round(plan, case, tape, each)
            rows += [_tell(report, case, each) for case, each in zip(cases, samples, strict=True)]
        report.tables.append(_table(store, rows))
    return report


def run_loop(loop: str, work: Coroutine[Any, Any, T]) -> T:
    """Run it on a loop of this kind, from a heap without garbage."""
    factory = None
    if loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    gc.collect()
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


def _settings(plan: Plan, wanted: dict[int, int]) -> dict[str, str]:
    return {
        "workflow": f"{STEPS} async steps that do nothing, one after another",
        "store": f"{describe_store(plan)}; one process",
        "runs": ", ".join(f"{runs} at {concurrency}" for concurrency, runs in wanted.items()),
    }


# --- a round ----------------------------------------------------------------------------------------------------------


def _record(plan: Plan, case: Case) -> list[Batch]:
    """What the engine gives its store; in a pass of its own, since keeping it all would cost the pass that is timed."""
    with case.new_store(plan) as url:
        with recorded(url, keeps=True) as tape:
            run_loop(case.loop, case.work(url))
        return tape.last_batches(case.runs * ROWS)


def _measure_round(plan: Plan, case: Case, batches: list[Batch], samples: Samples) -> None:
    with case.new_store(plan) as url, recorded(url) as tape:
        did = run_loop(case.loop, case.work(url))
    cpu_us = tape.last_cpu_seconds(case.runs * ROWS) * 1e6 / (case.runs * STEPS)
    samples.steps.append(Rate(did.steps_per_second, cpu_us))
    samples.commits.append(tape.last_commits(case.runs * ROWS))
    with case.new_store(plan) as url:
        samples.rows.append(run_loop(case.loop, write_rows(url, batches)))
    with case.new_store(plan) as url:
        samples.same.append(run_loop(case.loop, write_same(url, batches)))
    if case.store == "sqlite":
        with case.new_store(plan) as url:
            path = Path(url.removeprefix("sqlite:///"))
            floor = measure_floor(path, steps=STEPS, runs=case.runs, concurrency=case.concurrency)
            samples.floor.append(run_loop(case.loop, floor))
    if case.store == "postgres":
        with case.new_store(plan) as url:
            samples.raw.append(run_loop(case.loop, _write_raw(url, batches)))


async def _write_raw(url: str, batches: list[Batch]) -> Rate:
    from benchmarks.raw import RawRows  # its driver is an extra

    raw = await RawRows.open(url)
    try:
        return await raw.write(batches)
    finally:
        await raw.close()


# --- what came of it --------------------------------------------------------------------------------------------------


def _tell(report: Report, case: Case, samples: Samples) -> list[str]:
    """The figures into the report; gives the row of the table."""
    steps, cpu = _split(samples.steps)
    rows, rows_cpu = _split(samples.rows)
    same, _ = _split(samples.same)
    written = [rate * ROWS / STEPS for rate in steps]
    figures: dict[str, Figure] = {
        "steps": spread(steps, "steps/s", target=_target(case), is_floor=True),
        "cpu": spread(cpu, "µs/step"),
        "batch": spread([case.runs * ROWS / commits for commits in samples.commits], "rows"),
        "rows": spread(rows, "rows/s"),
        "share": ratio(written, rows, "%"),
        "rows_cpu": spread(rows_cpu, "µs/row"),
        "same": spread(same, "rows/s"),
        "share_of_same": ratio(written, same, "%"),
    }
    if samples.floor:
        floor, floor_cpu = _split(samples.floor)
        figures["floor"] = spread(floor, "steps/s")
        figures["to_floor"] = ratio(steps, floor)
        figures["cpu_to_floor"] = ratio(cpu, floor_cpu)
    if samples.raw:
        raw, _ = _split(samples.raw)
        figures["raw"] = spread(raw, "rows/s")
        figures["share_of_raw"] = ratio(written, raw, "%")
    name = f"{case.store}/{case.loop}/{case.concurrency}"
    report.figures.update({f"{name}/{key}": figure for key, figure in figures.items()})
    shown = [figures[key] for key in COLUMNS if key in figures]
    return [f"{case.concurrency} {case.loop}", *map(str, shown), figures["steps"].verdict]


def _target(case: Case) -> float | None:
    return LEAST_AT_256 if case.store == "postgres" and case.concurrency == 256 else None


def _split(rates: list[Rate]) -> tuple[list[float], list[float]]:
    return [rate.per_second for rate in rates], [rate.cpu_us for rate in rates]


def _table(store: str, rows: list[list[str]]) -> Table:
    notes = [
        f"A run of {STEPS} steps is {ROWS} rows; shares compare rows with rows.",
        "Store alone: the engine's own journal rows in batches of its sizes, by the same statement and thread.",
        "Of same commits: of those with the starts and ends of runs that they did besides.",
    ]
    if store == "sqlite":
        notes.append("Floor: the least any engine of this design must do (`benchmarks/floor.py`).")
    if store == "postgres":
        notes.append("Raw: the same rows in the same batches, by asyncpg into a plain table (`benchmarks/raw.py`).")
        notes.append("CPU is that of the worker's process; the server works beside it.")
    of_floor, of_raw = {"to_floor", "cpu_to_floor"}, {"raw", "share_of_raw"}
    absent = {"sqlite": of_raw, "postgres": of_floor, "memory": of_raw | of_floor}[store]
    shown = [title for key, title in COLUMNS.items() if key not in absent]
    return Table(f"Throughput on {NAMES[store]}", ["runs at once", *shown, "target"], rows, notes)
