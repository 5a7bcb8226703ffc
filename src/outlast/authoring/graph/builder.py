"""`Graph`: a graph written in Python. Layer: authoring.

    app.graph(
        Graph("fulfil", input={"order": str, "items": list})
        .node("charge", charge, input={"order": ref.input.order}, next="pack")
        .node("pack", pack, for_each=ref.input["items"], input={"item": ref.item})
        .output({"receipt": ref.nodes.charge, "parcels": ref.nodes.pack})
    )

What always holds: it makes the same definition as the same graph in JSON or YAML, goes through the same checks, and has
the same fingerprint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Self, TypeAlias, TypedDict, Union, Unpack, get_args, get_origin  # pyright: ignore[reportDeprecated] - to recognise it

from outlast.authoring.graph.refs import Ref, to_data
from outlast.authoring.step import Step
from outlast.authoring.workflow import Workflow
from outlast.core.durations import Duration, format_duration, parse_duration
from outlast.core.graph.definition import After, GraphDefinition, Mode
from outlast.core.graph.problems import graph_error, shorten
from outlast.core.graph.reading import read_data, write_json
from outlast.core.retry import Exponential, Fixed

__all__ = ["Called", "Graph", "NodeOptions", "define_graph"]

Called: TypeAlias = Step[..., Any] | Workflow[..., Any]
Targets: TypeAlias = str | Sequence[str] | None


class NodeOptions(TypedDict, total=False):
    """What may be said of a node beside what it calls, with what, and what comes next."""

    branch: Ref | str
    """What decides between the keys of `next`: `ref.output.verdict`. Without it the result itself."""
    on_error: str
    """The node that is told, once, when this one has failed for good."""
    after_error: After
    """`"fail"` (the default): the run fails then. `"continue"`: it goes on at `next`, by the key `error` if it has."""
    for_each: Ref | str | Sequence[Any]
    """A list, or a reference to one: the node is done for each item. `ref.item` is the item, `ref.index` its number."""
    mode: Mode
    """Of `for_each`: `"parallel"` (the default) or `"sequential"`."""
    limit: int
    """Of `for_each`: how many items at once. Default 20."""
    max_visits: int
    """How often a run may come here. Needed somewhere on each cycle."""
    retries: int
    """As for steps; what is not said is as the step says itself."""
    backoff: Duration | Exponential | Fixed
    timeout: Duration
    heartbeat_timeout: Duration
    queue: str
    executor: str
    at_most_once: bool
    compensate: bool
    notes: str
    """For people: changes nothing."""


class Graph:
    """A graph under construction: `node` and `output` give the graph itself, so that calls can be chained."""

    def __init__(
        self,
        name: str,
        *,
        input: Mapping[str, Any] | None = None,
        entry: Targets = None,
        max_visits: int | None = None,
        notes: str = "",
    ) -> None:
        """`input`: the type of each field of a run's input; with `| None` it may be left out. None: any value.

        `entry`: where runs begin; by default at the nodes that nothing leads to. `max_visits`: how often a run may come
        to a node that does not say itself. Nothing is checked before `app.graph`.
        """
        self.name = name
        self.calls: dict[str, Called] = {}
        """What nodes call, where it was given as itself."""
        given = {"entry": _targets(entry), "max_visits": max_visits, "notes": notes or None}
        self._data: dict[str, Any] = {"name": name} | {key: part for key, part in given.items() if part is not None}
        if input is not None:
            self._data["input"] = {field: _name_type(kind) for field, kind in input.items()}
        self._nodes: dict[str, dict[str, Any]] = {}

    def __repr__(self) -> str:
        return f"<graph {self.name!r}, {len(self._nodes)} nodes>"

    def node(
        self,
        id: str,
        call: Called | str,
        /,
        *,
        input: Any = None,
        next: Targets | Mapping[str, Targets] = None,
        **options: Unpack[NodeOptions],
    ) -> Self:
        """Add a node that calls a step, a workflow, or the step of this name.

        `input`: by parameter name, or the value of the only parameter. `next`: one node, several, or by the key of a
        branch: `{"yes": "ship", "no": None, "*": "ask"}`. Raises InvalidDefinition for an id that is taken.
        """
        if id in self._nodes:
            raise graph_error(self.name, "There are two nodes of this id", "Rename one.", node=id)
        node: dict[str, Any] = {_kind(call): call if isinstance(call, str) else _called_name(call)}
        if not isinstance(call, str):
            self.calls[id] = call
        given: dict[str, Any] = {"input": to_data(input), "next": _next(next), **options}
        node |= {name: _option(name, value) for name, value in given.items() if value is not None}
        self._nodes[id] = node
        return self

    def workflow(
        self,
        id: str,
        name: str,
        /,
        *,
        input: Any = None,
        next: Targets | Mapping[str, Targets] = None,
        **options: Unpack[NodeOptions],
    ) -> Self:
        """Add a node that calls the workflow of this name: as `node` does where it is at hand itself."""
        self.node(id, name, input=input, next=next, **options)
        self._nodes[id]["workflow"] = self._nodes[id].pop("function")
        return self

    def output(self, value: Any, /) -> Self:
        """What a run gives: a value with references."""
        self._data["output"] = to_data(value)
        return self

    def define(self) -> GraphDefinition:
        """The definition. Raises InvalidDefinition for what is no field of a graph."""
        return read_data({**self._data, "nodes": self._nodes}, f"graph {shorten(self.name)}")

    def to_json(self) -> bytes:
        """The graph as JSON: `app.graph_from` reads it back, with the same fingerprint."""
        return write_json(self.define())


def define_graph(graph: Graph | GraphDefinition | Mapping[str, Any]) -> GraphDefinition:
    """The definition of a graph, whichever way it is given. Raises InvalidDefinition."""
    if isinstance(graph, Graph):
        return graph.define()
    return graph if isinstance(graph, GraphDefinition) else read_data(graph)


def _kind(call: object) -> str:
    return "workflow" if isinstance(call, Workflow) else "function"


def _called_name(call: Called) -> str:
    return call.name if isinstance(call, Workflow) else call.function.name


def _targets(given: Targets) -> Any:
    return given if given is None or isinstance(given, str) else list(given)


def _next(given: Targets | Mapping[str, Targets]) -> Any:
    if isinstance(given, Mapping):
        return {key: _targets(targets) for key, targets in given.items()}
    return _targets(given)


def _option(name: str, value: Any) -> Any:
    """As JSON has it."""
    if name == "backoff" and isinstance(value, Exponential):
        first, cap = format_duration(value.first_us), format_duration(value.cap_us)
        return {"first": first, "factor": value.factor, "cap": cap, "jitter": value.jitter}
    if name == "backoff" and isinstance(value, Fixed):
        return format_duration(value.delay_us)
    if name in {"backoff", "timeout", "heartbeat_timeout"} and not isinstance(value, str | int | float):
        return format_duration(parse_duration(value))
    return to_data(value)


_TYPES: Mapping[Any, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    tuple: "array",
    dict: "object",
    Any: "any",
    object: "any",
}


def _name_type(kind: Any) -> Any:
    """What JSON calls a type of Python; what is no type is left as it is."""
    if get_origin(kind) in {UnionType, Union}:  # pyright: ignore[reportDeprecated] - what Optional has
        others = [one for one in get_args(kind) if one is not NoneType]
        return f"{_name_type(others[0])}?" if len(others) == 1 else "any"
    found = _TYPES.get(get_origin(kind) or kind)
    return "object" if found is None and isinstance(kind, type) else found or kind
