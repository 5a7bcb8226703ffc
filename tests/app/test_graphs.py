"""Graphs as an app starts, works and shows them, on each store (SPEC G)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from outlast import Context, Graph, InvalidDefinition, InvalidInput, Outlast, RunCancelled, RunFailed, RunNotFound, ref
from tests import postgres_schemas


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def shop(request, tmp_path):
    """An app with two steps."""
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/shop.db"}
    app = Outlast(urls.get(request.param) or postgres_schemas.new_url())

    @app.step(name="double")
    async def double(n: int) -> int:
        return 2 * n

    @app.step(name="check", retries=0)
    def check(n: int) -> str:
        if n > 10:
            raise ValueError(f"{n} is too much")
        return "fine"

    return app


def doubling(app: Outlast) -> None:
    app.graph(
        Graph("doubling", input={"numbers": list})
        .node("double", "double", for_each=ref.input.numbers, input=ref.item, next="check")
        .node("check", "check", input={"n": ref.nodes.double[0]})
        .output({"all": ref.nodes.double, "verdict": ref.nodes.check})
    )


async def test_a_graph_runs_as_any_workflow(shop: Outlast) -> None:
    """Started by its name, it runs to its output; its steps, version and output are in its status and history."""
    doubling(shop)
    graph = shop.find_workflow("doubling")
    assert graph is not None
    async with shop.worker():
        run = await shop.start("doubling", {"numbers": [1, 2, 3]}, id="d-1")
        assert await run.result(timeout=10) == {"all": [2, 4, 6], "verdict": "fine"}
        status = await run.status()
        assert [step.key for step in status.steps] == ["double[0]", "double[1]", "double[2]", "check"]
        assert status.version == graph.version
        assert status.input == {"numbers": [1, 2, 3]}
        assert (await shop.start(graph, {"numbers": [1, 2, 3]}, id="d-1")).uid == run.uid


async def test_a_failed_graph_goes_on_from_the_node_that_failed(shop: Outlast) -> None:
    """`retry()` runs the failed node again; what succeeded stays."""  # SPEC R10
    app, tries = shop, []

    @app.step(name="once", retries=0)
    async def once() -> int:
        tries.append(len(tries))
        if len(tries) == 1:
            raise ValueError("not yet")
        return len(tries)

    graph = app.graph(
        Graph("again").node("a", "double", input=4, next="b").node("b", once).output([ref.nodes.a, ref.nodes.b])
    )
    async with app.worker():
        run = await app.start(graph, id="r-1")
        with pytest.raises(RunFailed, match="not yet"):
            await run.result(timeout=10)
        await run.retry()
        assert await run.result(timeout=10) == [8, 2]
        assert [attempt.key for attempt in await run.history()].count("a") == 1


async def test_nothing_is_stored_of_a_graph_that_cannot_run(shop: Outlast) -> None:
    """Input, entry nodes and functions are checked before there is a run."""  # SPEC G3, R2
    doubling(shop)
    shop.graph(Graph("broken").node("a", "trouble"))
    async with shop:
        for name, input, error in [
            ("doubling", [{"numbers": 3}], InvalidInput),
            ("doubling", [{"numbers": []}, "check"], InvalidInput),
            ("broken", [], InvalidDefinition),
        ]:
            with pytest.raises(error):
                await shop.start(name, *input, id="x-1")
            with pytest.raises(RunNotFound):
                await shop.get_run("x-1")


# --- workflows as nodes -----------------------------------------------------------------------------------------------


@dataclass
class Parcel:
    item: str
    weight: int


async def test_a_node_may_be_a_workflow(shop: Outlast) -> None:
    """It becomes a child run, also for each item; its output is plain data for others to refer to."""  # SPEC G1, C1
    app = shop

    @app.workflow(name="pack")
    async def pack(ctx: Context, item: str) -> Parcel:
        return Parcel(item, len(item))

    doubling(app)
    graph = app.graph(
        Graph("packing", input={"list": list})
        .node("parcels", pack, for_each=ref.input["list"], input=ref.item, timeout="1h", next="weigh")
        .workflow("weigh", "doubling", input={"numbers": [ref.nodes.parcels[0].weight, 4]})
        .output({"items": ref.nodes.parcels, "weights": ref.nodes.weigh.all})
    )
    async with app.worker():
        run = await app.start(graph, {"list": ["book", "lamp!"]}, id="p-1")
        assert await run.result(timeout=10) == {
            "items": [{"item": "book", "weight": 4}, {"item": "lamp!", "weight": 5}],
            "weights": [8, 8],
        }
        children = (await app.runs(parent=run.uid)).runs
        assert sorted(child.workflow for child in children) == ["doubling", "pack", "pack"]
        assert [step.key for step in (await run.status()).steps] == ["parcels[0]", "parcels[1]", "weigh"]


async def test_a_body_may_call_a_graph(shop: Outlast) -> None:
    """As any workflow: awaited with its input, or called by its name; wrong input is told in the parent."""
    app = shop
    doubling(app)
    graph = app.find_workflow("doubling")
    assert graph is not None

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> list[int]:
        one = await graph({"numbers": [1]})
        other = await ctx.call("doubling", {"numbers": [2]})
        try:
            await graph({"number": []})
        except InvalidInput:
            return [*one["all"], *other["all"]]
        return []

    async with app.worker():
        run = await app.start(parent)
        assert await run.result(timeout=10) == [2, 4]


async def test_a_failed_child_fails_its_node(shop: Outlast) -> None:
    """Its error is the node's; the handler is told."""  # SPEC G4, C3
    app = shop

    @app.workflow(name="fails")
    async def fails(ctx: Context) -> None:
        raise ValueError("no luck")

    @app.step(name="say")
    async def say(text: str) -> str:
        return text

    graph = app.graph(
        Graph("trying")
        .node("a", fails, on_error="h", after_error="continue")
        .node("h", say, input=f"{ref.error.node}: {ref.error.message}")
        .output(ref.nodes.h)
    )
    async with app.worker():
        run = await app.start(graph)
        assert await run.result(timeout=10) == "a: no luck"


async def test_cancelling_a_graph_cancels_its_children(shop: Outlast) -> None:
    """The children first, then the graph."""  # SPEC X1
    app, began = shop, asyncio.Event()

    @app.step(name="begin")
    async def begin() -> None:
        began.set()

    @app.workflow(name="long")
    async def long(ctx: Context) -> None:
        await begin()
        await ctx.sleep("1h")

    graph = app.graph(Graph("waiting").node("a", long, next="b").node("b", "begin"))
    async with app.worker():
        run = await app.start(graph)
        await asyncio.wait_for(began.wait(), 10)
        await run.cancel("enough")
        with pytest.raises(RunCancelled):
            await run.result(timeout=10)
        (child,) = (await app.runs(parent=run.uid)).runs
        assert child.status == "cancelled"
