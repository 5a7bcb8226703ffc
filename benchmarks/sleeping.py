"""What 100,000 sleeping runs cost the workers: no memory, and no statements (SPEC W7, Q5).

One worker starts them and lets them go, as a worker would in a day's work. It starts some more before them, since what
was hot at once leaves its mark in a process's memory, however little it holds: what it keeps beyond that is measured.
Then two workers idle side by side, one on that store and one on an empty one: every statement they send to it is
counted, and what they have in memory compared. Targets: 50 MB for the first; two statements a second for the idle ones,
on SQLite `PRAGMA data_version` and the brackets of a transaction apart.
"""

from __future__ import annotations

import asyncio
import collections
import gc
import sqlite3
import time
from importlib import resources
from typing import Any

import msgspec

from benchmarks.children import Child, Parent, Plan, call, say
from benchmarks.figures import Figure, Report, Table, spread
from benchmarks.machine import resident_bytes, wait_until
from benchmarks.places import describe_store, new_store
from outlast import Context, Outlast
from outlast.engine.hotruns import HotRuns
from outlast.stores.sqlite.statements import load_statements

__all__ = ["idle", "measure", "put_to_sleep"]

RUNS = 100_000
WARM = 5
"""A fifth as many are started before."""
BATCH = 500
IDLE_S = 25.0
"""Longer than the rarest of what a worker does now and then."""
BEFORE_S = 3.0
"""How long they have been there when it begins to count. No longer than what follows."""
MOST_MB = 50.0
MOST_STATEMENTS = 2.0
MB = 1_000_000
FREE = "data_version"
BRACKETS = ("begin immediate", "commit")
"""Not counted, nor is `FREE`. On PostgreSQL all is: each is a round trip."""


class Order(msgspec.Struct, frozen=True):
    """To a child."""

    url: str
    runs: int = 0
    seconds: float = 0.0


class Asleep(msgspec.Struct, frozen=True):
    """From who put them to sleep. Bytes."""

    fresh: int
    before: int
    """With the first ones parked: what those that were hot at once have left."""
    after: int
    hot_before: int
    """Runs in memory at once, at most, while the first ones were started."""
    hot: int
    seconds: float
    """Until the last of them was parked."""


class Idled(msgspec.Struct, frozen=True):
    """From an idle worker."""

    memory: int
    """Bytes."""
    statements: dict[str, int]
    seconds: float
    cpu_seconds: float


def measure(plan: Plan, _parent: Parent) -> Report:
    """Many sleepers, then idle workers with and without them."""
    runs, seconds = (200, 1.0) if plan.quick else (RUNS, IDLE_S)
    with new_store(plan) as full, new_store(plan) as empty:
        say(f"{runs:,} runs go to sleep")
        asleep = call(put_to_sleep, Order(full, runs=runs), Asleep, limit_s=600)
        say(f"two workers idle for {seconds:g} s")
        idled = _idle_together(full, empty, runs, seconds)
    report = Report(
        "sleeping",
        {
            "runs": f"{runs // WARM:,}, then {runs:,}, each asleep for a day",
            "idle for": f"{seconds:g} s",
            "store": describe_store(plan),
        },
        {},
        [],
    )
    _tell_memory(report, asleep, idled)
    _tell_statements(report, idled, () if plan.postgres else (*BRACKETS, FREE))
    return report


def _idle_together(full: str, empty: str, runs: int, seconds: float) -> dict[str, Idled]:
    with (
        Child(idle, Order(full, seconds=seconds), limit_s=120) as one,
        Child(idle, Order(empty, seconds=seconds), limit_s=120) as other,
    ):
        return {f"with {runs:,} sleeping runs": one.hear(Idled), "with none": other.hear(Idled)}


def put_to_sleep(order: Order, _parent: Parent) -> Asleep:
    """Start runs that sleep, in batches, in a worker as it is by default; wait until all are parked."""
    return asyncio.run(_put_to_sleep(order))


def idle(order: Order, _parent: Parent) -> Idled:
    """A worker with nothing to do."""
    return asyncio.run(_idle(order))


def _make(url: str) -> tuple[Outlast, Any]:
    app = Outlast(url)

    @app.workflow(name="sleeper")
    async def sleeper(ctx: Context) -> None:
        await ctx.sleep("1d")

    return app, sleeper


# --- in the children --------------------------------------------------------------------------------------------------


