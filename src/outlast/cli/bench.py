"""`outlast bench`: steps per second on this machine, beside what its store alone can take. Layer: cli.

`measure_runs` and `measure_store` are the measuring core; `benchmarks/` measures with them too. What always holds: a
figure is of whole durable steps, each committed before the next begins; and a store that was given is left as it was.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from outlast.app import Outlast
from outlast.authoring.context import Context
from outlast.authoring.workflow import Workflow
from outlast.cli import collector
from outlast.cli.exits import ExitCode
from outlast.cli.hashseed import fix_hash_seed, reexec_option
from outlast.cli.logs import set_up_logging
from outlast.cli.options import Settings, shared_options
from outlast.cli.output import Output
from outlast.core.events import NOTHING, RunStarted, StepStarted, StepSucceeded, encode_events
from outlast.core.states import RunStatus
from outlast.engine.ids import new_mark, new_uid
from outlast.run import Run
from outlast.stores.open import open_store
from outlast.stores.store import Effects, NewRun, Progress, Release, RowChange, Store, WorkerRow

__all__ = ["RunFigures", "StoreFigures", "bench", "measure_runs", "measure_store"]

QUEUE = "outlast-bench"
"""Of its own, so that no other worker of a store that is in use takes part."""
WORKFLOW = "outlast-bench"
LEASE_US = 60_000_000


class RunFigures(msgspec.Struct, frozen=True):
    """What the engine did. Times are seconds."""

    runs: int
    steps: int
    """Of each run, one after another."""
    concurrency: int
    """Runs under way at once."""
    seconds: float
    steps_per_second: float
    runs_per_second: float
    step_latency: float
    """Of one run alone: the time from one step to the next, median."""


class StoreFigures(msgspec.Struct, frozen=True):
    """What the store took when nothing else was done."""

    batch: int
    """Entries in one commit, each of another run."""
    rows_per_second: float
    commits_per_second: float
    """Of one entry each, one after another: the price of one durable commit."""


# --- the engine -------------------------------------------------------------------------------------------------------


async def measure_runs(url: str, *, steps: int, runs: int, concurrency: int, keep: bool = False) -> RunFigures:
    """Start and work so many runs of so many steps that do nothing; at most `concurrency` runs at once.

    They are deleted afterwards, one by one, unless they may be kept.
    """
    app, workflow = _make_app(url)
    async with app.worker(queues=(QUEUE,), concurrency=max(concurrency, 1), max_hot=max(10_000, 2 * concurrency)):
        alone = [await _time_run(app, workflow, steps) / (steps + 1) for _ in range(20)]
        await _work_many(app, workflow, runs=concurrency, steps=steps, concurrency=concurrency)  # warm up
        began = time.perf_counter()
        await _work_many(app, workflow, runs=runs, steps=steps, concurrency=concurrency)
        seconds = time.perf_counter() - began
        if not keep:
            await _delete_all(app)
    return RunFigures(
        runs, steps, concurrency, seconds, runs * steps / seconds, runs / seconds, statistics.median(alone)
    )


def _make_app(url: str) -> tuple[Outlast, Workflow[[int], int]]:
    app = Outlast(url)

    @app.step(name=f"{WORKFLOW}-step")
    async def step(number: int) -> int:
        return number

    @app.workflow(name=WORKFLOW)
    async def body(_: Context, steps: int) -> int:
        for number in range(steps):
            await step(number)
        return steps

    return app, body


async def _time_run(app: Outlast, workflow: Workflow[[int], int], steps: int) -> float:
    began = time.perf_counter()
    run: Run[int] = await app.start(workflow, steps, queue=QUEUE)
    await run.result()
    return time.perf_counter() - began


async def _work_many(app: Outlast, workflow: Workflow[[int], int], *, runs: int, steps: int, concurrency: int) -> None:
    left = itertools.count()

    async def work() -> None:
        while next(left) < runs:
            await _time_run(app, workflow, steps)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(concurrency, runs)):
            group.create_task(work())


async def _delete_all(app: Outlast) -> None:
    """What was measured leaves nothing behind."""
    while page := (await app.runs(workflow=WORKFLOW, status="completed", limit=1000)).runs:
        for summary in page:
            await (await app.get_run(summary.id)).delete()


# --- the store alone --------------------------------------------------------------------------------------------------


async def measure_store(url: str, *, batch: int, seconds: float = 1.0) -> StoreFigures:
    """Commit entries such as a step makes: `batch` at once, then one at once, each for about so many seconds."""
    store = open_store(url)
    await store.open()
    try:
        return await _measure_store(store, batch, seconds)
    finally:
        await store.close()


async def _measure_store(store: Store, batch: int, seconds: float) -> StoreFigures:
    now = await store.now()
    worker = new_uid(now)
    await store.register(WorkerRow(worker, platform.node(), os.getpid(), (QUEUE,), started_at=now), LEASE_US)
    writers = [_Writer(new_uid(now)) for _ in range(batch)]
    await store.commit(worker, [writer.start(now) for writer in writers])
    rows = await _commit_for(store, worker, writers, seconds)
    commits = await _commit_for(store, worker, writers[:1], seconds)
    await store.commit(worker, [writer.end(now) for writer in writers])
    for writer in writers:
        await store.delete_run(writer.uid)
    await store.retire(worker)
    return StoreFigures(batch, rows, commits)


async def _commit_for(store: Store, worker: str, writers: Sequence[_Writer], seconds: float) -> float:
    """Entries a second."""
    began, count = time.perf_counter(), 0
    while (taken := time.perf_counter() - began) < seconds:
        await store.commit(worker, [writer.step() for writer in writers])
        count += len(writers)
    return count / taken


class _Writer:
    """One run's entries, as an owner would write them."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self._seq, self._mark, self._at = -1, 0, 0

    def start(self, at: int) -> Progress:
        """Entry 0, and the row, owned by the committing worker."""
        self._at = at
        started = RunStarted(at, self.uid, self.uid, WORKFLOW, "1", NOTHING, 0, platform.python_version())
        new = NewRun(self.uid, WORKFLOW, "1", queue=QUEUE, claimed=True, root=self.uid)
        return self._next(encode_events([started]), Effects(start=new))

    def step(self) -> Progress:
        """One step has succeeded, the next begins: what most entries say."""
        number = self._seq + 1
        done = StepSucceeded(self._at, f"step#{number}", 1, msgspec.Raw(b"0"), self._at)
        begun = StepStarted(f"step#{number + 1}", f"{WORKFLOW}-step", msgspec.Raw(b'{"number":0}'), retries=5)
        return self._next(encode_events([done, begun]), None)

    def end(self, at: int) -> Progress:
        """The last entry."""
        row = RowChange(status=RunStatus.COMPLETED, ended=True, release=Release(1, 0))
        self._at = at
        return self._next(b"[]", Effects(row=row))

    def _next(self, events: bytes, effects: Effects | None) -> Progress:
        before, self._mark, self._seq = self._mark, new_mark(), self._seq + 1
        return Progress(self.uid, self._seq, self._at, self._mark, before, events, effects)


