"""What of a graph counts: one form for all ways to write it, and its fingerprint. Layer: core.

What always holds: notes, formatting, the order of keys, defaults written out, `"1m"` for `60`, and a reference written
otherwise change nothing; all that a run could notice changes it. The graph's name does not count: a run knows its
workflow by another one. So two graphs of one fingerprint walk alike, whichever way they were written.
"""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec

from outlast.core.durations import parse_duration
from outlast.core.graph.compiling import CompiledGraph
from outlast.core.graph.node import Node
from outlast.core.graph.references import ListValue, Literal, ObjectValue, Reference, Template, Value
from outlast.core.retry import Exponential, Fixed

__all__ = ["fingerprint_graph"]

_LENGTH: Final = 12
"""Hexadecimal digits, as of the fingerprint of a body."""
_encode = msgspec.json.Encoder(order="sorted").encode


def fingerprint_graph(graph: CompiledGraph) -> str:
    """Twelve hexadecimal digits."""
    return hashlib.sha256(_encode(to_canonical(graph))).hexdigest()[:_LENGTH]


def to_canonical(graph: CompiledGraph) -> dict[str, Any]:
    """The graph as plain data, with nothing in it that does not count."""
    fields = None if graph.fields is None else {field.name: field[1:] for field in graph.fields}
    return {
        "nodes": {name: _node(node, graph.limits.get(name)) for name, node in graph.nodes.items()},
        "entry": graph.entries,
        "input": fields,
        "output": None if graph.output is None else _value(graph.output),
    }


def _node(node: Node, limit: int | None) -> dict[str, Any]:
    return {
        "workflow" if node.is_workflow else "function": node.call,
        "input": None if node.input is None else [node.is_by_name, _value(node.input)],
        "next": node.targets if node.cases is None else node.cases,
        "branch": None if node.branch is None else _value(node.branch),
        "on_error": node.on_error,
        "goes_on": node.goes_on,
        "for_each": None if node.for_each is None else [_value(node.for_each), node.limit],
        "max_visits": limit,
        "options": {name: _option(name, value) for name, value in node.options.items()},
    }


def _option(name: str, value: Any) -> Any:
    if name in {"timeout", "heartbeat_timeout"}:
        return parse_duration(value)
    if isinstance(value, Fixed):
        return value.delay_us
    if isinstance(value, Exponential):
        return [value.first_us, value.factor, value.cap_us, value.jitter]
    return value


def _value(value: Value) -> Any:
    """Tagged, so that a literal text is not taken for a reference."""
    match value:
        case Literal(plain):
            return ["is", plain]
        case Reference():
            return ["at", value.inner]
        case Template(parts):
            return ["text", *(part if isinstance(part, str) else ["at", part.inner] for part in parts)]
        case ListValue(items):
            return ["list", *map(_value, items)]
        case ObjectValue(fields):
            return ["object", {name: _value(part) for name, part in fields}]
