"""What a body asks of its context, read: `ctx.sleep`, `ctx.do`, `ctx.map` … Layer: core.

What always holds: a call of the context that this table does not know, and that is awaited, is shown as opaque.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from outlast.core.plan.expressions import Argument, Literal, Reference
from outlast.core.plan.nodes import ChildNode, EndNode, LoopNode, MarkNode, ParallelNode, StepNode, WaitNode
from outlast.core.plan.plan import sentence_case
from outlast.core.plan.reading.arguments import Given
from outlast.core.plan.reading.express import source_of
from outlast.core.plan.reading.frames import UNKNOWN, Value
from outlast.core.plan.reading.meaning import FunctionMeaning, WorkflowMeaning

if TYPE_CHECKING:
    from outlast.core.plan.reading.reader import Reader

__all__ = ["ContextCalls"]

_WAITS: Final = {
    "sleep": ("sleep", "Sleep"),
    "sleep_until": ("sleep_until", "Sleep until"),
    "wait_for": ("signal", "Wait for"),
    "suspend": ("gate", "Suspend"),
    "approval": ("approval", "Approval"),
}
_MARKS: Final = {"milestone": "Milestone", "set_state": "Set state", "patched": "Patched"}
_UNDO: Final = {"compensate": "Compensate", "keep": "Keep"}
_QUIET: Final = frozenset({"get_run"})


class ContextCalls:
    """Reads calls of the context, for one reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def make(self, name: str, given: Given) -> Value:
        """What `ctx.name(…)` gives."""
        if name in _WAITS:
            return self._wait(*_WAITS[name], given)
        if name in _MARKS or name in _UNDO:
            return self._mark(name, given)
        match name:
            case "do":
                return self._do(given)
            case "call":
                return self._call(given)
            case "map":
                return self._map(given)
            case "start":
                return self._start(given)
            case "continue_as_new":
                return self._continue(given)
            case "wait":
                return self._await_here(given, given.positional[0] if given.positional else UNKNOWN)
            case "gather":
                return self._gather(given)
            case _:
                self._hand_over(given)
                return Value(form="quiet") if name in _QUIET else UNKNOWN

    def _hand_over(self, given: Given) -> None:
        self._reader.calls.hand_over(given)

    def _wait(self, wait: str, label: str, given: Given) -> Value:
        reader = self._reader
        self._hand_over(given)
        detail = source_of(given.node.args[0], 60) if given.node.args else ""

        def begin() -> str:
            node_id = reader.new_id(wait)
            return reader.add(WaitNode(node_id, given.node.lineno, f"{label} {detail}".strip(), wait, given.shown))

        return reader.make_thunk(given.node, begin, ())

    def _mark(self, name: str, given: Given) -> Value:
        """A mark, and what is undone later. Both are noted at once: awaiting them waits for nothing."""
        reader = self._reader
        functions: dict[str, None] = {}
        for value in given.values:
            functions.update(dict.fromkeys(value.functions(reader.reach)))
            reader.mark_shown(value)
        label = f"{_MARKS.get(name) or _UNDO[name]} {_first(given)}".strip()
        reader.add(MarkNode(reader.new_id(name), given.node.lineno, label, name, given.shown, tuple(functions)))
        return Value(form="quiet")

    def _do(self, given: Given) -> Value:
        reader = self._reader
        name = _literal(given.shown, 0)
        for value in given.values[1:]:
            reader.values.escape(given.node, value)
        options = given.named_shown()

        def begin() -> str:
            node_id = reader.step_id(name or "do")
            label = sentence_case(name) if name else source_of(given.node, 60)
            shown = tuple(argument for argument in given.shown if not argument.name)
            return reader.add(StepNode(node_id, given.node.lineno, label, name, name, shown, options, "do"))

        return reader.make_thunk(given.node, begin, (name,) if name else ())

    def _call(self, given: Given) -> Value:
        reader = self._reader
        self._hand_over(given)
        function = _literal(given.shown, 0)
        options = given.named_shown()
        named = next((argument.value for argument in options if argument.name == "name"), None)
        name = function
        if named is not None:
            name = named.value if isinstance(named, Literal) and isinstance(named.value, str) else ""

        def begin() -> str:
            node_id = reader.step_id(name or function or "call")
            label = sentence_case(name or function) if name or function else source_of(given.node, 60)
            shown = tuple(argument for argument in given.shown[1:] if not argument.name)
            return reader.add(StepNode(node_id, given.node.lineno, label, function, name, shown, options, "call"))

        return reader.make_thunk(given.node, begin, (function,) if function else ())

    def _map(self, given: Given) -> Value:
        reader = self._reader
        function = given.positional[0] if given.positional else UNKNOWN
        items = given.positional[1] if len(given.positional) > 1 else given.named.get("items", UNKNOWN)
        over = given.shown[1].value if len(given.shown) > 1 else None
        functions = function.functions(reader.reach)

        def begin() -> str:
            node_id = reader.new_id("map")
            item = reader.values.item_of(items, node_id)
            shown = (Argument(Reference("item", "item", node_id)),)
            with reader.block() as nodes:
                call = replace(given, positional=(item,), named={}, others=(), shown=shown)
                reader.values.awaited(given.node.args[0], reader.calls.make(function, call))
            label = f"map over {source_of(given.node.args[1], 60)}" if len(given.node.args) > 1 else "map"
            settings = given.named_shown()
            return reader.add(
                ParallelNode(node_id, given.node.lineno, label, "map", (tuple(nodes),), (), "", over, settings)
            )

        if not given.node.args:
            return self._reader.calls.unknown(given)
        reader.mark_shown(function)
        return reader.make_thunk(given.node, begin, functions, [items])

    def _start(self, given: Given) -> Value:
        """A child that goes on beside the body. It begins here, awaited or not."""
        reader = self._reader
        first = given.positional[0] if given.positional else UNKNOWN
        for value in given.values[1:]:
            reader.values.escape(given.node, value)
        name = first.meaning.name if isinstance(first.meaning, WorkflowMeaning) else _literal(given.shown, 0)
        if not name:
            return Value(begun=(reader.show_opaque(given.node, "which workflow it starts is not known", first),))
        reader.mark_shown(first)
        shown = tuple(argument for argument in given.shown[1:] if not argument.name)
        options = given.named_shown()
        named = next((argument.value for argument in options if argument.name == "name"), None)
        called = named.value if isinstance(named, Literal) and isinstance(named.value, str) else name
        node_id = reader.step_id(called)
        reader.add(ChildNode(node_id, given.node.lineno, sentence_case(called), name, shown, options, "started"))
        return Value(begun=(node_id,), form="handle")

    def _continue(self, given: Given) -> Value:
        reader = self._reader
        self._hand_over(given)

        def begin() -> str:
            node_id = reader.new_id("continue_as_new")
            form = "continue_as_new"
            return reader.add(EndNode(node_id, given.node.lineno, "Continue as new", form, None, given.shown))

        return reader.make_thunk(given.node, begin, ())

    def _gather(self, given: Given) -> Value:
        """`ctx.gather(…)` of a plain `def` body: what asyncio gathers, waited for at once; or plain functions."""
        spread = [node for node in given.node.args if isinstance(node, ast.Starred)]
        single = [node for node in given.node.args if node not in spread]
        positional, others = given.positional, given.others
        if len(single) == len(positional):
            positional = tuple(map(self._part, single, positional))
        if len(spread) == len(others):
            others = tuple(map(self._parts, spread, others))
        parts = replace(given, positional=positional, others=others)
        return self._await_here(given, self._reader.calls.make_known("asyncio.gather", parts))

    def _part(self, node: ast.expr, part: Value) -> Value:
        """A plain function is called when the parts begin."""
        if not isinstance(part.meaning, FunctionMeaning):
            return part
        reader, call = self._reader, _call_of(node)
        return reader.make_thunk(node, lambda: reader.calls.make(part, call).result, part.functions(reader.reach))

    def _parts(self, node: ast.Starred, parts: Value) -> Value:
        """Plain functions of one kind: `*(lambda item=item: … for item in items)`."""
        each = parts.items[0] if len(parts.items) == 1 else parts
        if not isinstance(each.meaning, FunctionMeaning):
            return parts
        reader, inside = self._reader, node.value
        target, over = "", inside
        if isinstance(inside, ast.GeneratorExp | ast.ListComp):
            target, over = source_of(inside.generators[0].target), inside.generators[0].iter
        shown = reader.express(over)

        def begin() -> str:
            with reader.block() as body:
                reader.calls.make(each, _call_of(node.value))
            label = f"for {target or 'each'} in {source_of(over)}"
            return reader.add(
                LoopNode(reader.new_id("for"), node.lineno, label, "each", target, shown, None, (), tuple(body))
            )

        return reader.make_thunk(node, begin, each.functions(reader.reach))

    def _await_here(self, given: Given, value: Value) -> Value:
        """What `ctx.wait` of a plain `def` body gives."""
        awaited = self._reader.values.awaited(given.node, value)
        if awaited.result:
            self._reader.results[given.node] = awaited.result
        return awaited


def _call_of(node: ast.expr) -> Given:
    """A call of this function without arguments. One that is made again and again is called by what makes it."""
    function = node.elt if isinstance(node, ast.GeneratorExp | ast.ListComp) else node
    return Given(ast.copy_location(ast.Call(function, [], []), node), (), {}, (), ())


def _literal(shown: tuple[Argument, ...], place: int) -> str:
    """The text given there, if it is one; else nothing."""
    if len(shown) <= place or shown[place].name or not isinstance(shown[place].value, Literal):
        return ""
    value = shown[place].value
    return value.value if isinstance(value, Literal) and isinstance(value.value, str) else ""


def _first(given: Given) -> str:
    return source_of(given.node.args[0], 60) if given.node.args else ""
