"""What kinds of steps cost: those that never wait, those that do, plain functions in threads, closures.

Runs of 10 steps, 256 at once, the kinds in turns. A step that waits gives way for one turn of the event loop: what it
costs more than one that does not is what outlast pays for letting a step wait at all.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from benchmarks.children import Parent, Plan, say
from benchmarks.figures import Report, Table, ratio, spread
from benchmarks.places import describe_store, new_store
from outlast import Context, Outlast, Workflow
from outlast.cli.collector import collect_seldom

__all__ = ["measure"]

RUNS, AT_ONCE, STEPS, ROUNDS = 1_000, 256, 10, 7
KINDS = {
    "at_once": "`async def` that does not wait",
    "waits": "`async def` that waits for a turn of the loop",
    "thread": "`def`, in a thread",
    "closure": "`ctx.do` of a closure",
}


def measure(plan: Plan, _parent: Parent) -> Report:
    """In turns, on asyncio's own loop."""
    collect_seldom()  # as `outlast worker` does
    runs, rounds = (64, 2) if plan.quick else (RUNS, ROUNDS)
    with new_store(plan) as url:
        taken = asyncio.run(_measure(url, runs, rounds))
    settings = {
        "workload": f"{runs} runs of {STEPS} steps, {AT_ONCE} at once; {rounds} rounds in turns",
        "store": describe_store(plan),
    }
    report = Report("kinds", settings, {}, [])
    rows = []
    for kind, text in KINDS.items():
        figures = [spread(taken[kind], "steps/s"), ratio(taken[kind], taken["at_once"])]
        report.figures |= {f"{kind}/steps": figures[0], f"{kind}/to_at_once": figures[1]}
        rows.append([text, *map(str, figures)])
    report.tables.append(Table("Kinds of steps", ["a step", "steps/s", "× the first"], rows, []))
    return report


async def _measure(url: str, runs: int, rounds: int) -> dict[str, list[float]]:
    app = Outlast(url)
    workflows = _declare(app)
    taken: dict[str, list[float]] = {kind: [] for kind in KINDS}
    async with app.worker(concurrency=AT_ONCE, threads=8, max_hot=4 * AT_ONCE):
        for number in range(rounds + 1):
            say(f"round {number} of {rounds}")
            for kind, workflow in workflows.items():
                began = time.perf_counter()
                await _work(app, workflow, runs)
                if number:  # the first warms up
                    taken[kind].append(runs * STEPS / (time.perf_counter() - began))
    return taken


def _declare(app: Outlast) -> dict[str, Workflow[[int], int]]:
    @app.step(name="at_once")
    async def at_once(number: int) -> int:
        return number

    @app.step(name="waits")
    async def waits(number: int) -> int:
        await asyncio.sleep(0)
        return number

    @app.step(name="thread")
    def thread(number: int) -> int:
        return number

    async def closure(ctx: Context, number: int) -> int:
        return await ctx.do("closure", lambda: at_once_body(number))

    async def at_once_body(number: int) -> int:
        return number

    def of(kind: str, call: Callable[[Context, int], Awaitable[int]]) -> Workflow[[int], int]:
        @app.workflow(name=f"of {kind}")
        async def body(ctx: Context, steps: int) -> int:
            for number in range(steps):
                await call(ctx, number)
            return steps

        return body

    return {
        "at_once": of("at_once", lambda _, number: at_once(number)),
        "waits": of("waits", lambda _, number: waits(number)),
        "thread": of("thread", lambda _, number: thread(number)),
        "closure": of("closure", closure),
    }


async def _work(app: Outlast, workflow: Workflow[[int], int], runs: int) -> None:
    left = iter(range(runs))

    async def work() -> None:
        for _ in left:
            await (await app.start(workflow, STEPS)).result()

    async with asyncio.TaskGroup() as group:
        for _ in range(min(AT_ONCE, runs)):
            group.create_task(work())
