"""The expressions of a body, read in the order in which they are evaluated. Layer: core.

What always holds: each part of an expression is read once and leaves behind what is known of its value; what may run a
step and goes where it cannot be followed is shown there (`escape`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from outlast.core.plan.nodes import Arm, BranchNode, JoinNode, LoopNode, Node
from outlast.core.plan.reading.express import source_of
from outlast.core.plan.reading.frames import UNKNOWN, Value, either
from outlast.core.plan.reading.meaning import FunctionMeaning, StepMeaning, WorkflowMeaning

if TYPE_CHECKING:
    from outlast.core.plan.reading.reader import Reader

__all__ = ["Values"]

Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


class Values:
    """Reads expressions, for one reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._handlers: Final[Mapping[type[ast.expr], Callable[[Any], Value]]] = {
            ast.Name: self._name,
            ast.Attribute: self._attribute,
            ast.Call: self._call,
            ast.Await: self._await,
            ast.Starred: self._starred,
            ast.NamedExpr: self._named,
            ast.IfExp: self._choice,
            ast.BoolOp: self._either,
            ast.Lambda: self._lambda,
            ast.Subscript: self._subscript,
            ast.List: self._sequence,
            ast.Tuple: self._sequence,
            ast.Set: self._sequence,
            ast.Dict: self._dict,
            ast.ListComp: self._each,
            ast.SetComp: self._each,
            ast.GeneratorExp: self._each,
            ast.DictComp: self._each,
        }

    def read(self, node: ast.expr) -> Value:
        """Read an expression; its nodes go where the reader stands."""
        handler = self._handlers.get(type(node))
        if handler is not None:
            return handler(node)
        for part in ast.iter_child_nodes(node):  # arithmetic, comparisons, templates …
            if isinstance(part, ast.expr):
                value = self.read(part)
                if not isinstance(node, ast.Compare):  # which runs nothing
                    self.escape(node, value)
        return UNKNOWN

    def read_condition(self, node: ast.expr) -> None:
        """Read what is only looked at for its truth."""
        value = self.read(node)
        if isinstance(node, ast.Call) and any(thunk.result is None for thunk in value.calls()):
            self.escape(node, value)  # the truth of a coroutine: what was meant is its result

    def escape(self, node: ast.AST, value: Value) -> None:
        """What it is goes where it cannot be followed: if a step may run through it, that is shown here."""
        if value.is_live(self._reader.reach):
            self._reader.show_opaque(node, "where it goes cannot be followed", value)

    # --- names -------------------------------------------------------------------------------------------------------

    def _name(self, node: ast.Name) -> Value:
        value = self._reader.frame.find(node.id)
        if value is None:
            value = Value(meaning=self._reader.scope.find(node.id))
        return self._placed(node, value)

    def _attribute(self, node: ast.Attribute) -> Value:
        of = self.read(node.value)
        meaning = None if of.meaning is None else of.meaning.attribute(node.attr)
        if meaning is None and of.begun:  # `task.result`
            return replace(of, meaning=None, origins=of.origins)
        return self._placed(node, Value(meaning=meaning, origins=of.origins))

    def _placed(self, node: ast.Name | ast.Attribute, value: Value) -> Value:
        """The value, which was named here."""
        meaning = value.meaning
        if isinstance(meaning, StepMeaning | WorkflowMeaning):
            self._reader.note_reference(meaning)
        elif not isinstance(meaning, FunctionMeaning) or not self._reader.reach(meaning):
            if value.origins:
                return value
            self._reader.note_harmless(node)
            return value
        return replace(value, origins=value.origins | {id(node)})

    def _call(self, node: ast.Call) -> Value:
        return self._reader.calls.read(node)

    def _named(self, node: ast.NamedExpr) -> Value:
        value = self._reader.statements.kept(self.read(node.value))
        self._reader.statements.bind(node.target, value)
        return value

    def _lambda(self, node: ast.Lambda) -> Value:
        reader = self._reader
        return Value(meaning=FunctionMeaning("lambda", node, reader.scope, frame=reader.frame))

    def _subscript(self, node: ast.Subscript) -> Value:
        of = self.read(node.value)
        self.escape(node, self.read(node.slice))
        key = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if key is not None:
            if key in of.pairs:
                return of.pairs[key]
            if isinstance(key, int) and -len(of.items) <= key < len(of.items) and of.form != "unsure":
                return of.items[key]
            meaning = None if of.meaning is None else of.meaning.item(key)
            if meaning is not None:
                return Value(meaning=meaning, origins=of.origins)
        if of.is_live(self._reader.reach) or of.begun:
            return replace(either([of, UNKNOWN]), items=(of,), begun=of.begun, thunks=of.thunks)
        return UNKNOWN

    # --- awaiting ----------------------------------------------------------------------------------------------------

    def _await(self, node: ast.Await) -> Value:
        value = self.awaited(node, self.read(node.value))
        if value.result:
            self._reader.results[node] = value.result
        return value

    def awaited(self, node: ast.AST, value: Value) -> Value:
        """What awaiting it gives. What has not begun begins here."""
        reader = self._reader
        if value.form == "handle":
            return value
        waiting = [thunk for thunk in value.thunks if thunk.result is None]
        begun = [*value.begun, *(thunk.result for thunk in value.thunks if thunk.result)]
        if len(waiting) > 1 or (waiting and value.form == "unsure" and (value.items or begun)):
            return Value(result=reader.show_opaque(node, "which of these it awaits cannot be told", value))
        if waiting:
            reader.mark_shown(value)
            result = reader.begin(waiting[0])
            return Value(result=result, items=reader.calls.results_of(result))
        if begun:
            line = getattr(node, "lineno", 0)
            joined = JoinNode(reader.new_id("join"), line, source_of(node), tuple(dict.fromkeys(begun)))
            reader.add(joined)
            return Value(result=begun[0] if len(begun) == 1 else joined.id)
        if value.form == "quiet":
            return UNKNOWN
        return Value(result=reader.show_opaque(node, "what it awaits is not known", value))

    # --- choices -----------------------------------------------------------------------------------------------------

    def _choice(self, node: ast.IfExp) -> Value:
        reader = self._reader
        self.read_condition(node.test)
        condition = reader.express(node.test)
        arms, values = [], []
        for part, test in ((node.body, condition), (node.orelse, None)):
            with reader.block() as nodes:
                values.append(self.read(part))
            arms.append(Arm(test, body=tuple(nodes)))
        return self._add_choice(node, "choice", arms, values)

    def _either(self, node: ast.BoolOp) -> Value:
        reader = self._reader
        form = "and" if isinstance(node.op, ast.And) else "or"
        value = self.read(node.values[0])
        values, rest = [value], list(node.values[1:])
        before = node.values[0]
        arms: list[Arm] = []
        while rest:
            condition = reader.express(before)
            part = rest.pop(0)
            with reader.block() as nodes:
                values.append(self.read(part))
            arms.append(Arm(condition, body=tuple(nodes)))
            before = part
        return self._add_choice(node, form, arms, values)

    def _add_choice(self, node: ast.expr, form: str, arms: list[Arm], values: list[Value]) -> Value:
        reader = self._reader
        if not any(arm.body for arm in arms):
            return either(values)
        node_id = reader.new_id(form)
        reader.add(BranchNode(node_id, node.lineno, source_of(node), form, None, tuple(arms)))
        reader.results[node] = node_id
        return replace(either(values), result=node_id)

    # --- collections -------------------------------------------------------------------------------------------------

    def _starred(self, node: ast.Starred) -> Value:
        return self.read(node.value)

    def _sequence(self, node: ast.List | ast.Tuple | ast.Set) -> Value:
        values: list[Value] = []
        is_plain = True
        for element in node.elts:
            value = self.read(element)
            if isinstance(element, ast.Starred):
                is_plain &= bool(value.items) and value.form != "unsure"
                values += value.items if value.items and value.form != "unsure" else [value]
            else:
                values.append(value)
        return Value(items=tuple(values), form="" if is_plain else "unsure")

    def _dict(self, node: ast.Dict) -> Value:
        pairs: dict[object, Value] = {}
        others: list[Value] = []
        for key, element in zip(node.keys, node.values, strict=True):
            if key is not None:
                self.escape(node, self.read(key))
            value = self.read(element)
            if isinstance(key, ast.Constant):
                pairs[key.value] = value
            else:
                others.append(value)
        return Value(pairs=pairs, items=tuple(others), form="unsure" if others else "")

    def item_of(self, values: Value, loop: str) -> Value:
        """What a loop over these gets, each round."""
        live = values.is_live(self._reader.reach)
        if not live and not values.begun:
            return Value(loop=loop)
        inside = [*values.items, *values.pairs.values()]
        return Value(
            thunks=tuple(values.calls()),
            begun=values.begun,
            loop=loop,
            form="unsure",
            items=tuple(replace(part, thunks=()) for part in inside) or ((replace(values, thunks=()),) if live else ()),
            origins=values.origins,
        )

    def _each(self, node: Comprehension) -> Value:
        """A comprehension: a loop if something is awaited inside; calls that begin later if some are made inside."""
        reader = self._reader
        node_id = reader.new_id("for")
        before = dict(reader.frame.variables)
        names = reader.frame.names
        reader.frame.names |= _targets(node)
        first, *others = node.generators
        over = self.read(first.iter)
        shown_over = reader.express(first.iter)
        with reader.block() as nodes:
            self._bind_clause(first, over, node_id)
            for clause in others:
                self._bind_clause(clause, self.read(clause.iter), node_id)
            values = [self.read(part) for part in _elements(node)]
        made = either(values) if len(values) == 1 else Value(items=tuple(values), form="unsure")
        reader.frame.variables, reader.frame.names = before, names
        target, label = source_of(first.target), f"for {source_of(first.target)} in {source_of(first.iter)}"

        def add(body: list[Node]) -> str:
            return reader.add(LoopNode(node_id, node.lineno, label, "each", target, shown_over, None, (), tuple(body)))

        if nodes or any(clause.is_async for clause in node.generators):
            with reader.block() as later:
                begun = [reader.begin_later(thunk) for thunk in made.calls()]
            begun += [node_id for part in made.parts() for node_id in part.begun]
            add([*nodes, *later])
            reader.results[node] = node_id
            return Value(result=node_id, begun=tuple(filter(None, begun)))
        if not any(thunk.result is None for thunk in made.calls()):
            return Value(items=(made,), form="unsure") if made.is_live(reader.reach) else UNKNOWN

        def begin() -> str:
            with reader.block() as body:
                for thunk in made.calls():
                    reader.begin(thunk)
            return add(body)

        reader.mark_shown(made)
        return reader.make_thunk(node, begin, made.functions(reader.reach), [made])

    def _bind_clause(self, clause: ast.comprehension, over: Value, id: str) -> None:
        self._reader.statements.bind(clause.target, self.item_of(over, id))
        for test in clause.ifs:
            self.read_condition(test)


def _elements(node: Comprehension) -> list[ast.expr]:
    return [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]


def _targets(node: Comprehension) -> frozenset[str]:
    targets = (clause.target for clause in node.generators)
    return frozenset(part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))