# --- the command ------------------------------------------------------------------------------------------------------


@click.command()
@click.option("--steps", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Of each run.")
@click.option("--runs", type=click.IntRange(1, 1_000_000), default=2000, show_default=True, help="In all.")
@click.option("--concurrency", type=click.IntRange(1, 10_000), default=256, show_default=True, help="Runs at once.")
@reexec_option
@shared_options
@click.pass_obj
def bench(settings: Settings, /, *, steps: int, runs: int, concurrency: int, no_reexec: bool) -> ExitCode:
    """Measure durable steps per second, here and on this store.

    Without --store it is a new SQLite file in the folder for temporary files, which is deleted; a store that is given
    keeps nothing of it. The limit beside the figure is what the store takes when nothing else is done.
    """
    fix_hash_seed(settings, no_reexec=no_reexec)
    set_up_logging(None, default="error")
    output = settings.output()
    collector.settle(settings)
    with _store_for_bench(settings.store) as url:
        took = asyncio.run(measure_store(url, batch=concurrency))
        is_ours = settings.store is None
        did = asyncio.run(measure_runs(url, steps=steps, runs=runs, concurrency=concurrency, keep=is_ours))
        output.emit({"engine": did, "store": took, "machine": _describe_machine(url)})
        _tell(output, url, did, took)
    return ExitCode.COMPLETED


@contextmanager
def _store_for_bench(given: str | None) -> Generator[str]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="outlast-bench-") as folder:
        yield f"sqlite:///{Path(folder) / 'bench.db'}"


def _tell(output: Output, url: str, did: RunFigures, took: StoreFigures) -> None:
    share = did.steps_per_second / took.rows_per_second
    output.say(
        f"engine   {did.steps_per_second:,.0f} steps/s: {did.runs} runs of {did.steps} steps, "
        f"{did.concurrency} at once, in {did.seconds:.2f} s"
    )
    output.say(f"alone    {did.step_latency * 1000:.2f} ms a step, for one run with nothing beside it")
    output.say(
        f"limit    {took.rows_per_second:,.0f} rows/s is what the store takes, {took.batch} in a commit; "
        f"the engine reaches {share:.0%} of it"
    )
    output.say(f"commit   {took.commits_per_second:,.0f} a second of one row each, one after another")
    output.say(f"machine  {_describe_machine(url)}")


def _describe_machine(url: str) -> str:
    cores = os.cpu_count()
    kind = url.partition(":")[0]
    return f"{platform.system()} {platform.machine()}, {cores} cores, Python {platform.python_version()}, {kind}"
