"""Whether a step costs more the longer its run has been going: it must not (invariant 12).

A run of 100,000 steps, the first 10,000 against the last 10,000. What else the machine did in between is in that ratio,
so there is a second one without: while the long run does its last steps, a fresh run does its first ones, in turns with
it. The target of both is 1.2.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import statistics
import time
from array import array
from pathlib import Path

from benchmarks.children import Parent, Plan, say
from benchmarks.figures import Figure, Report, Table, ratio, spread
from benchmarks.machine import resident_bytes
from outlast import Context, Outlast

__all__ = ["measure"]

STEPS = 100_000
SHARE = 10
"""One in so many steps is measured, at the beginning and at the end."""
BLOCKS = 10
"""Of the steps that are measured: the turns of the two runs."""
MOST = 1.2
MIB = 1024 * 1024

LONG, FRESH, WARM = "long", "fresh", "warm"


class Turns:
    """Two runs, each of which waits in a step until the other has done a block."""

    def __init__(self) -> None:
        self._turn = LONG
        self._over: set[str] = set()
        self._changed = asyncio.Condition()

    async def take(self, who: str) -> None:
        """Let the other go first."""
        async with self._changed:
            self._turn = FRESH if who == LONG else LONG
            self._changed.notify_all()
            await self._changed.wait_for(lambda: self._turn == who or len(self._over) > 0)

    async def leave(self, who: str) -> None:
        """Done: the other need not wait any more."""
        async with self._changed:
            self._over.add(who)
            self._changed.notify_all()


class Measured:
    """When the steps of both runs began, and memory on the way."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.block = max(steps // SHARE // BLOCKS, 1)
        self.begun = {LONG: array("d"), FRESH: array("d")}
        self.memory: list[int] = []
        """Bytes, before the long run and when its last part begins."""

    def note_memory(self) -> None:
        gc.collect()
        self.memory.append(resident_bytes())

    def durations(self, who: str, first: int, count: int) -> list[list[float]]:
        """Seconds of each step, by blocks; the pauses between blocks left out."""
        begun = self.begun[who]
        blocks = []
        for start in range(first, first + count, self.block):
            times = begun[start : start + self.block]
            blocks.append([after - before for before, after in itertools.pairwise(times)])
        return [block for block in blocks if block]


def measure(plan: Plan, _parent: Parent) -> Report:
    """One long run, and a fresh one beside its end."""
    measured = Measured(2000 if plan.quick else STEPS)
    asyncio.run(_work(Path(plan.folder) / "growth.db", measured))
    steps, part = measured.steps, measured.steps // SHARE
    first = [statistics.median(block) for block in measured.durations(LONG, 0, part)]
    last = [statistics.median(block) for block in measured.durations(LONG, steps - part, part)]
    fresh = [statistics.median(block) for block in measured.durations(FRESH, 0, part)]
    both = min(len(last), len(fresh))
    begin_bytes, end_bytes = measured.memory
    figures: dict[str, Figure] = {
        "first": spread([1e6 * seconds for seconds in first], "µs"),
        "last": spread([1e6 * seconds for seconds in last], "µs"),
        "fresh": spread([1e6 * seconds for seconds in fresh], "µs"),
        "last_to_first": ratio(last, first, target=MOST),
        "last_to_fresh": ratio(last[:both], fresh[:both], target=MOST),
        "memory": spread([(end_bytes - begin_bytes) / MIB], "MiB"),
        "memory_per_step": spread([(end_bytes - begin_bytes) / (steps - part)], "bytes"),
    }
    names = {
        "first": f"a step, of the first {part:,}",
        "last": f"a step, of the last {part:,}",
        "fresh": f"a step of a fresh run, in turns with the last {part:,}",
        "last_to_first": "last to first",
        "last_to_fresh": "last to fresh",
        "memory": f"memory of the process: growth in {steps - part:,} steps",
        "memory_per_step": "the same, for each step",
    }
    rows = [[text, str(figures[key]), figures[key].unit, figures[key].verdict] for key, text in names.items()]
    report = Report("growth", {"workload": f"one run of {steps:,} steps on SQLite"}, figures, [])
    notes = [f"Medians of blocks of {measured.block:,} steps; the range is that of the blocks."]
    report.tables.append(Table("A long run", ["what", "median", "unit", "target"], rows, notes))
    return report


async def _work(path: Path, measured: Measured) -> None:
    app, turns, part = Outlast(f"sqlite:///{path}"), Turns(), measured.steps // SHARE
    shared_from = {LONG: measured.steps - part, FRESH: 0}
    may_begin = asyncio.Event()

    @app.step(name="step")
    async def step(who: str, number: int) -> int:
        if who == WARM:
            return number
        if number >= shared_from[who] and number % measured.block == 0:
            if not may_begin.is_set():
                measured.note_memory()
                may_begin.set()
            await turns.take(who)
        measured.begun[who].append(time.perf_counter())
        return number

    @app.workflow(name="body")
    async def body(_: Context, who: str, steps: int) -> int:
        for number in range(steps):
            await step(who, number)
        return steps

    async def work(who: str, steps: int) -> None:
        run = await app.start(body, who, steps)
        await run.result()
        await turns.leave(who)

    async with app.worker():
        await (await app.start(body, WARM, 200)).result()
        measured.note_memory()
        say(f"a run of {measured.steps:,} steps")
        async with asyncio.TaskGroup() as group:
            group.create_task(work(LONG, measured.steps))
            await may_begin.wait()
            say("and a fresh one beside its end")
            group.create_task(work(FRESH, part))
