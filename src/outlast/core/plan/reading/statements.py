"""The statements of a body, read in order. Layer: core.

What always holds: where ways part and meet again, only what all of them agree on is known behind them; and a loop's
body is read once, knowing nothing of variables that its rounds change.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from outlast.core.plan.nodes import (
    Arm,
    BranchNode,
    EndNode,
    LoopNode,
    Node,
    ParallelNode,
    ScopeNode,
    TryNode,
)
from outlast.core.plan.reading.express import source_of
from outlast.core.plan.reading.frames import UNKNOWN, Value, assigned_names, either, merge_variables
from outlast.core.plan.reading.meaning import FunctionMeaning

if TYPE_CHECKING:
    from outlast.core.plan.reading.reader import Reader

__all__ = ["Statements", "never_goes_on"]

Variables = dict[str, Value]


class Statements:
    """Reads statements, for one reader."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._handlers: Final[Mapping[type[ast.stmt], Callable[[Any], None]]] = {
            ast.Expr: self._expr,
            ast.Assign: self._assign,
            ast.AnnAssign: self._assign_annotated,
            ast.AugAssign: self._assign_augmented,
            ast.Return: self._return,
            ast.Raise: self._raise,
            ast.If: self._if,
            ast.For: self._for,
            ast.AsyncFor: self._for,
            ast.While: self._while,
            ast.With: self._with,
            ast.AsyncWith: self._with,
            ast.Try: self._try,
            ast.TryStar: self._try,
            ast.Match: self._match,
            ast.FunctionDef: self._define,
            ast.AsyncFunctionDef: self._define,
            ast.Break: self._leave,
            ast.Continue: self._leave,
            ast.Import: self._import,
            ast.ImportFrom: self._import_from,
            ast.Assert: self._assert,
        }

    def read_all(self, statements: Iterable[ast.stmt]) -> None:
        """Read these, in order."""
        for statement in statements:
            handler = self._handlers.get(type(statement))
            if handler is not None:  # what is left says nothing: pass, global, del; a class is looked at in the end
                handler(statement)

    # --- ways --------------------------------------------------------------------------------------------------------

    @property
    def _variables(self) -> Variables:
        return self._reader.frame.variables

    def _set_variables(self, variables: Variables) -> None:
        self._reader.frame.variables = variables

    def _way(self, statements: Iterable[ast.stmt], before: Variables) -> tuple[tuple[Node, ...], Variables | None]:
        """Its nodes, and what is known behind it; None if nothing is behind it."""
        self._set_variables(dict(before))
        with self._reader.block() as nodes:
            self.read_all(statements)
        return tuple(nodes), None if never_goes_on(nodes) else self._variables

    def _meet(self, ways: Iterable[Variables | None], otherwise: Variables, doubtful: Iterable[str] = ()) -> None:
        """Go on where these ways meet; of the `doubtful` variables nothing is known but what they may have been."""
        going_on = [way for way in ways if way is not None]
        self._set_variables(merge_variables(going_on) if going_on else dict(otherwise))
        for name in doubtful:
            if name in self._variables:
                self._variables[name] = either([self._variables[name], UNKNOWN])

    # --- plain statements --------------------------------------------------------------------------------------------

    def _expr(self, node: ast.Expr) -> None:
        self._reader.values.read(node.value)

    def _assign(self, node: ast.Assign) -> None:
        value = self.kept(self._reader.values.read(node.value))
        for target in node.targets:
            self.bind(target, value)

    def _assign_annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.kept(self._reader.values.read(node.value)))

    def _assign_augmented(self, node: ast.AugAssign) -> None:
        value = self._reader.values.read(node.value)
        if isinstance(node.target, ast.Name):
            before = self._reader.frame.find(node.target.id) or UNKNOWN
            self.bind(node.target, either([before, value]) if value.is_live(self._reader.reach) else UNKNOWN)
        else:
            self._reader.values.escape(node, value)

    def kept(self, value: Value) -> Value:
        """As a variable holds it: what goes on by itself has begun."""
        begun = list(value.begun)
        waiting = [thunk for thunk in value.thunks if thunk.is_eager and thunk.result is None]
        begun += [self._reader.calls.begin_beside(thunk) for thunk in waiting]
        return replace(value, begun=tuple(begun)) if begun else value

    def bind(self, target: ast.expr, value: Value) -> None:
        """Give a target its value."""
        reader = self._reader
        if isinstance(target, ast.Name):
            if target.id in reader.frame.names:
                self._variables[target.id] = value
            else:  # a global, or a variable of the function around this one
                reader.values.escape(target, value)
                reader.forget_outside(target.id)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, replace(value, items=()))
        elif isinstance(target, ast.Tuple | ast.List):
            if len(value.items) == len(target.elts) and not any(isinstance(e, ast.Starred) for e in target.elts):
                for element, item in zip(target.elts, value.items, strict=True):
                    self.bind(element, item)
            else:
                for element in target.elts:
                    self.bind(element, replace(value, items=(), form="unsure" if value.form == "unsure" else ""))
        else:
            for part in ast.iter_child_nodes(target):
                if isinstance(part, ast.expr):
                    reader.values.read(part)
            reader.values.escape(target, value)

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        reader = self._reader
        for decorator in node.decorator_list:
            reader.values.escape(decorator, reader.values.read(decorator))
        for default in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
            reader.values.read(default)
        meaning = None if node.decorator_list else FunctionMeaning(node.name, node, reader.scope, frame=reader.frame)
        self._variables[node.name] = Value(meaning=meaning)

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            meaning = self._reader.scope.find_import(alias.name if alias.asname else name, "", 0)
            self._variables[name] = Value(meaning=meaning)

    def _import_from(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            meaning = self._reader.scope.find_import(node.module or "", alias.name, node.level)
            self._variables[alias.asname or alias.name] = Value(meaning=meaning)

    def _assert(self, node: ast.Assert) -> None:
        self._reader.values.read(node.test)

    def _return(self, node: ast.Return) -> None:
        reader = self._reader
        value = UNKNOWN if node.value is None else reader.values.read(node.value)
        expr = reader.express_maybe(node.value)
        is_unawaited = any(thunk.result is None for thunk in value.calls())  # which is shown when the body is read
        if reader.frame.is_body and not is_unawaited:
            reader.values.escape(node, value)
        reader.frame.returns.append(value)
        reader.add(EndNode(reader.new_id("return"), node.lineno, source_of(node), "return", expr))

    def _raise(self, node: ast.Raise) -> None:
        reader = self._reader
        for part in (node.exc, node.cause):
            if part is not None:
                reader.values.escape(node, reader.values.read(part))
        expr = reader.express_maybe(node.exc)
        reader.add(EndNode(reader.new_id("raise"), node.lineno, source_of(node), "raise", expr))

    def _leave(self, node: ast.Break | ast.Continue) -> None:
        form = "break" if isinstance(node, ast.Break) else "continue"
        self._reader.add(EndNode(self._reader.new_id(form), node.lineno, form, form))

    # --- branches ----------------------------------------------------------------------------------------------------

    def _if(self, node: ast.If) -> None:
        reader = self._reader
        node_id = reader.new_id("if")
        reader.values.read_condition(node.test)
        arms: list[Arm] = []
        ways: list[Variables | None] = []
        test: tuple[Node, ...] = ()
        before = dict(self._variables)
        while True:
            condition = reader.express(node.test)
            body, behind = self._way(node.body, before)
            arms.append(Arm(condition, test, body))
            ways.append(behind)
            self._set_variables(dict(before))
            match node.orelse:
                case [ast.If() as other]:
                    node = other
                    with reader.block() as nodes:
                        reader.values.read_condition(node.test)
                    test, before = tuple(nodes), dict(self._variables)
                case []:
                    ways.append(before)
                    break
                case orelse:
                    body, behind = self._way(orelse, before)
                    arms.append(Arm(body=body))
                    ways.append(behind)
                    break
        self._meet(ways, before)
        reader.add(BranchNode(node_id, node.lineno, source_of(node.test), "if", None, tuple(arms)))

    def _match(self, node: ast.Match) -> None:
        reader = self._reader
        node_id = reader.new_id("match")
        reader.values.escape(node.subject, reader.values.read(node.subject))
        subject = reader.express(node.subject)
        before = dict(self._variables)
        arms: list[Arm] = []
        ways: list[Variables | None] = []
        is_complete = False
        for case in node.cases:
            known = {**before, **dict.fromkeys(assigned_names([case.pattern]), UNKNOWN)}
            self._set_variables(known)
            with reader.block() as test:
                if case.guard is not None:
                    reader.values.read_condition(case.guard)
            body, behind = self._way(case.body, self._variables)
            guard = reader.express_maybe(case.guard)
            arms.append(Arm(guard, tuple(test), body, source_of(case.pattern)))
            ways.append(behind)
            is_complete |= case.guard is None and isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
        self._meet(ways if is_complete else [*ways, before], before)
        reader.add(BranchNode(node_id, node.lineno, source_of(node.subject), "match", subject, tuple(arms)))

    # --- loops -------------------------------------------------------------------------------------------------------

    def _forget(self, statements: Iterable[ast.AST]) -> Variables:
        """What a loop's rounds change is not known inside it. Answers what was known before."""
        before = dict(self._variables)
        for name in assigned_names(statements):
            if name in self._reader.frame.names:
                old = before.get(name, UNKNOWN)
                self._variables[name] = replace(
                    old, meaning=None, result="", form="unsure", items=(old,) if old.meaning else old.items
                )
        return before

    def _for(self, node: ast.For | ast.AsyncFor) -> None:
        reader = self._reader
        form = "async for" if isinstance(node, ast.AsyncFor) else "for"
        node_id = reader.new_id("for")
        values = reader.values.read(node.iter)
        over = reader.express(node.iter)
        before = self._forget(node.body)
        # The items of what is waited for (`as_completed`) are waited for themselves.
        self.bind(node.target, reader.values.item_of(values, node_id))
        body, behind = self._way(node.body, self._variables)
        self._meet([before, behind], before, assigned_names(node.body))
        orelse, behind = self._way(node.orelse, self._variables)
        self._meet([behind], before)
        target = source_of(node.target)
        label = f"for {target} in {source_of(node.iter)}"
        reader.add(LoopNode(node_id, node.lineno, label, form, target, over, None, (), body, orelse))

    def _while(self, node: ast.While) -> None:
        reader = self._reader
        node_id = reader.new_id("while")
        before = self._forget([*node.body, node.test])
        with reader.block() as test:
            reader.values.read_condition(node.test)
        condition = reader.express(node.test)
        tested = dict(self._variables)
        body, behind = self._way(node.body, tested)
        self._meet([tested, behind, before], before, assigned_names(node.body))
        orelse, behind = self._way(node.orelse, self._variables)
        self._meet([behind], before)
        label = f"while {source_of(node.test)}"
        reader.add(LoopNode(node_id, node.lineno, label, "while", "", None, condition, tuple(test), body, orelse))

    # --- with, try ---------------------------------------------------------------------------------------------------

    def _with(self, node: ast.With | ast.AsyncWith) -> None:
        self._with_items(node, list(node.items))

    def _with_items(self, node: ast.With | ast.AsyncWith, items: list[ast.withitem]) -> None:
        reader = self._reader
        if not items:
            self.read_all(node.body)
            return
        item, *others = items
        value = reader.values.read(item.context_expr)
        over = reader.express(item.context_expr)
        value, form = reader.calls.enter(value, item.context_expr, is_async=isinstance(node, ast.AsyncWith))
        node_id = reader.new_id(form)
        if item.optional_vars is not None:
            self.bind(item.optional_vars, value)
        with reader.block() as nodes:
            self._with_items(node, others)
        label = source_of(item.context_expr)
        if form == "group":
            reader.add(ParallelNode(node_id, node.lineno, label, "group", (tuple(nodes),)))
        elif form != "with":
            reader.add(ScopeNode(node_id, node.lineno, label, form, (over,), tuple(nodes)))
        elif nodes:
            reader.add(ScopeNode(node_id, node.lineno, label, "with", (over,), tuple(nodes)))

    def _try(self, node: ast.Try | ast.TryStar) -> None:
        reader = self._reader
        node_id = reader.new_id("try")
        before = dict(self._variables)
        body, behind = self._way(node.body, before)
        # An error may come between any two statements: of what the body sets, the handlers know nothing.
        after = dict(self._variables)
        self._meet([before, after], before, assigned_names(node.body))
        known = dict(self._variables)
        orelse, behind_else = self._way(node.orelse, after if behind is None else behind)
        ways: list[Variables | None] = [None if behind is None else behind_else]
        handlers = []
        for handler in node.handlers:
            inside = {**known, **({handler.name: UNKNOWN} if handler.name else {})}
            nodes, behind = self._way(handler.body, inside)
            condition = reader.express_maybe(handler.type)
            handlers.append(Arm(condition, (), nodes, "" if handler.type is None else source_of(handler.type)))
            ways.append(behind)
        self._meet(ways, known)
        finalbody: tuple[Node, ...] = ()
        if node.finalbody:
            met = dict(self._variables)
            with reader.block() as last:
                self.read_all(node.finalbody)
            finalbody = tuple(last)
            self._set_variables({**met, **self._variables})
        is_group = isinstance(node, ast.TryStar)
        reader.add(TryNode(node_id, node.lineno, "try", body, tuple(handlers), orelse, finalbody, is_group))


def never_goes_on(nodes: Iterable[Node]) -> bool:
    """Whether nothing behind these nodes is reached."""
    for node in nodes:
        match node:
            case EndNode():
                return True
            case BranchNode(form="if" | "choice", arms=arms):
                is_complete = bool(arms) and arms[-1].condition is None
                if is_complete and all(never_goes_on(arm.body) for arm in arms):
                    return True
            case TryNode(finalbody=finalbody) if never_goes_on(finalbody):
                return True
            case TryNode(body=body, handlers=handlers, orelse=orelse):
                if never_goes_on([*body, *orelse]) and all(never_goes_on(arm.body) for arm in handlers):
                    return True
            case ScopeNode(body=body) if never_goes_on(body):
                return True
            case ParallelNode(form="group", lanes=lanes) if any(map(never_goes_on, lanes)):
                return True
            case _:
                pass
    return False
