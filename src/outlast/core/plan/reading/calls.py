"""The calls of a body: steps, children, and the author's own functions. Layer: core.

`ctx.…` is in `context_calls`, asyncio in `asyncio_calls`. What always holds: a call whose function is not known shows
every step that is handed to it; a function of the author's that comes to a step stands in the plan with its body.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from outlast.core.plan.expressions import Argument, Reference
from outlast.core.plan.nodes import ChildNode, Node, ParallelNode, StepNode, TaskNode
from outlast.core.plan.plan import sentence_case
from outlast.core.plan.reading.arguments import Given, name_given
from outlast.core.plan.reading.asyncio_calls import AsyncioCalls
from outlast.core.plan.reading.context_calls import ContextCalls
from outlast.core.plan.reading.frames import UNKNOWN, Thunk, Value, either
from outlast.core.plan.reading.functions import Functions
from outlast.core.plan.reading.meaning import (
    FunctionMeaning,
    KnownMeaning,
    OptionsMeaning,
    PartialMeaning,
    StepMeaning,
    WorkflowMeaning,
)

if TYPE_CHECKING:
    from outlast.core.plan.reading.reader import Reader

__all__ = ["Calls"]

# What gives back, in some form, what it is given.
_PASSING: Final = frozenset(
    {"list", "tuple", "set", "frozenset", "dict", "iter", "reversed", "sorted", "enumerate", "zip", "filter", "next"}
)
_PUTTING: Final = frozenset({"append", "add", "extend", "insert", "appendleft", "update", "setdefault"})
_TAKING: Final = frozenset({"values", "items", "keys", "pop", "popleft", "get", "copy"})


class Calls:
    """Reads calls, for one reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._context = ContextCalls(reader)
        self._asyncio = AsyncioCalls(reader)
        self._functions = Functions(reader)

    def read(self, node: ast.Call) -> Value:
        """Read a call: its function, its arguments, and what comes of it."""
        callee = self._reader.values.read(node.func)
        given = self._given(node)
        return self.make(callee, given)

    def _given(self, node: ast.Call) -> Given:
        values = self._reader.values
        positional: list[Value] = []
        others: list[Value] = []
        named: dict[str, Value] = {}
        for argument in node.args:
            value = values.read(argument)
            if not isinstance(argument, ast.Starred):
                positional.append(value)
            elif value.items and value.form != "unsure" and not others:
                positional += value.items
            else:
                others.append(value)
        for keyword in node.keywords:
            value = values.read(keyword.value)
            if keyword.arg is None:
                others.append(value)
            else:
                named[keyword.arg] = value
        return Given(node, tuple(positional), named, tuple(others), self._reader.express.arguments(node))

    def make(self, callee: Value, given: Given) -> Value:
        """What comes of calling `callee`."""
        match callee.meaning:
            case StepMeaning() as step:
                return self._step(step, callee, given)
            case OptionsMeaning(of=of):
                return self._options(of, callee, given)
            case WorkflowMeaning() as workflow:
                return self._child(workflow, callee, given)
            case PartialMeaning() as partial:
                return self._partial(partial, callee, given)
            case FunctionMeaning() as function:
                return self._functions.make(function, callee, given)
            case KnownMeaning(path=path):
                return self._known(path, callee, given)
            case _:
                return self._unknown(callee, given)

    # --- steps and children ------------------------------------------------------------------------------------------

    def _step(self, step: StepMeaning, callee: Value, given: Given) -> Value:
        reader = self._reader
        self.hand_over(given)
        reader.mark_shown(callee)

        def begin() -> str:
            node_id = reader.step_id(step.name or step.function)
            label = sentence_case(step.name or step.function)
            line = given.node.lineno
            node = StepNode(node_id, line, label, step.function, step.name, given.shown, step.options)
            return reader.add(msgspec.structs.replace(node, handler=step.handler, undo=step.undo))

        return reader.make_thunk(given.node, begin, (step.function,))

    def _options(self, step: StepMeaning | WorkflowMeaning, callee: Value, given: Given) -> Value:
        """`step.options(…)`: the step, tuned; a workflow likewise."""
        options = (*step.options, *given.shown)
        if isinstance(step, WorkflowMeaning):
            tuned = replace(step, called=name_given(given.shown, step.called), options=options)
            return Value(meaning=tuned, origins=callee.origins)
        name = name_given(given.shown, step.name)
        handler = given.named.get("on_error")
        meaning = None if handler is None else handler.meaning
        told = meaning.function if isinstance(meaning, StepMeaning) else step.handler
        if handler is not None and told:
            self._reader.mark_shown(handler)
        return Value(meaning=replace(step, name=name, options=options, handler=told), origins=callee.origins)

    def _child(self, workflow: WorkflowMeaning, callee: Value, given: Given) -> Value:
        reader = self._reader
        self.hand_over(given)
        reader.mark_shown(callee)

        def begin() -> str:
            node_id = reader.step_id(workflow.called or workflow.name)
            label = sentence_case(workflow.called or workflow.name)
            line = given.node.lineno
            return reader.add(ChildNode(node_id, line, label, workflow.name, given.shown, workflow.options))

        return reader.make_thunk(given.node, begin, (workflow.name,))

    def hand_over(self, given: Given) -> None:
        """Arguments that a step's call stores: a step handed over so is shown, for nobody can follow it."""
        for value in given.values:
            self._reader.values.escape(given.node, value)

    # --- the author's functions --------------------------------------------------------------------------------------

    def _partial(self, partial: PartialMeaning, callee: Value, given: Given) -> Value:
        first = [value for value in partial.positional if isinstance(value, Value)]
        missing = [UNKNOWN] * (len(partial.positional) - len(first))
        named = {**dict.fromkeys(partial.named, UNKNOWN), **given.named}
        joined = replace(given, positional=(*missing, *first, *given.positional), named=named)
        return self.make(Value(meaning=partial.of, origins=callee.origins), joined)

    # --- others ------------------------------------------------------------------------------------------------------

    def _known(self, path: str, callee: Value, given: Given) -> Value:
        family, _, name = path.partition(".")
        if family == "ctx":
            return self._context.make(name, given)
        if family == "asyncio":
            return self._asyncio.make(name, callee, given)
        if path == "functools.partial" and given.positional:
            first, *rest = given.positional
            if first.meaning is not None:
                partial = PartialMeaning(first.meaning, tuple(rest), tuple(given.named))
                return Value(meaning=partial, origins=first.origins)
        if path == "builtins.map" and len(given.positional) == 2:
            return self._map(given)
        if family == "builtins" and name in _PASSING:
            return self._passed(given)
        return self._unknown(callee, given)

    def _passed(self, given: Given) -> Value:
        """`list(x)`, `zip(x, y)`: what is in them, in some order."""
        values = [value for value in given.values if value.is_live(self._reader.reach) or value.begun]
        if len(values) == 1 and len(given.values) == 1:
            return values[0]
        return replace(either(values), form="unsure") if values else UNKNOWN

    def _map(self, given: Given) -> Value:
        """The builtin `map`: calls that begin when they are awaited."""
        function, items = given.positional
        node_id = self._reader.new_id("for")
        shown = (Argument(Reference("item", "item", node_id)),)
        item = self._reader.values.item_of(items, node_id)
        call = replace(given, positional=(item,), named={}, others=(), shown=shown)
        return self.make(function, call) if function.meaning is not None else self._unknown(UNKNOWN, given)

    def _unknown(self, callee: Value, given: Given) -> Value:
        """A function that is not known, or a method of something."""
        reader, func = self._reader, given.node.func
        if isinstance(func, ast.Attribute):
            put = self._method(func, callee, given)
            if put is not None:
                return put
        handed = Value(items=(callee, *given.values), form="unsure")
        if handed.is_live(reader.reach):
            is_choice = callee.is_live(reader.reach)
            why = "which of these it calls" if is_choice else "what it does with the steps handed to it"
            reader.show_opaque(given.node, f"{why} cannot be told", handed)
            return Value(form="quiet")
        return UNKNOWN

    def _method(self, func: ast.Attribute, callee: Value, given: Given) -> Value | None:
        """`calls.append(charge(x))`, `tasks.values()`, `child.result()`; None for any other."""
        reader = self._reader
        name = func.value.id if isinstance(func.value, ast.Name) else ""
        held = reader.frame.find(name) if name else None
        if held is not None and func.attr in _PUTTING and held.meaning is None:
            return self._put(name, held, given)
        if callee.begun:  # a task or a child: awaiting its `result()` waits for it
            if callee.form == "handle":
                return Value(begun=callee.begun) if func.attr == "result" else Value(form="quiet")
            return Value(result=callee.result, form="quiet")
        if held is not None and func.attr in _TAKING and (held.is_live(reader.reach) or held.begun):
            return held if func.attr == "copy" else reader.values.item_of(held, "")
        return None

    def _put(self, name: str, held: Value, given: Given) -> Value | None:
        reader = self._reader
        live = [value for value in given.values if value.is_live(reader.reach) or value.begun]
        if not live:
            return UNKNOWN
        begun = [reader.begin_later(thunk) for value in live for thunk in value.calls()]
        for value in live:
            begun += [node_id for part in value.parts() for node_id in part.begun]
        meanings = tuple(part for value in live for part in value.parts() if part.meaning is not None)
        joined = replace(
            held,
            begun=tuple(dict.fromkeys([*held.begun, *filter(None, begun)])),
            items=(*held.items, *meanings),
            form="unsure",
        )
        if name in reader.frame.names:
            reader.frame.variables[name] = joined
        return UNKNOWN

    def unknown(self, given: Given, callee: Value = UNKNOWN) -> Value:
        """A call of which nothing is known."""
        return self._unknown(callee, given)

    def make_known(self, path: str, given: Given) -> Value:
        """A call of something outside the author's code."""
        return self._known(path, UNKNOWN, given)

    # --- what other parts use ----------------------------------------------------------------------------------------

    def begin_beside(self, thunk: Thunk) -> str:
        """Begin it here as a task; answers its id."""
        reader = self._reader
        node_id = reader.new_id("task")
        with reader.block() as nodes:
            reader.begin(thunk)
        thunk.result = node_id
        return reader.add(TaskNode(node_id, thunk.line, thunk.source, tuple(nodes)))

    def enter(self, value: Value, node: ast.expr, *, is_async: bool) -> tuple[Value, str]:
        """What `with` gives its name, and the form of what it is."""
        return self._asyncio.enter(value, node, is_async=is_async)

    def lane(self, node: ast.AST, value: Value) -> tuple[tuple[Node, ...], tuple[str, ...]]:
        """What awaiting a value does, as nodes of their own; and what it waits for that had begun."""
        reader = self._reader
        waiting = [thunk for thunk in value.calls() if thunk.result is None]
        begun = [thunk.result for thunk in value.calls() if thunk.result]
        begun += [node_id for part in value.parts() for node_id in part.begun]
        with reader.block() as nodes:
            if value.form == "unsure" and len(value.thunks) > 1:
                reader.show_opaque(node, "which of these it awaits cannot be told", value)
                waiting = []
            for thunk in waiting:
                reader.begin(thunk)
            reader.mark_shown(replace(value, items=()))
            if not nodes and not begun and value.form != "quiet":
                reader.show_opaque(node, "what it awaits is not known", value)
        return tuple(nodes), tuple(begun)

    def results_of(self, id: str) -> tuple[Value, ...]:
        """What the lanes of a group that just began give, one by one, where that is known."""
        node = self._reader.last_node
        if isinstance(node, ParallelNode) and node.id == id and node.form == "gather" and not node.joins:
            return tuple(Value(result=lane[-1].id) for lane in node.lanes if lane)
        return ()
