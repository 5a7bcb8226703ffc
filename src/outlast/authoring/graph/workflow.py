"""A graph as a workflow: what `app.graph` registers. Layer: authoring.

What always holds: it is a workflow like any other, whose body walks the graph and whose version is the graph's
fingerprint; its input is one value, which is checked, like the entry nodes asked for, before a run exists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from outlast.authoring.context import Context
from outlast.authoring.graph.arguments import GraphArguments, make_signature
from outlast.authoring.graph.body import GraphBody
from outlast.authoring.graph.matching import check_functions
from outlast.authoring.runs.extension import run_extended
from outlast.authoring.workflow import Workflow
from outlast.core.graph.canonical import fingerprint_graph
from outlast.core.graph.planning import plan_graph
from outlast.core.graph.reading import write_json

if TYPE_CHECKING:
    from outlast.authoring.module import Module
    from outlast.authoring.signature import Arguments
    from outlast.authoring.workflow import RunFacts
    from outlast.core.graph.compiling import CompiledGraph
    from outlast.core.graph.definition import GraphDefinition
    from outlast.core.machine import Machine
    from outlast.core.plan.plan import Plan

__all__ = ["GraphWorkflow"]


class GraphWorkflow(Workflow[..., Any]):
    """A graph that can be started: `app.start(graph, {"order": "A-17"})`, or by its name.

    A second argument names the entry nodes to begin at, where it has several: `app.start(graph, input, "refund")`. An
    empty list is all of them.
    """

    def __init__(self, graph: CompiledGraph, name: str, *, home: str = "", source: str = "") -> None:
        """Made by `app.graph`. `name` is the full one, `home` its module's; `source` says where it was read."""
        self._graph: Final = graph
        self._source: Final = source
        self._checked: Module | None = None
        super().__init__(make_signature(graph), name, home=home, version=fingerprint_graph(graph))
        self.__name__ = self.__qualname__ = graph.name

    def __repr__(self) -> str:
        return f"<graph {self.name!r}, version {self.version}>"

    @property
    def graph(self) -> CompiledGraph:
        """The graph, as it was checked."""
        return self._graph

    @property
    def plan(self) -> Plan:
        """Its nodes and edges, as plans show them."""
        return plan_graph(self._graph, self.name, self.version)

    @property
    def definition(self) -> GraphDefinition:
        """The graph as data."""
        return self.graph.definition

    @property
    def place(self) -> str:
        """Where it was read, for messages."""
        return f"graph {self.name!r}{f', {self._source}' if self._source else ''}"

    def to_json(self) -> bytes:
        """The graph as JSON, for a store or a person: `app.graph_from` reads it back."""
        return write_json(self.definition)

    # --- what the app and the engine call -----------------------------------------------------------------------------

    def check(self, registry: Module) -> None:
        """Raise InvalidDefinition for a node whose function `registry` does not know, or that takes other arguments.

        Graphs that its nodes call as workflows are checked with it.
        """
        waiting: list[GraphWorkflow] = [self]
        for workflow in waiting:
            waiting += [other for other in workflow.check_alone(registry) if other not in waiting]

    def check_alone(self, registry: Module) -> list[GraphWorkflow]:
        """Check this graph; gives those that its nodes call."""
        if self._checked is not registry:
            check_functions(self.graph, registry, self._home)
            self._checked = registry
        called = (registry.find_workflow(node.call, self._home) for node in self.graph.nodes.values())
        return list({id(other): other for other in called if isinstance(other, GraphWorkflow)}.values())

    def definition_json(self) -> bytes:
        """The graph as JSON."""
        return self.to_json()

    def encode_input(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """The input of a run that is about to start: one value, and the entry nodes; or the value's fields by name."""
        return self._input.encode_start(args, kwargs)

    def decode_input_json(self, data: bytes) -> bytes:
        """The same from JSON: the value alone, or `{"$entry": […], "$input": …}`."""
        return self._input.decode_start(data)

    def _declare_arguments(self, fn: Callable[..., Any], name: str) -> Arguments:
        self._input = GraphArguments(fn, self.graph, name)
        return self._input

    async def run_body(self, machine: Machine, facts: RunFacts) -> bytes:
        """The coroutine of a run: gives the output as JSON."""
        (value, entry), _ = self.arguments.decode_call(machine.started.input)
        context = Context(machine, facts, self._home)
        body = GraphBody(context, self.graph, facts.registry, self._home, msgspec.to_builtins(value))
        running = functools.partial(body.run, entry or self.graph.entries)
        output = await run_extended(context, facts.registry.extensions, running)
        return self.arguments.returns.settle(output)[0]
