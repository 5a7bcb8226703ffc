"""From a definition to a graph that can run: everything checked before a run exists (SPEC G3). Layer: core.

What always holds: a compiled graph has no way that leads nowhere, no reference to what cannot be there, no node that
nothing reaches, and no cycle that nothing ends. What its functions are, and what they take, is for the app to check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from outlast.core.graph.definition import GraphDefinition
from outlast.core.graph.inputs import Field, check_fields
from outlast.core.graph.limits import MOST_EDGES, MOST_HANDLERS, MOST_NESTED, MOST_VISITS
from outlast.core.graph.node import Node, compile_node, compile_value
from outlast.core.graph.problems import Problems, find_twice, list_names, shorten
from outlast.core.graph.references import Value
from outlast.core.graph.scoping import Scoping
from outlast.core.graph.shape import Shape, find_cycle
from outlast.core.keys import check_step_name
from outlast.errors import InvalidName

__all__ = ["CompiledGraph", "compile_graph"]


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """A graph, checked and ready to be walked."""

    name: str
    nodes: Mapping[str, Node]
    entries: tuple[str, ...]
    """Where a run may begin; it begins at all of them, unless its start says at which."""
    fields: tuple[Field, ...] | None
    """Of the input; None where they are not declared."""
    output: Value | None
    shape: Shape
    limits: Mapping[str, int]
    """How often nodes may be visited; those not named have no limit, and need none."""
    definition: GraphDefinition


def compile_graph(definition: GraphDefinition) -> CompiledGraph:
    """The graph. Raises InvalidDefinition, with all that is wrong, each with its node and field."""
    problems = Problems(definition.name)
    _check_name(definition.name, problems)
    nodes = {name: compile_node(name, given, problems) for name, given in definition.nodes.items()}
    _check_targets(nodes, problems)
    problems.check()  # what follows goes along the edges
    entries = _find_entries(definition, nodes, problems)
    problems.check()
    shape = Shape(entries, {name: node.follows for name, node in nodes.items()})
    limits = _find_limits(definition, nodes, problems)
    _check_ways(nodes, shape, problems)
    fields = None if definition.input is None else check_fields(definition.input, problems)
    output = None if definition.output is None else compile_value(definition.output, problems, field="output")
    Scoping(nodes, entries, shape, fields).check(output, problems)
    problems.check()
    return CompiledGraph(definition.name, nodes, entries, fields, output, shape, limits, definition)


def _check_name(name: str, problems: Problems) -> None:
    try:
        check_step_name(name, "graph name")
    except InvalidName as error:
        problems.add(f"The name {error.problem}", error.fix, field="name")


# --- edges ------------------------------------------------------------------------------------------------------------


def _check_targets(nodes: Mapping[str, Node], problems: Problems) -> None:
    known = f"There are {list_names([*nodes])}."
    if not nodes:
        problems.add("It has no nodes", "Add one.", field="nodes")
    if sum(len(node.follows) for node in nodes.values()) > MOST_EDGES:
        fix = "Take it apart: a node may be a workflow, which may be a graph."
        problems.add(f"It has over {MOST_EDGES:,} edges", fix, field="nodes")
    for node in nodes.values():
        for target in node.follows:
            if target not in nodes:
                problems.add(
                    f"It leads to {shorten(target)}, and there is no such node", known, node=node.id, field="next"
                )
        if node.on_error is not None and node.on_error not in nodes:
            problem = f"It leads to {shorten(node.on_error)}, and there is no such node"
            problems.add(problem, known, node=node.id, field="on_error")
    _check_handlers(nodes, problems)


def _check_handlers(nodes: Mapping[str, Node], problems: Problems) -> None:
    handlers = {name: [node.on_error] for name, node in nodes.items() if node.on_error is not None}
    cycle = find_cycle(handlers)
    if cycle:
        ways = " to ".join(map(shorten, [*cycle[:8], cycle[0]]))
        fix = "Let a handler be told of others' failures, not of its own."
        problems.add(f"Its handlers lead in a circle: {ways}", fix, node=cycle[0], field="on_error")
        return
    for name in handlers:
        length, at = 0, name
        while at in handlers and length <= MOST_HANDLERS:
            at, length = handlers[at][0], length + 1
        if length > MOST_HANDLERS:
            fix = "Let handlers be simple."
            problems.add(f"Over {MOST_HANDLERS} handlers follow each other", fix, node=name, field="on_error")
            return


def _find_entries(definition: GraphDefinition, nodes: Mapping[str, Node], problems: Problems) -> tuple[str, ...]:
    """As declared; else the nodes that nothing leads to."""
    given = definition.entry
    if given is None:
        led_to = {target for node in nodes.values() for target in node.follows}
        led_to |= {node.on_error for node in nodes.values() if node.on_error is not None}
        found = tuple(sorted(nodes.keys() - led_to))
        if not found:
            problem = "It has no entry node: some other node leads to each of its nodes"
            problems.add(problem, "Name in entry where a run begins.", field="entry")
        return found
    ids = [given] if isinstance(given, str) else given
    if not ids:
        problems.add("It has no entry node: entry is empty", "Name a node, or leave entry out.", field="entry")
    twice = find_twice(ids)
    if twice is not None:
        problems.add(f"It names {shorten(twice)} twice", "Name each node once.", field="entry")
    for name in ids:
        if name not in nodes:
            problem, fix = f"There is no node {shorten(name)}", f"There are {list_names([*nodes])}."
            problems.add(problem, fix, field="entry")
    return tuple(ids)


def _check_ways(nodes: Mapping[str, Node], shape: Shape, problems: Problems) -> None:
    """Each node can be reached; a node that only handles failures says nothing of what comes next."""
    unreached = dict.fromkeys(shape.iter_unreached())
    told = {node.on_error for node in nodes.values() if node.id not in unreached}
    waiting = [name for name in unreached if name in told]
    for name in waiting:  # handlers of what is reached, and their handlers
        handler = nodes[name].on_error
        if handler is not None and handler in unreached and handler not in told:
            told.add(handler)
            waiting.append(handler)
    for name in unreached:
        node = nodes[name]
        if name not in told:
            fix = "Let another node lead to it, name it in entry, or remove it."
            problems.add("It can never be reached", fix, node=name)
        elif node.follows or node.cases is not None:
            problem = "Only failures lead to it, and it has next"
            fix = "Let the node that may fail say in next what follows, with after_error: continue."
            problems.add(problem, fix, node=name, field="next")
    if shape.is_too_nested:
        fix = "Let the inner ones be a graph of their own, which a node calls as its workflow."
        problems.add(f"Over {MOST_NESTED} cycles lie within each other", fix)


def _find_limits(definition: GraphDefinition, nodes: Mapping[str, Node], problems: Problems) -> dict[str, int]:
    default = definition.max_visits
    if default is not None and not 1 <= default <= MOST_VISITS:
        problems.add(f"{default} is not from 1 to {MOST_VISITS:,}", "Choose another.", field="max_visits")
    limits: dict[str, int] = {}
    for name, node in nodes.items():
        limit = default if node.max_visits is None else node.max_visits
        if limit is not None:
            limits[name] = limit
    cycle = find_cycle({name: node.follows for name, node in nodes.items() if name not in limits})
    if cycle:
        ways = " to ".join(map(shorten, [*cycle[:8], *(["…"] if len(cycle) > 8 else []), cycle[0]]))
        fix = "Give one of these nodes max_visits: how often a run may come to it."
        problems.add(f"A cycle without a limit leads from {ways}", fix, node=cycle[0], field="max_visits")
    return limits