async def _put_to_sleep(order: Order) -> Asleep:
    app, sleeper = _make(order.url)
    async with app.worker() as worker:
        assert worker.home is not None
        await _start(app, sleeper, worker.home, BATCH)
        fresh = _resident()
        hot_before = await _start(app, sleeper, worker.home, order.runs // WARM)
        before, began = _resident(), time.perf_counter()
        hot = await _start(app, sleeper, worker.home, order.runs)
        return Asleep(fresh, before, _resident(), hot_before, hot, time.perf_counter() - began)


async def _start(app: Outlast, sleeper: Any, home: HotRuns, runs: int) -> int:
    """So many, and wait until all are parked; how many were hot at once, at most."""
    most = 0
    for first in range(0, runs, BATCH):
        await asyncio.gather(*(app.start(sleeper) for _ in range(min(BATCH, runs - first))))
        most = max(most, len(home))
    await wait_until(lambda: not len(home) and not home.is_moving)
    return most


def _resident() -> int:
    gc.collect()
    return resident_bytes()


async def _idle(order: Order) -> Idled:
    counted = _count_asked() if order.url.startswith("postgresql:") else _count_statements()
    app, _ = _make(order.url)
    async with app.worker():
        await asyncio.sleep(min(BEFORE_S, order.seconds))
        gc.collect()
        counted.clear()
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(order.seconds)
        statements, seconds = dict(counted), time.perf_counter() - began
        return Idled(resident_bytes(), statements, seconds, time.process_time() - cpu)


def _count_statements() -> collections.Counter[str]:
    """Of every connection that this process makes from now on, by their names in `sql/*.sql`."""
    beginnings = _read_beginnings()
    counted: collections.Counter[str] = collections.Counter()
    connect = sqlite3.connect

    def note(sql: str) -> None:
        if not sql.startswith("--"):  # a trigger's part of a statement
            counted[_name_statement(sql, beginnings)] += 1

    def connect_watched(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = connect(*arguments, **options)
        connection.set_trace_callback(note)
        return connection

    name = "connect"
    setattr(sqlite3, name, connect_watched)
    return counted


def _count_asked() -> collections.Counter[str]:
    """Of every connection to PostgreSQL: each is a round trip. By their names in `sql/*.sql`."""
    from outlast.stores.postgres.link import Link  # its driver is an extra
    from outlast.stores.postgres.statements import Statement

    counted: collections.Counter[str] = collections.Counter()
    ask, text_of = Link._ask, Link._text_of  # noqa: SLF001 - all that is sent goes through the one, by the other's texts
    names: dict[str, str] = {}

    def name_text(link: Link, statement: Statement) -> str:
        text = text_of(link, statement)
        names[text] = statement.name
        return text

    async def count(link: Link, call: Any, *arguments: Any) -> Any:
        text = str(arguments[0])
        counted[names.get(text) or " ".join(text.split()[:2])] += 1
        return await ask(link, call, *arguments)

    setattr(Link, "_ask", count)  # noqa: B010 - pyright keeps methods from being replaced, as it should
    setattr(Link, "_text_of", name_text)  # noqa: B010
    return counted


def _read_beginnings() -> dict[str, str]:
    """What each statement begins with, up to its first parameter, and its name; the longest first."""
    folder = resources.files("outlast.stores.sqlite").joinpath("sql")
    files = sorted(file.name.removesuffix(".sql") for file in folder.iterdir() if file.name.endswith(".sql"))
    beginnings = {
        statement.sql.partition("?")[0].partition(":")[0]: name
        for file in files
        for name, statement in load_statements(file).items()
    }
    return dict(sorted(beginnings.items(), key=lambda item: -len(item[0])))


def _name_statement(sql: str, beginnings: dict[str, str]) -> str:
    for beginning, name in beginnings.items():
        if sql.startswith(beginning):
            return name
    return " ".join(sql.split()[:2]).removeprefix("pragma ")


# --- what came of it --------------------------------------------------------------------------------------------------


def _tell_memory(report: Report, asleep: Asleep, idled: dict[str, Idled]) -> None:
    first, second = idled.values()
    figures: dict[str, Figure] = {
        "before": spread([(asleep.before - asleep.fresh) / MB], "MB"),
        "hot_before": spread([asleep.hot_before], "runs"),
        "growth": spread([(asleep.after - asleep.before) / MB], "MB", target=MOST_MB),
        "hot": spread([asleep.hot], "runs"),
        "seconds": spread([asleep.seconds], "s"),
        "newcomer": spread([(first.memory - second.memory) / MB], "MB", target=MOST_MB),
    }
    report.figures.update(figures)
    names = {
        "before": "the worker that started them, the first ones parked: growth",
        "hot_before": "of those, hot at once, at most",
        "growth": "the same, all parked: growth beyond that",
        "hot": "of those, hot at once, at most",
        "seconds": "until all were parked",
        "newcomer": "a worker that comes to them, beyond one that comes to none",
    }
    rows = [[text, str(figures[key]), figures[key].unit, figures[key].verdict] for key, text in names.items()]
    report.tables.append(Table("Memory of sleeping runs", ["what", "", "unit", "target"], rows))


def _tell_statements(report: Report, idled: dict[str, Idled], uncounted: tuple[str, ...]) -> None:
    names = sorted({name for each in idled.values() for name in each.statements} - {*uncounted})
    rows = [[name, *_per_second(idled, [name])] for name in [*names, *uncounted]]
    figures = {}
    for who, each in idled.items():
        figures[who] = spread(
            [sum(each.statements.get(name, 0) for name in names) / each.seconds], "statements/s", target=MOST_STATEMENTS
        )
        report.figures[f"statements {who}"] = figures[who]
        report.figures[f"cpu {who}"] = spread([3600 * each.cpu_seconds / each.seconds], "CPU s/h")
    without = f", without the last {len(uncounted)}" if uncounted else ""
    rows.append([f"in all{without}", *map(str, figures.values())])
    rows.append(["target", *(figure.verdict for figure in figures.values())])
    rows.append(["CPU, seconds an hour", *(f"{3600 * each.cpu_seconds / each.seconds:.0f}" for each in idled.values())])
    notes = (
        [f"{' and '.join(BRACKETS)} are the brackets around what writes; {FREE} reads no page."] if uncounted else []
    )
    report.tables.append(Table("An idle worker's statements a second", ["statement", *idled], rows, notes))


def _per_second(idled: dict[str, Idled], names: list[str]) -> list[str]:
    return [f"{sum(each.statements.get(name, 0) for name in names) / each.seconds:.2f}" for each in idled.values()]
