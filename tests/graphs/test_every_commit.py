"""The world stopped at every commit of a graph's run: another worker takes it to the same end (SPEC G, L10)."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from outlast import Graph, NonRetryable, Outlast, RunFailed, current_step, ref
from tests import postgres_schemas
from tests.graphs.mortal import Clock, Mortal, let_pass, make_store, world_stops_at

Effects = list[tuple[str, str]]
"""Key and invocation id of each execution, in order."""


def make_app(effects: Effects) -> Outlast:
    """An app with graphs in which everything happens: one that ends well, and one that fails."""
    app = Outlast("memory://")

    def note() -> None:
        step = current_step()
        effects.append((step.key, step.invocation_id))

    @app.step(name="give")
    async def give(value: Any = None) -> Any:
        note()
        return value

    @app.step(name="up")
    async def up(n: int | None) -> int:
        note()
        return (n or 0) + 1

    @app.step(name="fragile", retries=3, backoff=0)
    async def fragile(n: int) -> int:
        note()
        if n == 2:
            raise NonRetryable("two is too much")
        if current_step().attempt == 1:
            raise ValueError(f"{n} broke")
        return n

    app.graph(
        Graph("everything", max_visits=3)
        .node("begin", give, input=ref.input, next=["fan", "up"])
        .node("up", up, input={"n": ref.nodes.up | None}, next={"1": "up", "*": "join"})
        .node(
            "fan",
            fragile,
            for_each=ref.nodes.begin,
            limit=2,
            input=ref.item,
            on_error="told",
            after_error="continue",
            next={"error": "join", "*": None},
        )
        .node("told", give, input={"value": ref.error.failed[0].key})
        .node("join", give, input={"value": [ref.nodes.up, ref.nodes.fan]})
        .output({"joined": ref.nodes.join, "told": ref.nodes.told})
    )
    add_broken(app)
    return app


def add_broken(app: Outlast) -> None:
    """A graph that fails at its end: items one by one, none at all, a child, a handler."""
    inner = app.graph(
        Graph("inner", input={"name": str, "many": int})
        .node("inner", "give", input=f"{ref.input.name} of {ref.input.many}")
        .output(ref.nodes.inner)
    )
    app.graph(
        Graph("broken")
        .node("begin", "give", input=ref.input, next={"*": ["row", "none", "part"]})
        .node("row", "up", for_each=ref.nodes.begin, mode="sequential", input=ref.item, next="last")
        .node("none", "up", for_each=[], input=ref.item, next="last")
        .node("part", inner, input={"name": "part", "many": 2}, next="last")
        .node("last", "fragile", input=ref.nodes.row[0], on_error="told", retries=1)
        .node("told", "give", input=f"{ref.error.type} in {ref.error.key} after {ref.nodes.part}, {ref.nodes.none}")
    )


class Scenario(NamedTuple):
    """A graph, and what comes of it where nobody dies."""

    graph: str
    input: list[int]
    end: Any
    """Its output, or the message of the error that it fails with."""
    times: Counter[str]
    """How often each step is executed."""


EVERYTHING = Scenario(
    "everything",
    [1, 2, 3],
    {"joined": [2, [1, None, 3]], "told": "fan[1]"},
    Counter(["begin", "up", "up#1", "fan[0]", "fan[0]", "fan[1]", "fan[2]", "fan[2]", "told", "join"]),
)
BROKEN = Scenario("broken", [1, 4], "two is too much", Counter(["begin", "row[0]", "row[1]", "inner", "last", "told"]))


async def _end_of(app: Outlast, id: str) -> Any:
    try:
        return await (await app.get_run(id)).result(timeout=20)
    except RunFailed as failed:
        return str(failed.error)


async def _end_when_started(app: Outlast, id: str, starting: asyncio.Task[Any]) -> Any:
    await asyncio.wait({starting})
    return await _end_of(app, id)


async def _count(kind: str, place: Path, scenario: Scenario) -> int:
    """How many commits a run takes that nothing disturbs."""
    effects: Effects = []
    store = Mortal(make_store(kind, place, Clock()))
    async with world_stops_at(lambda: make_app(effects), store) as app:
        await app.start(scenario.graph, scenario.input, id="whole")
        assert await _end_of(app, "whole") == scenario.end
    assert Counter(key for key, _ in effects) == scenario.times
    return store.commits


async def _stop_at(kind: str, place: Path, scenario: Scenario, number: int, *, landed: bool) -> tuple[Effects, bool]:
    """One life that ends there, and another that goes on a minute later; what both did, and whether it came so far.

    Outcomes that meet share a commit, so a run may take fewer than another did.
    """
    effects: Effects = []
    clock, id, start = Clock(), place.name, (scenario.graph, scenario.input)
    first = Mortal(make_store(kind, place, clock), number, landed=landed)
    async with world_stops_at(lambda: make_app(effects), first) as one:
        starting = asyncio.create_task(one.start(*start, id=id))
        ended = asyncio.create_task(_end_when_started(one, id, starting))
        died = asyncio.create_task(first.died.wait())
        done, _ = await asyncio.wait({ended, died}, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        assert done
        await let_pass(kind, clock, 60)
        async with world_stops_at(lambda: make_app(effects), Mortal(make_store(kind, place, clock))) as other:
            await other.start(*start, id=id)  # who was not told asks again
            assert await _end_of(other, id) == scenario.end
        for task in (starting, ended, died):
            task.cancel()
        await asyncio.wait({starting, ended, died})
    return effects, first.died.is_set()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
@pytest.mark.parametrize("scenario", [EVERYTHING, BROKEN], ids=lambda scenario: scenario.graph)
async def test_a_graph_ends_the_same_wherever_its_world_stopped(scenario: Scenario, kind: str, tmp_path: Path) -> None:
    """Each effect has one invocation id, whoever executed it, and nothing is done that was not to be done."""
    (tmp_path / "whole").mkdir()
    count = await _count(kind, tmp_path / "whole", scenario)
    assert count >= len(scenario.times)
    deaths = 0
    moments = [(number, landed) for number in range(count) for landed in (False, True)]
    if kind == "postgres":  # a start takes it a third of a second
        moments = moments[::5]
    for number, landed in moments:
        place = tmp_path / f"{number}-{landed}"
        place.mkdir()
        effects, died = await _stop_at(kind, place, scenario, number, landed=landed)
        _check(effects, scenario.times, f"stopped at commit {number}, which {'landed' if landed else 'did not land'}")
        deaths += died
    assert deaths > len(moments) // 2
    if kind == "postgres":
        await postgres_schemas.empty_schema()


def _check(effects: Effects, expected: Counter[str], when: str) -> None:
    ids = defaultdict(set)
    for key, invocation in effects:
        ids[key].add(invocation)
    assert ids.keys() == expected.keys(), when
    assert all(len(found) == 1 for found in ids.values()), when
    assert len({found for some in ids.values() for found in some}) == len(ids), when
    times = Counter(key for key, _ in effects)
    assert all(times[key] <= expected[key] + 1 for key in times), (when, times)
