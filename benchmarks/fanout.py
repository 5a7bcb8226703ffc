"""What an item of a graph's fan-out costs, of 500 and of 5,000, beside one of `ctx.map`: it must not grow.

A graph with one node and `for_each`, and a body with `ctx.map` of the same step, in turns, on SQLite. The target for
ten times as many items is 1.2 times the cost of one; what a graph costs beside a body has none.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from benchmarks.children import Parent, Plan, say
from benchmarks.figures import Report, Table, ratio, spread
from outlast import Context, Graph, Outlast, ref
from outlast.cli.collector import collect_seldom

__all__ = ["measure"]

ITEMS = 5_000
SHARE = 10
ROUNDS = 7
MOST = 1.2

FEW, MANY, MAPPED = "few", "many", "mapped"
Taken = dict[str, list[float]]
"""µs for each item, by round."""


def measure(plan: Plan, _parent: Parent) -> Report:
    """In turns."""
    collect_seldom()  # as `outlast worker` does
    items, rounds = (200, 2) if plan.quick else (ITEMS, ROUNDS)
    taken = asyncio.run(_measure(Path(plan.folder) / "fanout.db", items, rounds))
    figures = {
        FEW: spread(taken[FEW], "µs"),
        MANY: spread(taken[MANY], "µs"),
        MAPPED: spread(taken[MAPPED], "µs"),
        "many_to_few": ratio(taken[MANY], taken[FEW], target=MOST),
        "graph_to_map": ratio(taken[MANY], taken[MAPPED]),
    }
    names = {
        FEW: f"an item of {items // SHARE:,}",
        MANY: f"an item of {items:,}",
        MAPPED: f"the same with `ctx.map`, of {items:,}",
        "many_to_few": "of many to of few",
        "graph_to_map": "a graph to a body",
    }
    settings = {"workload": f"{rounds} rounds in turns: fan-outs of {items // SHARE:,} and {items:,}, 20 at once"}
    report = Report("fanout", settings, figures, [])
    rows = [[text, str(figures[key]), figures[key].unit, figures[key].verdict] for key, text in names.items()]
    notes = ["From start to result, divided by the items; rounds of few are as many runs one after the other."]
    report.tables.append(Table("A fan-out", ["what", "median", "unit", "target"], rows, notes))
    return report


async def _measure(path: Path, items: int, rounds: int) -> Taken:
    app = Outlast(f"sqlite:///{path}")

    @app.step(name="double")
    async def double(n: int) -> int:
        return 2 * n

    @app.workflow(name="mapped")
    async def mapped(ctx: Context, count: int) -> list[int]:
        return await ctx.map(double, range(count))

    graph = app.graph(
        Graph("graph").node("double", double, for_each=ref.input, input=ref.item).output(ref.nodes.double)
    )

    async def graph_us(count: int, times: int = 1) -> float:
        began = time.perf_counter()
        for _ in range(times):
            assert len(await (await app.start(graph, list(range(count)))).result()) == count
        return 1e6 * (time.perf_counter() - began) / count / times

    async def map_us(count: int) -> float:
        began = time.perf_counter()
        assert len(await (await app.start(mapped, count)).result()) == count
        return 1e6 * (time.perf_counter() - began) / count

    taken: Taken = {FEW: [], MANY: [], MAPPED: []}
    async with app.worker():
        await graph_us(items // SHARE)
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            taken[FEW].append(await graph_us(items // SHARE, SHARE))
            taken[MANY].append(await graph_us(items))
            taken[MAPPED].append(await map_us(items))
    return taken
