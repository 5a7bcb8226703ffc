"""Plans of the examples, and of bodies written to be hard, are as they were found right and kept."""

from __future__ import annotations

import pytest

from outlast.core.plan.flow import flow_of
from outlast.core.plan.nodes import blocks_of, iter_nodes
from outlast.core.plan.plan import decode_plan, encode_plan
from tests.plans.kept import EXPECTED, kept, list_examples, list_hard, plan_of

WORKFLOWS = [*list_hard(), *list_examples()]
KEPT = kept()


@pytest.mark.parametrize("name", KEPT)
def test_a_plan_is_as_it_was_kept(name: str) -> None:
    """Steps in order, branches, loops, parallel groups and waits: as a person read them in the source."""  # SPEC V2
    assert KEPT[name] == (EXPECTED / name).read_text(encoding="utf-8")


def test_nothing_is_kept_that_is_not_compared() -> None:
    """A file that no workflow makes any more is gone."""
    assert {path.name for path in EXPECTED.iterdir()} == set(KEPT)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)
def test_a_plan_survives_the_store(workflow: object) -> None:
    """What is written as JSON is read back as it was."""
    plan = plan_of(workflow)  # type: ignore[arg-type]
    assert decode_plan(encode_plan(plan)) == plan


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda workflow: workflow.name)
def test_a_drawing_shows_every_node(workflow: object) -> None:
    """Each node of a plan is a box or a group of its drawing, and arrows lead from box to box."""  # SPEC G5
    plan = plan_of(workflow)  # type: ignore[arg-type]
    flow = flow_of(plan)
    boxes = [node.id for node in flow.nodes]
    assert len(boxes) == len(set(boxes))
    drawn = {*boxes, *(group.id.rstrip(".") for group in flow.groups)}
    for node in iter_nodes(plan.nodes):
        is_turn = type(node).__name__ == "EndNode" and getattr(node, "form", "") in {"break", "continue"}
        is_otherwise = type(node).__name__ == "BranchNode" and not any(block.nodes for block in blocks_of(node))
        assert node.id in drawn or is_turn or is_otherwise, node
    ends = {*boxes, *(group.id for group in flow.groups)}
    assert all(edge.source in ends and edge.target in boxes for edge in flow.edges)
