"""A graph's plan: its nodes as boxes, its edges as arrows. Layer: core.

What always holds: every node is a box under its own id, which is its step's key; a node that is visited for each item
stands in a group of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from outlast.core.plan.flow import END, START
from outlast.core.plan.plan import Flow, FlowEdge, FlowGroup, FlowNode, Plan, PlannedStep, sentence_case

if TYPE_CHECKING:
    from outlast.core.graph.compiling import CompiledGraph
    from outlast.core.graph.node import Node

__all__ = ["plan_graph"]


def plan_graph(graph: CompiledGraph, workflow: str, version: str) -> Plan:
    """The plan of a graph that is registered as `workflow`."""
    nodes = graph.nodes.values()
    parts_ways = any(node.cases or node.for_each or node.on_error or node.goes_on for node in nodes)
    return Plan(
        workflow=workflow,
        version=version,
        source="graph",
        deterministic=not (parts_ways or graph.limits),
        steps=tuple(
            PlannedStep(node.id, sentence_case(node.id), node.call, "child" if node.is_workflow else "step")
            for node in nodes
        ),
        inputs=() if graph.fields is None else tuple(field.name for field in graph.fields),
        flow=Flow(tuple(_boxes(graph)), tuple(_arrows(graph)), tuple(_groups(graph))),
    )


def _boxes(graph: CompiledGraph) -> Iterator[FlowNode]:
    yield FlowNode(START, "start", graph.name)
    for node in graph.nodes.values():
        kind = "child" if node.is_workflow else "step"
        group = f"{node.id}." if node.for_each is not None else ""
        detail = node.call if node.call != node.id else ""
        yield FlowNode(node.id, kind, sentence_case(node.id), detail, group, (node.call,))
    yield FlowNode(END, "end", "end")


def _groups(graph: CompiledGraph) -> Iterator[FlowGroup]:
    for node in graph.nodes.values():
        if node.for_each is not None:
            given = graph.definition.nodes[node.id].for_each
            over = given if isinstance(given, str) else f"{len(given or [])} items"
            kind = "each, one by one" if node.limit == 1 else "each, side by side"
            yield FlowGroup(f"{node.id}.", kind, over)


def _arrows(graph: CompiledGraph) -> Iterator[FlowEdge]:
    for entry in graph.entries:
        yield FlowEdge(START, entry)
    for node in graph.nodes.values():
        yield from _ways_on(node)
        if node.on_error is not None:
            yield FlowEdge(node.id, node.on_error, "on error", "error")


def _ways_on(node: Node) -> Iterator[FlowEdge]:
    if node.cases is None:
        for target in node.targets or (END,):
            yield FlowEdge(node.id, target)
        return
    for key, targets in node.cases.items():
        for target in targets or (END,):
            yield FlowEdge(node.id, target, key)
