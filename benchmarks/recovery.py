"""How soon another worker goes on with the runs of one that was killed, and of one that was told to stop.

Two processes on one store; the first works runs of short steps, the second has nothing to do. Then the first one is
killed (SIGKILL), or drains. Every step says which process it was in, when it began and when it ended. Run by run, the
time until the first step in the second one is counted from the kill; or, since a worker that drains lets a step end
that is under way, from the end of the run's last step in the first one, or from when that was told to stop, whichever
was later. Targets (issue 3): within the lease and six seconds; and at once, which is taken to be a tenth of a second
for half of the runs, and for all of them a second, the longest that a worker goes without a look.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import Any

import msgspec

from benchmarks.children import Child, Parent, Plan, say
from benchmarks.figures import Report, Table, percentile, spread
from benchmarks.places import describe_store, new_store
from outlast import Context, Outlast, Run

__all__ = ["measure", "work"]

RUNS = 20
STEP_S = 0.05
MOST_STEPS = 2000
"""A run ends with the first step that another process begins; with this many, nobody did."""
LEASE_S = 10.0
QUICK_LEASE_S = 1.0
ROUNDS = 3
BEYOND_LEASE_S = 6.0
AT_ONCE_S = 0.1
LOOK_S = 1.0

Marks = list[tuple[int, int, int]]
"""Of each step of a run: in which process, from when, and until when, in ns of a clock that all processes of a machine
share."""


class Order(msgspec.Struct, frozen=True):
    """To each worker."""

    url: str
    lease_s: float


def measure(plan: Plan, _parent: Parent) -> Report:
    """Kill and drain, in turns."""
    rounds, lease_s = (1, QUICK_LEASE_S) if plan.quick else (ROUNDS, LEASE_S)
    settings = {
        "workload": f"{RUNS} runs of steps of {STEP_S * 1000:g} ms, {rounds} rounds",
        "lease": f"{lease_s:g} s" + ("" if plan.quick else " (the default)"),
        "store": describe_store(plan),
    }
    report = Report("recovery", settings, {}, [])
    taken: dict[str, list[float]] = {"killed": [], "drained": []}
    for number in range(rounds):
        for how in taken:
            say(f"round {number + 1} of {rounds}: {how}")
            with new_store(plan) as url:
                taken[how] += _end_one(Order(url, lease_s), how)
    rows = []
    limits = {"killed": (None, lease_s + BEYOND_LEASE_S), "drained": (AT_ONCE_S, LOOK_S)}
    for how, (half_s, most_s) in limits.items():
        p50 = spread([percentile(taken[how], 0.5)], "s", target=half_s)
        most = spread([max(taken[how])], "s", target=most_s)
        report.figures.update({f"{how}/p50": p50, f"{how}/most": most})
        rows.append(
            [f"the first worker is {how}", str(len(taken[how])), str(p50), p50.verdict, str(most), most.verdict]
        )
    columns = ["end", "runs", "p50, s", "target, p50", "most, s", "target, most"]
    report.tables.append(Table("From a worker's end to the first step in another", columns, rows))
    return report


def work(order: Order, parent: Parent) -> bool:
    """A worker until it is told to stop."""
    logging.getLogger("outlast").setLevel(logging.ERROR)  # it would warn of each run that it takes over
    return asyncio.run(_work(order, parent))


async def _work(order: Order, parent: Parent) -> bool:
    app, _ = _make(order.url)
    async with app.worker(lease=f"{order.lease_s:g}s"):
        parent.tell(os.getpid())
        await asyncio.to_thread(parent.wait)
    return True


def _make(url: str) -> tuple[Outlast, Any]:
    app = Outlast(url)

    @app.step(name="look")
    async def look(_: int) -> tuple[int, int, int]:
        began = time.monotonic_ns()
        await asyncio.sleep(STEP_S)
        return os.getpid(), began, time.monotonic_ns()

    @app.workflow(name="body")
    async def body(_: Context) -> Marks:
        marks: Marks = []
        while len(marks) < MOST_STEPS and (not marks or marks[-1][0] == marks[0][0]):
            marks.append(await look(len(marks)))
        return marks

    return app, body


def _end_one(order: Order, how: str) -> list[float]:
    """Seconds from when the first worker did no more for it to the second one's first step, of each run."""
    with Child(work, order, limit_s=180) as first:
        first_pid = first.hear(int)
        ended, runs = asyncio.run(_work_through(order, first, how))
    gaps = []
    for marks in runs:
        assert {pid for pid, _, _ in marks[:-1]} == {first_pid}, "the second worker had it before"
        pid, began, _ = marks[-1]
        assert pid != first_pid, "nobody went on"
        gaps.append((began - max(ended, marks[-2][2])) / 1e9)
    return gaps


async def _work_through(order: Order, first: Child, how: str) -> tuple[int, list[Marks]]:
    """When the first worker's end came, and what became of the runs."""
    app, body = _make(order.url)
    async with app:
        runs: list[Run[Marks]] = await asyncio.gather(*(app.start(body) for _ in range(RUNS)))
        for run in runs:
            await _until_running(run)
        with Child(work, order, limit_s=180) as second:
            await asyncio.to_thread(second.hear, int)
            ended = time.monotonic_ns()
            if how == "killed":
                first.kill()
            else:
                first.go_on()
            marks = [await run.result(timeout="120s") for run in runs]
            second.go_on()
            await asyncio.to_thread(second.hear, bool)
        return ended, marks


async def _until_running(run: Run[Marks]) -> None:
    """It has an owner."""
    while (await run.status()).status != "running":  # noqa: ASYNC110 - another process takes it
        await asyncio.sleep(0.02)
