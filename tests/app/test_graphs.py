"""Graphs as an app starts, works and shows them, on each store (SPEC G)."""

from __future__ import annotations

import pytest

from outlast import Graph, InvalidDefinition, InvalidInput, Outlast, RunFailed, RunNotFound, ref


@pytest.fixture(params=["memory", "sqlite"])
def shop(request, tmp_path):
    """An app with two steps."""
    app = Outlast("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/shop.db")

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
