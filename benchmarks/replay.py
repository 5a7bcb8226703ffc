"""How quickly a long run is brought back.

From memory: the journal's bytes decoded, and a machine fed with the events. From the store: a run that sleeps is woken
by a worker that comes new to the store; what the wake-up of a long run takes beyond that of a short one is the reading
and the replay. The target is 100,000 events a second, read, decoded and replayed.
"""

from __future__ import annotations

import asyncio
import gc
import time
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.children import Parent, Plan, say
from benchmarks.figures import Figure, Report, Table, spread
from benchmarks.machine import wait_until
from outlast import Context, Outlast
from outlast.authoring.workflow import Workflow
from outlast.core.events import RunStarted, decode_events
from outlast.core.replay import Replay
from outlast.engine.worker import Worker
from outlast.stores.store import Entry

__all__ = ["measure"]

STEPS = 20_000
ROUNDS = 7
LEAST = 100_000
"""Events a second: the target."""
NAP_S = 0.5


class Sleeper(msgspec.Struct):
    """An app with one run: so many steps, then a nap and a step again and again."""

    app: Outlast
    workflow: Workflow[..., Any]
    woken: list[float]
    """When each step after a nap began."""


class Samples(msgspec.Struct):
    """Seconds, one for each round."""

    decoding: list[float] = []
    feeding: list[float] = []
    """Both of CPU: nothing is waited for, so what else the machine does need not count."""
    long: list[float] = []
    """From the worker's coming to the first step of the long run."""
    short: list[float] = []


def measure(plan: Plan, _parent: Parent) -> Report:
    """A run of 20,000 steps."""
    steps, rounds = (300, 2) if plan.quick else (STEPS, ROUNDS)
    samples, events = asyncio.run(_measure(Path(plan.folder), steps, rounds))
    report = Report("replay", {"journal": f"{steps:,} steps, {events:,} events", "rounds": f"{rounds}"}, {}, [])
    both = [decoding + feeding for decoding, feeding in zip(samples.decoding, samples.feeding, strict=True)]
    beyond = [max(long - short, 1e-6) for long, short in zip(samples.long, samples.short, strict=True)]
    figures = report.figures = {
        "decode": _rate(events, samples.decoding),
        "feed": _rate(events, samples.feeding),
        "memory": _rate(events, both, target=LEAST),
        "store": _rate(events, beyond, target=LEAST),
        "long": spread([1000 * seconds for seconds in samples.long], "ms"),
        "short": spread([1000 * seconds for seconds in samples.short], "ms"),
    }
    names = {
        "decode": "decoding alone, of CPU time",
        "feed": "feeding the body alone, of CPU time",
        "memory": "from memory: both, of CPU time",
        "store": "from the store, by a worker",
        "long": "wake-up of this run",
        "short": "wake-up of a run without steps",
    }
    rows = [[text, str(figures[key]), figures[key].unit, figures[key].verdict] for key, text in names.items()]
    notes = [
        "A wake-up is from the worker's coming to the first new step: registering, claiming, loading, a commit.",
        "From the store: what the wake-up of the long run takes beyond that of the short one.",
    ]
    report.tables.append(Table("Replay", ["what", "median", "unit", "target"], rows, notes))
    return report


def _rate(events: int, seconds: list[float], *, target: float | None = None) -> Figure:
    return spread([events / each for each in seconds], "events/s", target=target, is_floor=target is not None)


async def _measure(folder: Path, steps: int, rounds: int) -> tuple[Samples, int]:
    long, short = _make(folder / "long.db"), _make(folder / "short.db")
    samples = Samples()
    say(f"making a run of {steps:,} steps")
    entries, started = await _begin(long, steps, rounds)
    await _begin(short, 0, rounds)
    say("replaying it")
    for _ in range(rounds):
        samples.long.append(await _wake(long))
        samples.short.append(await _wake(short))
        async with long.app.worker(queues=("nobody's",)) as worker:
            _replay(worker, long.workflow, started, entries, samples)
    return samples, sum(len(decode_events(entry.events)) for entry in entries)


def _make(path: Path) -> Sleeper:
    app = Outlast(f"sqlite:///{path}")
    woken: list[float] = []

    @app.step(name="step")
    async def step(number: int) -> int:
        return number

    @app.step(name="wake")
    async def wake() -> None:
        woken.append(time.perf_counter())

    @app.workflow(name="body")
    async def body(ctx: Context, steps: int, naps: int) -> int:
        for number in range(steps):
            await step(number)
        for _ in range(naps):
            await ctx.sleep(NAP_S)
            await wake()
        return steps

    return Sleeper(app, body, woken)


async def _begin(sleeper: Sleeper, steps: int, rounds: int) -> tuple[list[Entry], RunStarted]:
    """Work it until it naps; gives its journal until then."""
    async with sleeper.app.worker() as worker:
        run = await sleeper.app.start(sleeper.workflow, steps, rounds + 1)
        store, home = worker.engine.store, worker.home
        assert home is not None
        await wait_until(lambda: (hot := home.find(run.uid)) is not None and bool(hot.sleeps))
        entries: list[Entry] = []
        while page := await store.read_journal(run.uid, after=len(entries) - 1):
            entries += page
    (started, *_) = decode_events(entries[0].events)
    assert isinstance(started, RunStarted)
    return entries, started


async def _wake(sleeper: Sleeper) -> float:
    """Seconds from the worker's coming to the first step of the run, whose nap is over by then."""
    await asyncio.sleep(NAP_S + 0.1)
    sleeper.woken.clear()
    gc.collect()
    began = time.perf_counter()
    async with sleeper.app.worker():
        await wait_until(lambda: bool(sleeper.woken), every_s=0.001)
    return sleeper.woken[0] - began


def _replay(
    worker: Worker, workflow: Workflow[..., Any], started: RunStarted, entries: list[Entry], samples: Samples
) -> None:
    """Once, from bytes in memory."""
    assert worker.home is not None
    gc.collect()
    began = time.thread_time()
    events = [event for entry in entries for event in decode_events(entry.events)]
    decoded = time.thread_time()
    machine = worker.home.loader.build(started, workflow)
    replay = Replay(machine, events)
    while replay.advance(1000):
        pass
    samples.feeding.append(time.thread_time() - decoded)
    samples.decoding.append(decoded - began)
    machine.evict()
