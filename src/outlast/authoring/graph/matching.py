"""Whether a graph's nodes fit the functions there are: that they exist, and take what they are given. Layer: authoring.

What always holds: it is asked before a run of the graph exists, with the app that starts it; so a slip in a name costs
an error, not a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from outlast.authoring.step import Step
from outlast.authoring.workflow import Workflow
from outlast.core.graph.problems import Problems, shorten
from outlast.core.graph.references import Literal, ObjectValue

if TYPE_CHECKING:
    from outlast.authoring.module import Module
    from outlast.authoring.signature import Arguments
    from outlast.core.graph.compiling import CompiledGraph
    from outlast.core.graph.node import Node

__all__ = ["check_calls", "check_functions"]


def check_functions(graph: CompiledGraph, registry: Module, home: str) -> None:
    """Raises InvalidDefinition for a function that `registry` does not know, or that takes other arguments."""
    problems = Problems(graph.name)
    for node in graph.nodes.values():
        find = registry.find_workflow if node.is_workflow else registry.find_step
        found = find(node.call, home)
        if found is None:
            _add_unknown(node, registry, home, problems)
        else:
            _check_arguments(node, found, problems)
    problems.check()


def check_calls(graph: CompiledGraph, calls: Mapping[str, object], registry: Module) -> None:
    """That what the builder was given is what the names stand for. Raises InvalidDefinition.

    A step that `step.options(…)` made is another object: a node keeps names, and would lose the options.
    """
    problems = Problems(graph.name)
    for name, call in calls.items():
        node = graph.nodes[name]
        found = registry.find_workflow(node.call) if node.is_workflow else registry.find_step(node.call)
        if found is not None and found is not call:
            fix = "Give the step as it was declared, and its options to the node."
            problems.add(f"It calls {call!r}, and {shorten(node.call)} is another one here", fix, node=name)
    problems.check()


def _add_unknown(node: Node, registry: Module, home: str, problems: Problems) -> None:
    kind, other = ("workflow", "step") if node.is_workflow else ("step", "workflow")
    there = registry.find_step(node.call, home) if node.is_workflow else registry.find_workflow(node.call, home)
    if there is None:
        problem, fix = f"No {kind} is registered as {shorten(node.call)}", "Declare or include it, or correct the name."
    else:
        problem = f"{shorten(node.call)} is a {other}, not a {kind}"
        fix = f"Write {'function' if node.is_workflow else 'workflow'} in place of the field."
    problems.add(problem, fix, node=node.id, field="workflow" if node.is_workflow else "function")


def _check_arguments(node: Node, found: Step[..., Any] | Workflow[..., Any], problems: Problems) -> None:
    given = _list_given(node)
    if isinstance(found, Workflow) and found.graph is not None:
        problem = _misfit_of_graph(found.graph, given)
    else:
        arguments = found.arguments if isinstance(found, Workflow) else found.function.arguments
        problem = _misfit(arguments, given)
    if problem:
        fix = "Give what it takes, by parameter name."
        problems.add(f"{shorten(node.call)} {problem}", fix, node=node.id, field="input")


def _list_given(node: Node) -> list[str] | None:
    """The names of the parameters that it is given; None for the value of its only one."""
    if not node.is_by_name:
        return None
    if isinstance(node.input, ObjectValue):
        return [name for name, _ in node.input.fields]
    return list(node.input.value) if isinstance(node.input, Literal) else []


def _misfit(arguments: Arguments, given: list[str] | None) -> str:
    """What is wrong with calling it so; empty if nothing is."""
    if given is None:
        count = len(arguments.names)
        return "" if count == 1 else f"takes {count} parameters, and is given one value"
    try:
        arguments.signature.bind(**dict.fromkeys(given))
    except TypeError as error:
        return f"cannot be called so: {error}"
    return ""


def _misfit_of_graph(graph: CompiledGraph, given: list[str] | None) -> str:
    if given is None:
        return "is a graph, whose input is an object, and is given one value"
    if graph.fields is None:
        return ""
    names = [field.name for field in graph.fields]
    missing = [field.name for field in graph.fields if field.is_required and field.name not in given]
    unknown = [name for name in given if name not in names]
    if missing:
        return f"cannot be called so: missing the field {shorten(missing[0])} of its input"
    return f"cannot be called so: its input has no field {shorten(unknown[0])}" if unknown else ""
