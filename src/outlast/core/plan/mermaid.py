"""A plan as a Mermaid flowchart. Layer: core.

What always holds: whatever the names and texts of a plan are, the chart says no more than they do: they are quoted, and
cannot command the drawing.
"""

from __future__ import annotations

from typing import Final

from outlast.core.plan.flow import flow_of
from outlast.core.plan.plan import Flow, FlowEdge, FlowNode, Plan

__all__ = ["to_mermaid"]

_SHAPES: Final = {
    "start": ("([", "])"),
    "end": ("([", "])"),
    "child": ("[[", "]]"),
    "wait": ("(", ")"),
    "mark": (">", "]"),
    "branch": ("{", "}"),
    "loop": ("{{", "}}"),
    "parallel": ("[/", "\\]"),
    "join": ("[\\", "/]"),
    "raise": ("((", "))"),
}
_PLAIN_GROUPS: Final = frozenset({"loop", "parallel", "task", "try"})
"""Their first box says what they are."""
_ARROWS: Final = {"next": "-->", "back": "-.->", "error": "-.->", "beside": "-.->"}
_ESCAPED: Final = str.maketrans(
    {"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "\n": " ", "\r": " "}
)


def to_mermaid(plan: Plan) -> str:
    """The chart's source, from `flowchart` on; ends without a newline."""
    flow = flow_of(plan)
    names = {node.id: f"n{number}" for number, node in enumerate(flow.nodes)}
    names |= {group.id: f"g{number}" for number, group in enumerate(flow.groups)}
    lines = ["flowchart TD", *_draw_group(flow, "", names, "  ")]
    lines += [_draw_edge(edge, names) for edge in flow.edges if edge.source in names and edge.target in names]
    opaque = [names[node.id] for node in flow.nodes if node.kind == "opaque"]
    if opaque:
        lines += ["  classDef opaque stroke-dasharray: 4 4", f"  class {','.join(opaque)} opaque"]
    return "\n".join(lines)


def _draw_group(flow: Flow, group: str, names: dict[str, str], indent: str) -> list[str]:
    """What is in a group, those inside it last."""
    lines = [f"{indent}{_draw_node(node, names)}" for node in flow.nodes if node.group == group]
    for inner in flow.groups:
        if inner.group == group and inner.id != group:
            inside = _draw_group(flow, inner.id, names, f"{indent}  ")
            if inside:
                label = _quote(inner.kind if inner.kind in _PLAIN_GROUPS else f"{inner.kind}: {inner.label}")
                lines += [f"{indent}subgraph {names[inner.id]}[{label}]", *inside, f"{indent}end"]
    return lines


def _draw_node(node: FlowNode, names: dict[str, str]) -> str:
    first, last = _SHAPES.get(node.kind, ("[", "]"))
    label = node.label if not node.detail else f"{node.label} · {node.detail}"
    return f"{names[node.id]}{first}{_quote(label)}{last}"


def _draw_edge(edge: FlowEdge, names: dict[str, str]) -> str:
    arrow = _ARROWS.get(edge.kind, "-->")
    label = f"|{_quote(edge.label)}|" if edge.label else ""
    return f"  {names[edge.source]} {arrow}{label} {names[edge.target]}"


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPED)}"'
