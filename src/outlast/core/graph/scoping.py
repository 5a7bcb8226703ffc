"""What a value may refer to: checked against the graph before anything runs. Layer: core.

What always holds: a reference that passes names something that can be there. It may still not be, where a branch went
another way: it then has to end in `?`, or the run fails and says which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from outlast.core.graph.inputs import Field
from outlast.core.graph.node import Node
from outlast.core.graph.problems import Problems, list_names, shorten
from outlast.core.graph.references import Reference, Value, iter_references
from outlast.core.graph.shape import Shape

__all__ = ["ERROR_FIELDS", "RUN_FIELDS", "Scoping"]

RUN_FIELDS: Final = ("id", "uid", "user", "workflow")
"""What `$run` has."""
ERROR_FIELDS: Final = ("node", "key", "invocation_id", "type", "message", "code", "input", "index", "failed")
"""What `$error` has."""

_EVERYWHERE: Final = frozenset({"input", "nodes", "run"})


class Scoping:
    """Of one graph."""

    def __init__(
        self, nodes: Mapping[str, Node], entries: Sequence[str], shape: Shape, fields: tuple[Field, ...] | None
    ) -> None:
        self._nodes = nodes
        self._fields = None if fields is None else {field.name for field in fields}
        self._handlers = {node.on_error for node in nodes.values() if node.on_error is not None}
        reached = {target for node in nodes.values() for target in node.follows} | {*entries}
        self._only_handlers = self._handlers - reached
        self._order = shape if not self._handlers else Shape(entries, _with_handlers(nodes))

    def check(self, output: Value | None, problems: Problems) -> None:
        """All references of the nodes, and of the graph's output."""
        for node in self._nodes.values():
            for field, value in node.iter_values():
                for reference in iter_references(value):
                    found = self._check_in_node(reference, node, field)
                    if found is not None:
                        problems.add(*found, node=node.id, field=field)
        if output is not None:
            for reference in iter_references(output):
                found = self._check(reference, _EVERYWHERE)
                if found is not None:
                    problems.add(*found, field="output")

    def _check_in_node(self, reference: Reference, node: Node, field: str) -> tuple[str, str] | None:
        allowed = {*_EVERYWHERE}
        if field == "branch":
            allowed.add("output")
        if field == "input" and node.for_each is not None:
            allowed |= {"item", "index"}
        if field != "branch" and node.id in self._handlers:
            allowed.add("error")
        found = self._check(reference, allowed)
        if found is not None:
            return found
        if reference.root == "error" and not reference.is_optional and node.id not in self._only_handlers:
            fix = f"Write {reference}?, which is null where the node is reached without a failure."
            return f"{reference} is not always there: other ways than a failure lead here", fix
        if reference.root == "nodes" and not self._order.is_before(reference.node, node.id):
            fix = "Let a way lead from there to here, or refer to another node."
            return f"{reference} refers to a node that never comes before this one", fix
        return None

    def _check(self, reference: Reference, allowed: frozenset[str] | set[str]) -> tuple[str, str] | None:
        """What is wrong with it wherever it stands, and what to do."""
        root, path = reference.root, reference.path
        if root not in allowed:
            return f"{reference} cannot stand here", f"Here {_list_roots(allowed)} can be referred to.{_hint(root)}"
        if root == "nodes" and reference.node not in self._nodes:
            return f"{reference} refers to no node", f"There are {list_names([*self._nodes])}."
        known = {"run": RUN_FIELDS, "error": ERROR_FIELDS, "input": self._fields}.get(root)
        if known is not None and path and path[0] not in known:
            fix = f"There are {list_names(sorted(known))}." if known else "Declare it in input."
            return f"{reference} refers to {shorten(path[0])}, which ${root} does not have", fix
        return None


def _with_handlers(nodes: Mapping[str, Node]) -> dict[str, tuple[str, ...]]:
    """The edges in whose order values come to be: a handler comes after the node that failed, and before what follows.

    It also knows all that node knew, which is before it anyway.
    """
    edges = {name: {*node.follows} for name, node in nodes.items()}
    for node in nodes.values():
        handler = node.on_error
        if handler is not None:
            edges[node.id].add(handler)
            if node.goes_on:
                edges[handler] |= {*node.follows}
    return {name: tuple(sorted(targets)) for name, targets in edges.items()}


def _list_roots(roots: frozenset[str] | set[str]) -> str:
    return ", ".join(f"${root}" for root in sorted(roots))


def _hint(root: str) -> str:
    match root:
        case "item" | "index":
            return " They are there in the input of a node with for_each."
        case "error":
            return " It is there in a node that an on_error names."
        case "output":
            return " It is there in branch; elsewhere write $nodes and the node's name."
        case _:
            return ""
