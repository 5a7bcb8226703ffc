"""Any graph without cycles does what a small interpreter says that goes through its nodes one by one (SPEC G2, G4)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from outlast.authoring.module import Module
from outlast.core.events import RunCompleted, RunFailed
from tests.authoring.player import Player

NAMES = [f"n{number}" for number in range(7)]


@dataclass
class Plan:
    """One node: whom it leads to, in groups that it chooses between, and what it does."""

    groups: list[list[str]]
    choice: int
    items: int | None
    """Of a fan-out: how many."""
    fails: bool
    goes_on: bool
    handled: bool


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Plan]:
    """Nodes by name, each leading to later ones; at most one failure is fatal, so that it is known which."""
    names = NAMES[: draw(st.integers(2, 7))]
    fatal = draw(st.none() | st.sampled_from(names))
    plans: dict[str, Plan] = {}
    for index, name in enumerate(names):
        later = names[index + 1 :]
        group = st.lists(st.sampled_from(later), unique=True, max_size=3) if later else st.just([])
        groups = draw(st.lists(group, min_size=1, max_size=3))
        fails = name == fatal or draw(st.integers(0, 3)) == 0
        items = draw(st.none() | st.integers(1 if fails else 0, 3))
        plans[name] = Plan(
            groups, draw(st.integers(0, 2)) % len(groups), items, fails, name != fatal, draw(st.booleans())
        )
    return plans


def before(plans: dict[str, Plan], name: str) -> list[str]:
    """All nodes that some way leads from to this one."""
    found: set[str] = set()
    for other in reversed([*plans][: [*plans].index(name)]):
        targets = {target for group in plans[other].groups for target in group}
        if targets & (found | {name}):
            found.add(other)
    return sorted(found)


def data_of(plans: dict[str, Plan]) -> dict[str, Any]:
    """The graph, in which each node gives what it was given by those before it."""
    nodes: dict[str, Any] = {"told": {"function": "work", "input": {"name": "told", "seen": ["$error.node"]}}}
    for name, plan in plans.items():
        seen = [f"$nodes.{other}?" for other in before(plans, name)]
        cases = {str(number): group for number, group in enumerate(plan.groups)}
        node = {"function": "work", "input": {"name": name, "seen": seen}, "branch": "$input.choice." + name}
        if plan.items is not None:
            node |= {"for_each": list(range(plan.items)), "limit": 2, "input": {**node["input"], "item": "$index"}}
        # After a failure that is not fatal the key is `error`: it leads where success would have led.
        nodes[name] = node | {"next": cases | {"error": cases[str(plan.choice)]}}
        nodes[name] |= {"after_error": "continue"} if plan.goes_on else {}
        nodes[name] |= {"on_error": "told"} if plan.handled and plan.fails else {}
    if not any(plan.handled and plan.fails for plan in plans.values()):
        del nodes["told"]
    entry = [name for name in plans if not before(plans, name)]
    return {"name": "random", "nodes": nodes, "entry": entry, "output": {name: f"$nodes.{name}?" for name in plans}}


@dataclass
class Told:
    """What the small interpreter says."""

    keys: set[str] = field(default_factory=set)
    values: dict[str, Any] = field(default_factory=dict)
    fails: str | None = None


def interpret(plans: dict[str, Plan]) -> Told:
    """One node after the other."""
    told = Told()
    reached = {name for name in plans if not before(plans, name)}
    for name, plan in plans.items():
        if name not in reached:
            continue
        seen = [told.values.get(other) for other in before(plans, name)]
        if plan.items is None:
            told.keys.add(name)
            told.values[name] = None if plan.fails else {"name": name, "seen": seen, "item": None}
        else:
            told.keys |= {f"{name}[{n}]" for n in range(plan.items)}
            given = [{"name": name, "seen": seen, "item": n} for n in range(plan.items)]
            told.values[name] = None if plan.fails and not plan.goes_on else given
            if plan.fails:  # its first item does
                told.values[name] = [None, *given[1:]]
        if plan.fails and not plan.goes_on:
            told.fails = name
            return told
        reached |= set(plan.groups[plan.choice])
    return told


def make_module(plans: dict[str, Plan]) -> Module:
    module = Module("")

    @module.step(name="work", retries=0)
    async def work(name: str, seen: list[Any], item: int | None = None) -> dict[str, Any]:
        if name in plans and plans[name].fails and not item:
            raise ValueError(name)
        return {"name": name, "seen": seen, "item": item}

    return module


@given(graphs(), st.lists(st.integers(0, 20), max_size=20))
@settings(max_examples=80)
def test_any_graph_does_what_a_small_interpreter_says(plans: dict[str, Plan], picks: list[int]) -> None:
    """The same steps with the same input and results, whichever of them ends first; and again on replay."""
    asyncio.run(_compare(plans, picks))


async def _compare(plans: dict[str, Plan], picks: list[int]) -> None:
    told = interpret(plans)
    module = make_module(plans)
    graph = module.graph(data_of(plans))
    graph.check(module)
    left = iter(picks)
    choice = {name: str(plan.choice) for name, plan in plans.items()}
    player = Player(graph, {"choice": choice}, registry=module)
    last = await player.play(lambda keys: keys[next(left, 0) % len(keys)])
    if told.fails is not None:
        assert isinstance(last, RunFailed)
        assert last.error.message == told.fails
    else:
        assert isinstance(last, RunCompleted)
        output = graph.decode_output(last.output)
        assert {name: value for name, value in output.items() if value is not None} == {
            name: value for name, value in told.values.items() if value is not None
        }
        assert {key for key in player.keys if not key.startswith("told")} == told.keys
        assert len(set(player.keys)) == len(player.keys)
        assert len(player.keys) - len(told.keys) == sum(
            plan.fails and plan.handled for name, plan in plans.items() if name in told.values
        )
    assert player.replay() == []
    player.close()
