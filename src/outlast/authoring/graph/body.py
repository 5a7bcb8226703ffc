"""What runs when a graph does: its body. Layer: authoring.

It walks the graph (`core.graph.walk`): each visit is a task that calls the node's function as a step named after the
node, or its workflow as a child, and when that has ended sends tokens on. What always holds: a visit's values are read
at the moment it begins, so what a node gets does not depend on what happens while it waits for its turn; and an item of
a fan-out costs the same whether there are ten of them or ten thousand.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from outlast.authoring.codec import Returns
from outlast.authoring.graph.visit import Caller, Scope, Visit, is_step_failure
from outlast.authoring.mapping import Spawn, run_together
from outlast.authoring.step import call_durably, settle_options
from outlast.core.graph.node import ANY_KEY, ERROR_KEY
from outlast.core.graph.problems import list_names, shorten
from outlast.core.graph.references import Missing, Value, kind_of
from outlast.core.graph.walk import Exhausted, Walk
from outlast.errors import GraphFailed

if TYPE_CHECKING:
    from outlast.authoring.context import Context
    from outlast.authoring.module import Module
    from outlast.core.graph.compiling import CompiledGraph
    from outlast.core.graph.node import Node

__all__ = ["GraphBody"]

_PLAIN = Returns("a node")
"""Results as plain JSON: what other nodes refer to."""


class GraphBody:
    """One run's body. `home` is the module whose bare names come first."""

    def __init__(self, ctx: Context, graph: CompiledGraph, registry: Module, home: str, input: Any) -> None:
        self._ctx = ctx
        self._graph = graph
        self._registry = registry
        self._home = home
        self._walk = Walk(graph.shape, graph.limits)
        self._outputs: dict[str, Any] = {}
        run = {"id": ctx.run_id, "uid": ctx.uid, "user": ctx.user, "workflow": ctx.workflow}
        self._scope: Scope = {"input": input, "nodes": self._outputs, "run": run}
        self._callers: dict[str, Caller] = {}

    async def run(self, entries: Sequence[str]) -> Any:
        """Walk from these nodes to the end; gives the output. Raises GraphFailed, and what a node failed with."""
        await run_together(lambda spawn: self._go(spawn, self._walk.begin(entries)))
        output = self._graph.output
        return None if output is None else self._resolve(output, self._scope, "", "output")

    # --- visits -------------------------------------------------------------------------------------------------------

    def _go(self, spawn: Spawn, names: Sequence[str]) -> None:
        for name in names:
            node = self._graph.nodes[name]
            spawn(partial(self._visit, spawn, node, self._prepare(node, self._scope)))

    async def _visit(self, spawn: Spawn, node: Node, visit: Visit) -> None:
        output, is_failed = await self._perform(node, visit)
        self._outputs[node.id] = output
        try:
            follows = self._walk.end(node.id, self._choose(node, output, is_failed=is_failed))
        except Exhausted as error:
            problem = f"It has been visited {error.limit} times, which is its limit"
            fix = "Find why the cycle does not end, or raise max_visits."
            raise GraphFailed(problem, self._graph.name, error.node, "max_visits", fix) from None
        self._go(spawn, follows)

    async def _perform(self, node: Node, visit: Visit) -> tuple[Any, bool]:
        """What the node gives, and whether it failed and the run goes on all the same."""
        try:
            output = await visit.run(collects=node.goes_on)
        except Exception as error:
            if not is_step_failure(error):
                raise
            await self._tell(node, error, visit)
            if not node.goes_on:
                raise
            return None, True
        if visit.first_error is None:
            return output, False
        await self._tell(node, visit.first_error, visit)  # of some items; null stands for what they would have given
        return output, True

    async def _tell(self, node: Node, error: Exception, visit: Visit) -> None:
        """Visit the node's handler, to its end. A failure of its own is noted: the original one is what counts."""
        if node.on_error is None:
            return
        handler = self._graph.nodes[node.on_error]
        scope = self._scope | {"error": visit.describe(self._ctx.uid)}
        try:
            self._outputs[handler.id], _ = await self._perform(handler, self._prepare(handler, scope))
        except Exception as other:
            if not is_step_failure(other):
                raise
            error.add_note(f"Its on_error handler failed as well: {type(other).__name__}: {other}")

    def _choose(self, node: Node, output: Any, *, is_failed: bool) -> tuple[str, ...]:
        """Where it goes on."""
        cases = node.cases
        if cases is None:
            return node.targets
        if is_failed:
            return cases.get(ERROR_KEY, cases.get(ANY_KEY, ()))
        if node.branch is None and not cases.keys() - {ANY_KEY, ERROR_KEY}:
            return cases.get(ANY_KEY, ())
        scope = self._scope | {"output": output}
        value = output if node.branch is None else self._resolve(node.branch, scope, node.id, "branch")
        key = _key_of(value)
        found = None if key is None else cases.get(key, cases.get(ANY_KEY))
        if found is None:
            source = "Its result" if node.branch is None else f"{node.branch}"
            told = f"{kind_of(value)}, which is no key" if key is None else f"{shorten(key)}, and next has no such key"
            fix = f"It has {list_names([*cases])}; {ANY_KEY!r} would be any other."
            raise GraphFailed(f"{source} is {told}", self._graph.name, node.id, "next", fix)
        return found

    # --- values -------------------------------------------------------------------------------------------------------

    def _prepare(self, node: Node, scope: Scope) -> Visit:
        """What a visit that begins now has to do."""
        caller = self._callers.get(node.id)
        if caller is None:
            caller = self._callers[node.id] = self._make_caller(node)
        if node.for_each is None:
            arguments = self._arguments(node, scope)
            return Visit(node, caller, lambda _: arguments)
        items = self._resolve(node.for_each, scope, node.id, "for_each")
        if not isinstance(items, list):
            problem, fix = f"{node.for_each} is {kind_of(items)}, not a list", "Let it refer to a list."
            raise GraphFailed(problem, self._graph.name, node.id, "for_each", fix)
        at_hand = scope | {"nodes": dict(self._outputs)}  # other nodes may give something new meanwhile
        return Visit(node, caller, lambda facts: self._arguments(node, at_hand | facts), items)

    def _arguments(self, node: Node, scope: Scope) -> dict[str, Any]:
        """By parameter name."""
        if node.input is None:
            return {}
        value = self._resolve(node.input, scope, node.id, "input")
        if node.is_by_name:
            return dict(value)
        return {self._only_parameter(node): value}

    def _only_parameter(self, node: Node) -> str:
        """Its name, where a function is not called by name; if nobody here knows the function, it does not matter."""
        if node.is_workflow:
            workflow = self._registry.find_workflow(node.call, self._home)
            names = () if workflow is None else workflow.arguments.names
        else:
            step = self._registry.find_step(node.call, self._home)
            names = () if step is None else step.function.arguments.names
        return names[0] if names else "value"

    def _resolve(self, value: Value, scope: Mapping[str, Any], node: str, field: str) -> Any:
        try:
            return value.resolve(scope)
        except Missing as error:
            fix = "Where it may be missing, write ? behind the reference: it is null then."
            raise GraphFailed(f"{error}", self._graph.name, node, field, fix) from None

    def _make_caller(self, node: Node) -> Caller:
        step = None if node.is_workflow else self._registry.find_step(node.call, self._home)
        if step is None:  # a workflow; or nobody here knows it, and the run waits for a worker that does
            return partial(self._call_by_name, node)
        # As ctx.call does it, with the options settled once for the node, not for each item.
        function, settings = step.function, settle_options(step.settings, node.options, f"node {node.id!r}")
        return lambda name, arguments: call_durably(function, name, settings, (), arguments, _PLAIN)

    def _call_by_name(self, node: Node, name: str, arguments: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        options: Any = {**node.options, "name": name}
        return self._ctx.call(node.call, arguments, returns=Any, **options)


def _key_of(value: Any) -> str | None:
    """The key of a branch; None for what can be none."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return str(value) if isinstance(value, int) else None
