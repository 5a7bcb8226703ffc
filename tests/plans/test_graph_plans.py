"""Graphs have plans like bodies."""

from __future__ import annotations

from typing import Any

from outlast import Module
from outlast.core.plan.mermaid import to_mermaid
from outlast.core.plan.plan import decode_plan, encode_plan

app: Any = Module("")

ORDERS = {
    "name": "orders",
    "input": {"items": "array", "big": "boolean"},
    "nodes": {
        "charge": {"function": "billing:charge", "input": "$input.big", "next": {"yes": "pack", "no": []}},
        "pack": {
            "function": "pack",
            "for_each": "$input.items",
            "mode": "parallel",
            "input": "$item",
            "on_error": "tell",
        },
        "tell": {"workflow": "tell"},
    },
}


def test_a_graph_is_drawn_as_a_body_is() -> None:
    """Its nodes are boxes, its edges arrows with their branch keys, a `for_each` a group."""  # SPEC G5
    plan = app.graph(ORDERS).plan
    assert plan.source == "graph"
    assert not plan.deterministic
    assert [(step.key, step.function, step.kind) for step in plan.steps] == [
        ("charge", "billing:charge", "step"),
        ("pack", "pack", "step"),
        ("tell", "tell", "child"),
    ]
    edges = {(edge.source, edge.target, edge.label, edge.kind) for edge in plan.flow.edges}
    assert edges == {
        ("#start", "charge", "", "next"),
        ("charge", "pack", "yes", "next"),
        ("charge", "#end", "no", "next"),
        ("pack", "#end", "", "next"),
        ("pack", "tell", "on error", "error"),
        ("tell", "#end", "", "next"),
    }
    assert [group.id for group in plan.flow.groups] == ["pack."]
    assert 'n1 -->|"yes"| n2' in to_mermaid(plan)
    assert decode_plan(encode_plan(plan)) == plan


def test_a_row_of_nodes_is_deterministic() -> None:
    """A graph without branch, loop and handler goes one way."""
    nodes = {"a": {"function": "f", "next": "b"}, "b": {"function": "g"}}
    assert app.graph({"name": "row", "nodes": nodes}).plan.deterministic
