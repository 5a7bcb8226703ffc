"""Functions of the author's own: followed, if they come to a step. Layer: core.

What always holds: a function is read with what is known of its arguments; one that cannot be followed (it calls itself,
it is too far away) is shown as opaque, with every step it comes to.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from outlast.core.plan.nodes import EndNode, FunctionNode, Node
from outlast.core.plan.reading.arguments import Given
from outlast.core.plan.reading.express import source_of
from outlast.core.plan.reading.frames import UNKNOWN, Frame, Value, either
from outlast.core.plan.reading.meaning import FunctionMeaning, KnownMeaning

if TYPE_CHECKING:
    from outlast.core.plan.reading.reader import Reader

__all__ = ["Functions"]


class Functions:
    """Follows calls of functions, for one reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def make(self, function: FunctionMeaning, callee: Value, given: Given) -> Value:
        """What comes of calling it. An `async def` is read where it is awaited, any other where it is called."""
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
