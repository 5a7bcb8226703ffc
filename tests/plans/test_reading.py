"""What a plan says, and what it does not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from outlast import Context, Module
from outlast.core.plan.expressions import Reference
from outlast.core.plan.mermaid import to_mermaid
from outlast.core.plan.nodes import ChildNode, FunctionNode, OpaqueNode, ParallelNode, StepNode, iter_nodes
from outlast.core.plan.plan import FORMAT, Plan, decode_plan, encode_plan, sentence_case
from tests.plans import hard, hard_parallel
from tests.plans.kept import plan_of
from tests.plans.outline import outline

app: Any = Module("")


@app.step
async def charge_card(order: str) -> str:
    return order


def steps_of(plan: Plan) -> list[StepNode]:
    return [node for node in iter_nodes(plan.nodes) if isinstance(node, StepNode)]


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("charge_card", "Charge card"),
        ("chargeCard", "Charge card"),
        ("billing:charge-card", "Charge card"),
        ("HTTPFetch", "HTTP fetch"),
        ("ask the customer", "Ask the customer"),
        ("x2", "X2"),
        ("_private", "Private"),
        ("zahle_ü", "Zahle ü"),
        ("🚀", "🚀"),
        ("__", "__"),
    ],
)
def test_labels_are_in_sentence_case(name: str, label: str) -> None:
    """A planned step has a label that a person can read."""  # SPEC V2
    assert sentence_case(name) == label


def test_keys_of_a_deterministic_plan_are_those_of_its_runs() -> None:
    """Where there is neither branch nor loop, the plan knows each step's key."""  # SPEC V2
    plan = plan_of(hard.deterministic)
    assert plan.deterministic
    assert [step.key for step in plan.steps] == ["charge", "pack-it", "check", "charge#1"]
    assert [step.label for step in plan.steps] == ["Charge", "Pack it", "Check", "Charge"]


def test_arguments_are_literals_and_references() -> None:
    """An argument says whether it is the input, a result of an earlier node, or something else, and where from."""
    first, second = [node for node in steps_of(plan_of(hard.deterministic)) if node.function == "charge"]
    assert first.arguments[0].value == Reference("order", "input")
    assert second.arguments[0].value == Reference("first", "result", "pack-it")
    assert second.arguments[1].name == "amount"
    assert second.arguments[1].value == Reference("second", "result", "check")


def test_a_step_is_known_under_both_its_names() -> None:
    """The registered name, and the one that `.options(name=…)` gives for this call."""
    steps = {node.name: node.function for node in steps_of(plan_of(hard.aliases))}
    assert steps["third try"] == "charge"
    assert steps["second try"] == "charge"
    assert steps["billing:refund"] == "billing:refund"


@app.workflow(name="whole")
async def awaiting(ctx: Context, order: str) -> list[Any]:
    receipt = await charge_card(order)
    first, second = await asyncio.gather(charge_card("a"), charge_card("b"))
    if receipt:
        await ctx.sleep("1h")
    answer = await ctx.approval("ship it?", bool)
    await several(ctx, order)
    return [first, second, answer]


async def several(ctx: Context, order: str) -> Any:
    child = await ctx.start("other", order)
    return await asyncio.wait_for(child.result(), 3)


plain: Any = Module("")


@plain.workflow(name="whole")
def waiting(ctx: Context, order: str) -> list[Any]:
    receipt = ctx.wait(charge_card(order))
    first, second = ctx.gather(charge_card("a"), charge_card("b"))
    if receipt:
        ctx.wait(ctx.sleep("1h"))
    answer = ctx.wait(ctx.approval("ship it?", bool))
    several_plainly(ctx, order)
    return [first, second, answer]


def several_plainly(ctx: Context, order: str) -> Any:
    child = ctx.wait(ctx.start("other", order))
    return ctx.wait(asyncio.wait_for(child.result(), 3))


def test_a_plain_body_has_the_plan_of_its_async_twin() -> None:
    """`ctx.wait(…)` says what `await …` says, and `ctx.gather(…)` what `await asyncio.gather(…)`."""  # SPEC V2, R11
    twin = outline(plan_of(awaiting)).replace("asyncio.gather", "ctx.gather").replace("several(", "several_plainly(")
    assert outline(plan_of(waiting)) == twin
    assert "opaque" not in twin


@plain.workflow(name="branches")
def branches(ctx: Context, order: str) -> list[Any]:
    def twice() -> str:
        return ctx.wait(charge_card(order)) + ctx.wait(charge_card("c"))

    ctx.gather(*(lambda o=o: ctx.wait(charge_card(o)) for o in order))
    return ctx.gather(lambda: ctx.wait(charge_card(order)), charge_card("b"), twice)


