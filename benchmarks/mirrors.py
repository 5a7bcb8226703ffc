"""What mirrors take from the runs beside them: throughput with one that hangs, fails, or writes, and with none.

The same load on a new SQLite file each time, in turns; first and last without a mirror, which says what the noise is. A
mirror that hangs blocks its thread for good and takes nothing; one that fails raises at once, and is tried again and
again; both soon have a full buffer, so that entries are dropped. Neither may cost the runs anything.
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.children import Parent, Plan, say
from benchmarks.figures import Rate, Report, Table, ratio, spread
from outlast import Context, JsonLinesMirror, Outlast, SqlMirror
from outlast.cli.collector import collect_seldom
from outlast.mirrors import Mirror
from outlast.telemetry.observer import Landed

__all__ = ["measure"]

STEPS = 10
RUNS = 2000
CONCURRENCY = 256
ROUNDS = 5
LEAST = 0.95
"""Of the throughput without a mirror, for those that do no work."""

CASES = {
    "none": "none",
    "hangs": "one that hangs",
    "fails": "one that fails",
    "lines": "`JsonLinesMirror`",
    "sql": "`SqlMirror`, SQLite",
    "again": "none, again",
}
IDLE = ("hangs", "fails")
"""Those that must cost nothing. A mirror that writes shares the interpreter with the runs, and has no target."""


class Hanging:
    """Its first write does not come back before the gate is opened."""

    name = "hanging"

    def __init__(self) -> None:
        self.gate = threading.Event()

    async def write(self, batch: Sequence[Landed]) -> None:  # noqa: ARG002 - it keeps nothing
        """Hang, and hold the thread too."""
        self.gate.wait()


class Failing:
    """No write succeeds."""

    name = "failing"

    async def write(self, batch: Sequence[Landed]) -> None:  # noqa: ARG002 - it keeps nothing
        """Fail."""
        raise ConnectionError("nobody answers")


class Samples:
    """Of one case, one for each round."""

    def __init__(self) -> None:
        self.rates: list[Rate] = []
        self.dropped: list[float] = []


def measure(plan: Plan, _parent: Parent) -> Report:
    """All cases in turns, round by round."""
    collect_seldom()  # as `outlast worker` does
    runs, rounds = (40, 1) if plan.quick else (RUNS, ROUNDS)
    samples = {case: Samples() for case in CASES}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for case in CASES:
            with tempfile.TemporaryDirectory(dir=plan.folder) as folder:
                rate, dropped = asyncio.run(_measure(case, Path(folder), runs))
            samples[case].rates.append(rate)
            samples[case].dropped.append(dropped)
    load = f"{runs} runs of {STEPS} async steps that do nothing, {CONCURRENCY} at once"
    settings = {
        "workload": f"{load}; {rounds} rounds in turns",
        "store": "SQLite, WAL, synchronous=full (the default), one process",
    }
    report = Report("mirrors", settings, {}, [])
    report.tables.append(_tell(report, samples))
    return report


async def _measure(case: str, folder: Path, runs: int) -> tuple[Rate, int]:
    """How quickly steps went, and how many entries the mirror missed."""
    hanging = Hanging()
    app = Outlast(f"sqlite:///{folder / 'runs.db'}", mirrors=_make_mirrors(case, folder, hanging))

    @app.step(name="step")
    async def step(number: int) -> int:
        return number

    @app.workflow(name="body")
    async def body(_: Context, steps: int) -> None:
        for number in range(steps):
            await step(number)

    async def work(numbers: range) -> None:
        for _ in numbers:
            await (await app.start(body, STEPS)).result()

    async with app.worker():
        began, cpu_began = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            for first in range(CONCURRENCY):
                group.create_task(work(range(first, runs, CONCURRENCY)))
        seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu_began
        dropped = sum(mirror.dropped for mirror in app.mirrors())
        hanging.gate.set()
    return Rate(runs * STEPS / seconds, 1e6 * cpu_s / (runs * STEPS)), dropped


def _make_mirrors(case: str, folder: Path, hanging: Hanging) -> list[Mirror]:
    match case:
        case "hangs":
            return [hanging]
        case "fails":
            return [Failing()]
        case "lines":
            return [JsonLinesMirror(folder / "journal.jsonl")]
        case "sql":
            return [SqlMirror(f"sqlite:///{folder / 'reports.db'}")]
        case _:
            return []


def _tell(report: Report, samples: dict[str, Samples]) -> Table:
    rows = []
    per_second = {case: [rate.per_second for rate in each.rates] for case, each in samples.items()}
    cpu_us = {case: [rate.cpu_us for rate in each.rates] for case, each in samples.items()}
    for case, name in CASES.items():
        target = LEAST if case in IDLE else None
        figures = {
            "steps": spread(per_second[case], "steps/s"),
            "to_none": ratio(per_second[case], per_second["none"], target=target, is_floor=True),
            "cpu": spread(cpu_us[case], "µs/step"),
            "cpu_to_none": ratio(cpu_us[case], cpu_us["none"]),
            "dropped": spread(samples[case].dropped, "entries"),
        }
        report.figures.update({f"{case}/{key}": figure for key, figure in figures.items()})
        rows.append([name, *map(str, figures.values()), figures["to_none"].verdict])
    notes = [
        "× none: of the round's own measurement without a mirror; the last line is the noise of that.",
        "CPU: of all threads, the mirror's own too. One that writes shares the interpreter with the runs.",
        f"Dropped: entries that the buffer had no room for, of {STEPS + 1} a run; `outlast mirror` copies them later.",
    ]
    columns = ["mirror", "steps/s", "× none", "CPU µs/step", "× none, CPU", "dropped", "target"]
    return Table("Runs beside a mirror", columns, rows, notes)
