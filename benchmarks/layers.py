"""Where the CPU time of a step goes, by layer, module and function, while 256 runs are under way.

An alarm interrupts the event loop's thread every other millisecond. It looks at where each thread stands, and gives
that place the CPU time the thread has had since the alarm before. What is below a function of outlast's (the standard
library, C code, SQLite) counts as that function's. What always holds: it does not depend on what else the machine does,
since time is what the system says the thread had. A sampling thread was tried: it gets to look where Python lets go of
its lock, and found a third of all time in the few calls that do, such as `os.urandom`.
"""

from __future__ import annotations

import asyncio
import collections
import gc
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from benchmarks.children import Parent, Plan
from benchmarks.figures import Report, Table, spread
from outlast.cli.bench import RunFigures, measure_runs

__all__ = ["measure"]

STEPS = 10
CONCURRENCY = 256
RUNS = 4000
QUICK_RUNS = 300
ALONE = 20
"""Runs that `measure_runs` works one by one, before the others."""
TOP = 25
EVERY_S = 0.002
LAYERS = ("core", "authoring", "stores", "engine", "run", "app", "telemetry")
WRITER = "outlast-sqlite-writer"

Place = tuple[str, str]
"""Module and function."""


class Sampler:
    """Gives the CPU time of threads to the places they stand at."""

    def __init__(self) -> None:
        self.seconds: dict[str, collections.Counter[Place]] = collections.defaultdict(collections.Counter)
        """By the thread's name; counts are seconds."""
        self.samples = 0
        self.pauses: list[list[float]] = [[], [], []]
        """CPU seconds of each garbage collection, by generation. They are the place's as well that it broke in on."""
        self._collection_began = 0.0
        self._last: dict[int, float] = {}
        self._is_looking = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """While inside. In the main thread only: signals are for it."""
        before = signal.signal(signal.SIGALRM, self._look)
        gc.callbacks.append(self._collected)
        signal.setitimer(signal.ITIMER_REAL, EVERY_S, EVERY_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            gc.callbacks.remove(self._collected)

    def _look(self, _: int, here: FrameType | None) -> None:
        if self._is_looking:
            return  # the machine was busy elsewhere, and this alarm came while the one before was being looked at
        self._is_looking = True
        self.samples += 1
        frames = sys._current_frames()  # noqa: SLF001 - what it is for
        for thread in threading.enumerate():
            ident = thread.ident
            if ident is None:
                continue
            if thread is threading.main_thread():
                self._note(ident, "event loop", here)
            elif thread.name == WRITER:
                self._note(ident, "writer thread", frames.get(ident))
        self._last[threading.get_ident()] = time.thread_time()  # looking itself does not count
        self._is_looking = False

    def _note(self, ident: int, name: str, frame: FrameType | None) -> None:
        now = time.clock_gettime(time.pthread_getcpuclockid(ident))
        before = self._last.get(ident)
        self._last[ident] = now
        if before is not None and frame is not None:
            self.seconds[name][_find_ours(frame)] += now - before  # type: ignore[assignment]  # a float counts as well

    def _collected(self, phase: str, about: dict[str, int]) -> None:
        if phase == "start":
            self._collection_began = time.thread_time()
        else:
            self.pauses[about["generation"]].append(time.thread_time() - self._collection_began)


def measure(plan: Plan, _parent: Parent) -> Report:
    """Throughput at 256, looked at from inside."""
    runs = QUICK_RUNS if plan.quick else RUNS
    did, sampler = _run(plan, runs)
    steps = (runs + CONCURRENCY + ALONE) * STEPS
    settings = {
        "workload": f"{runs} runs of {STEPS} steps, {CONCURRENCY} at once, SQLite, asyncio's own loop",
        "samples": f"{sampler.samples}, one every {EVERY_S * 1000:g} ms",
    }
    report = Report("layers", settings, {"steps": spread([did.steps_per_second], "steps/s")}, [])
    report.tables.append(_tell_garbage(report, sampler.pauses, steps))
    for thread in ("event loop", "writer thread"):
        costs = {place: seconds * 1e6 / steps for place, seconds in sampler.seconds[thread].items()}
        report.figures[f"{thread}/cpu"] = spread([sum(costs.values())], "µs/step")
        if thread == "event loop":
            report.tables.append(_table(f"{thread}, by layer", _sum(costs, _layer)))
            report.tables.append(_table(f"{thread}, by module", _sum(costs, lambda place: place[0])))
        report.tables.append(_table(f"{thread}, by function", _sum(costs, ".".join)))
    return report


def _run(plan: Plan, runs: int) -> tuple[RunFigures, Sampler]:
    sampler = Sampler()
    with tempfile.TemporaryDirectory(dir=plan.folder) as folder, sampler.watching():
        url = f"sqlite:///{Path(folder) / 'layers.db'}"
        did = asyncio.run(measure_runs(url, steps=STEPS, runs=runs, concurrency=CONCURRENCY, keep=True))
    return did, sampler


# --- what came of it --------------------------------------------------------------------------------------------------


def _sum(costs: dict[Place, float], key: Callable[[Place], str]) -> dict[str, float]:
    sums: dict[str, float] = collections.defaultdict(float)
    for place, cost in costs.items():
        sums[key(place)] += cost
    return sums


def _tell_garbage(report: Report, pauses: list[list[float]], steps: int) -> Table:
    rows = []
    for generation, taken in enumerate(pauses):
        cost = sum(taken) * 1e6 / steps
        report.figures[f"garbage/{generation}"] = spread([cost], "µs/step")
        longest = max(taken, default=0.0) * 1000
        rows.append([f"generation {generation}", f"{len(taken):,}", f"{cost:.1f}", f"{longest:.1f}"])
    notes = ["It is part of what the other tables say: a collection counts as the place that it broke in on."]
    return Table("CPU of garbage collection", ["", "times", "µs/step", "longest, ms"], rows, notes)


def _table(title: str, costs: dict[str, float]) -> Table:
    total = sum(costs.values()) or 1.0
    dearest = sorted(costs.items(), key=lambda item: -item[1])
    rows = [[name, f"{cost:.1f}", f"{100 * cost / total:.1f}"] for name, cost in dearest[:TOP]]
    left = sum(cost for _, cost in dearest[TOP:])
    if left:
        rows.append(["all others", f"{left:.1f}", f"{100 * left / total:.1f}"])
    rows.append(["in all", f"{total:.1f}", "100"])
    return Table(f"CPU of the {title}", ["where", "µs/step", "share, %"], rows)


def _find_ours(frame: FrameType) -> Place:
    """The innermost function of outlast's; else of whoever called."""
    innermost: FrameType | None = frame
    while innermost is not None:
        module, function = _place(innermost)
        if module.startswith("outlast."):
            return module, function
        innermost = innermost.f_back
    return _place(frame)


def _place(frame: FrameType) -> Place:
    code = frame.f_code
    return frame.f_globals.get("__name__", "?"), code.co_name


def _layer(place: Place) -> str:
    parts = place[0].split(".")
    if parts[0] == "outlast" and parts[1] in LAYERS:
        return parts[1]
    if parts[0] in {"outlast", "benchmarks"}:
        return "the benchmark itself"
    return "asyncio's loop" if parts[0] in {"asyncio", "selectors"} else parts[0]