def test_plain_functions_side_by_side_are_lanes() -> None:
    """Each stands in a lane of the group, with what it does."""
    each, group = (node for node in iter_nodes(plan_of(branches).nodes) if isinstance(node, ParallelNode))
    assert outline(plan_of(branches)).count("opaque") == 0
    assert [(type(node).__name__, node.label) for lane in each.lanes for node in lane] == [
        ("LoopNode", "for o in order")
    ]
    assert [[type(node).__name__ for node in lane] for lane in group.lanes] == [
        ["FunctionNode"], ["StepNode"], ["FunctionNode"],
    ]  # fmt: skip
    assert [step.key for step in plan_of(branches).steps] == ["charge_card", *(f"charge_card#{n}" for n in range(1, 5))]


def test_what_cannot_be_read_has_its_source_and_line() -> None:
    """An opaque node says where it is, why, and which steps may run there."""  # SPEC V2
    source = inspect_lines(hard.unreadable)
    for node in iter_nodes(plan_of(hard.unreadable).nodes):
        if isinstance(node, OpaqueNode):
            assert node.why
            assert node.source.partition("(")[0].removeprefix("await ") in source[node.line]


def inspect_lines(workflow: Any) -> dict[int, str]:
    import inspect

    lines, first = inspect.getsourcelines(workflow.fn)
    return dict(enumerate(lines, first))


def test_lines_in_a_followed_function_are_its_own() -> None:
    """A helper's nodes say where they stand in the helper's file."""
    (node,) = [
        n for n in iter_nodes(plan_of(hard.helpers).nodes) if isinstance(n, FunctionNode) and n.function == "prepare"
    ]
    assert node.module == "tests.plans.hard"
    lines = inspect_lines(hard.helpers)
    assert node.line in lines
    assert all(inner.line not in lines for inner in iter_nodes(node.body))


def test_a_child_is_part_of_the_plan_not_its_body() -> None:
    """A workflow that is called is one node; one whose body is run within this run is read in its place."""
    nodes = list(iter_nodes(plan_of(hard_parallel.children).nodes))
    assert [node.workflow for node in nodes if isinstance(node, ChildNode)] == ["nested_loops", "walrus", "matching"]
    assert [node.function for node in nodes if isinstance(node, FunctionNode)] == ["walrus"]


def test_a_workflow_without_source_has_no_plan() -> None:
    """Code that was made by `exec` is run as any other; only its plan is not known."""
    namespace: dict[str, Any] = {"app": app, "Context": Context, "__name__": "nowhere"}
    exec("@app.workflow\nasync def made(ctx: Context) -> None: ...", namespace)
    assert namespace["made"].plan is None
    assert namespace["made"].version.startswith("b-")


def test_a_plan_of_another_release_is_read_as_far_as_it_can_be() -> None:
    """Fields that this release does not know are passed over; a plan it would misread is none."""
    plan = plan_of(hard.trying)
    document = json.loads(encode_plan(plan))
    document["colour"] = "blue"
    document["nodes"][0]["weight"] = 5
    assert decode_plan(json.dumps(document).encode()) == plan
    assert decode_plan(json.dumps({**document, "format": FORMAT + 1}).encode()) is None
    document["nodes"][0]["kind"] = "invented"
    assert decode_plan(json.dumps(document).encode()) is None
    assert decode_plan(b"not json") is None


def test_a_plan_of_the_first_release_stays_readable() -> None:
    """What was stored once is read for ever: every kind of node, as the first release wrote it."""
    kinds = ["step", "child", "wait", "mark", "branch", "loop", "parallel", "try", "scope", "function", "task", "join"]
    nodes = [{"kind": kind, "id": f"#{kind}", "line": 3, "label": kind} for kind in [*kinds, "end", "opaque"]]
    plan = decode_plan(json.dumps({"workflow": "w", "version": "1", "nodes": nodes}).encode())
    assert plan is not None
    assert [node.id for node in plan.nodes] == [f"#{kind}" for kind in [*kinds, "end", "opaque"]]


def test_a_drawing_cannot_be_commanded() -> None:
    """Quotes, brackets and line ends in names stay text in a Mermaid chart."""  # SPEC G5

    @app.workflow(name='evil"]; click n0 "x')
    async def evil(ctx: Context, order: str) -> None:
        await charge_card.options(name='a"]\n  end\n  %% <b>`#quot;')(order)

    text = to_mermaid(plan_of(evil))
    assert text.count('"') == 2 * text.count('["') + 2 * text.count('(["') - 2 * text.count('(["')
    assert "\n  end\n" not in text
    assert "<b>" not in text
    assert "`" not in text
