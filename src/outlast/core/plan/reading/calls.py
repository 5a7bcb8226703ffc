"""The calls of a body: steps, children, and the author's own functions. Layer: core.

`ctx.…` is in `context_calls`, asyncio in `asyncio_calls`. What always holds: a call whose function is not known shows
every step that is handed to it; a function of the author's that comes to a step stands in the plan with its body.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from outlast.core.plan.expressions import Argument, Literal, Reference
from outlast.core.plan.nodes import ChildNode, EndNode, FunctionNode, Node, ParallelNode, StepNode, TaskNode
from outlast.core.plan.plan import sentence_case
from outlast.core.plan.reading.asyncio_calls import AsyncioCalls
from outlast.core.plan.reading.context_calls import ContextCalls
from outlast.core.plan.reading.express import source_of
from outlast.core.plan.reading.frames import UNKNOWN, Frame, Thunk, Value, either
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

__all__ = ["Calls", "Given"]

# What gives back, in some form, what it is given.
_PASSING: Final = frozenset(
    {"list", "tuple", "set", "frozenset", "dict", "iter", "reversed", "sorted", "enumerate", "zip", "filter", "next"}
)
_PUTTING: Final = frozenset({"append", "add", "extend", "insert", "appendleft", "update", "setdefault"})
_TAKING: Final = frozenset({"values", "items", "keys", "pop", "popleft", "get", "copy"})


@dataclass(frozen=True, slots=True)
class Given:
    """A call that was read: its source, and its arguments."""

    node: ast.Call
    positional: tuple[Value, ...]
    named: dict[str, Value]
    others: tuple[Value, ...]
    """Of `*args` and `**kwargs`."""
    shown: tuple[Argument, ...]

    @property
    def values(self) -> tuple[Value, ...]:
        """All that is handed over."""
        return (*self.positional, *self.named.values(), *self.others)

    def named_shown(self) -> tuple[Argument, ...]:
        """The keyword arguments, as shown."""
        return tuple(argument for argument in self.shown if argument.name)


class Calls:
    """Reads calls, for one reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._context = ContextCalls(reader)
        self._asyncio = AsyncioCalls(reader)

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
                return self._function(function, callee, given)
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
            return reader.add(
                StepNode(
                    node_id, line, label, step.function, step.name, given.shown, step.options, handler=step.handler
                )
            )

        return reader.make_thunk(given.node, begin, (step.function,))

    def _options(self, step: StepMeaning, callee: Value, given: Given) -> Value:
        """`step.options(…)`: the step, tuned."""
        name = step.name
        for argument in given.shown:
            if argument.name == "name":
                text = argument.value.value if isinstance(argument.value, Literal) else None
                name = text if isinstance(text, str) else ""
            elif argument.spread:
                name = ""
        handler = given.named.get("on_error")
        meaning = None if handler is None else handler.meaning
        told = meaning.function if isinstance(meaning, StepMeaning) else step.handler
        if handler is not None and told:
            self._reader.mark_shown(handler)
        tuned = replace(step, name=name, options=(*step.options, *given.shown), handler=told)
        return Value(meaning=tuned, origins=callee.origins)

    def _child(self, workflow: WorkflowMeaning, callee: Value, given: Given) -> Value:
        reader = self._reader
        self.hand_over(given)
        reader.mark_shown(callee)

        def begin() -> str:
            node_id = reader.step_id(workflow.name)
            label = sentence_case(workflow.name)
            return reader.add(ChildNode(node_id, given.node.lineno, label, workflow.name, given.shown))

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

    def _function(self, function: FunctionMeaning, callee: Value, given: Given) -> Value:
        reader = self._reader
        definition = function.definition
        is_async = isinstance(definition, ast.AsyncFunctionDef)
        is_worth = bool(reader.reach(function)) or any(value.is_live(reader.reach) for value in given.values)
        is_worth |= any(
            isinstance(value.meaning, KnownMeaning) and value.meaning.path == "ctx" for value in given.values
        )
        if not is_async and not is_worth:
            return Value(items=tuple(value for value in given.values if value.begun))
        functions = tuple(
            dict.fromkeys([*reader.reach(function), *(n for v in given.values for n in v.functions(reader.reach))])
        )
        if is_async and not is_generator(definition):
            reader.mark_shown(callee)
            return reader.make_thunk(given.node, lambda: self._follow(function, given)[0], functions)
        reader.mark_shown(callee)
        value = self._follow(function, given)[1]
        return replace(value, form="quiet") if is_generator(definition) else value

    def _follow(self, function: FunctionMeaning, given: Given) -> tuple[str, Value]:
        """Read its body here; answers the id of the node, and what it returns."""
        reader = self._reader
        problem = reader.may_follow(function)
        if problem:
            value = Value(meaning=function, items=given.values)
            return reader.show_opaque(given.node, problem, value), UNKNOWN
        frame = reader.frame_of(function)
        self._bind_parameters(frame, function, given)
        node_id = reader.new_id("function")
        with reader.block() as nodes:
            reader.run(frame)
        value = either(frame.returns) if frame.returns else UNKNOWN
        is_async = isinstance(function.definition, ast.AsyncFunctionDef)
        if not is_async and not _tells(nodes):
            return "", value  # it only makes what is awaited elsewhere
        label = source_of(given.node.func)
        module = function.scope.module
        reader.add(FunctionNode(node_id, given.node.lineno, label, function.name, module, given.shown, tuple(nodes)))
        if is_async:
            reader.values.escape(given.node, value)
        return node_id, value

    def _bind_parameters(self, frame: Frame, function: FunctionMeaning, given: Given) -> None:
        arguments = function.definition.args
        names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
        values = list(given.positional)
        if function.bound is not None:
            values.insert(0, Value(meaning=function.bound))
        frame.variables.update(zip(names, values, strict=False))
        known = {*names, *(argument.arg for argument in arguments.kwonlyargs)}
        rest = [*values[len(names) :], *given.others]
        for name, value in given.named.items():
            if name in known:
                frame.variables[name] = value
            else:
                rest.append(value)
        if rest:
            for extra in (arguments.vararg, arguments.kwarg):
                if extra is not None:
                    frame.variables[extra.arg] = Value(items=tuple(rest), form="unsure" if given.others else "")
        self._bind_defaults(frame, arguments)

    def _bind_defaults(self, frame: Frame, arguments: ast.arguments) -> None:
        positional = [*arguments.posonlyargs, *arguments.args]
        count = len(arguments.defaults)
        pairs = list(zip(positional[-count:] if count else [], arguments.defaults, strict=True))
        pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
        for argument, default in pairs:
            if argument.arg not in frame.variables:
                meaning = self._reader.reach.plain_meaning(default, frame.function)
                frame.variables[argument.arg] = Value(meaning=meaning)

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


def is_generator(definition: ast.AST) -> bool:
    """Whether there is a `yield` in it."""
    waiting = list(ast.iter_child_nodes(definition))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
    return False


def _tells(nodes: list[Node]) -> bool:
    """Whether these say more than that a function returns."""
    return any(not (isinstance(node, EndNode) and node.form == "return") for node in nodes)
