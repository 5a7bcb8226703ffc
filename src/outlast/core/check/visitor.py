"""One function of a body's, looked over in the order of its source. Layer: core.

What always holds: what runs as a step is not looked at: closures of `ctx.do` and `ctx.compensate`, functions inside
that only these are given, and what the options of a step name.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Final

from outlast.core.check.cleanup import is_catching_all, is_harmless_in_cleanup, raises_again
from outlast.core.check.handed import find_handed, parts_of_steps
from outlast.core.check.names import Names
from outlast.core.check.tables import rule_of
from outlast.core.plan.reading.express import source_of
from outlast.core.plan.reading.meaning import FunctionMeaning, KnownMeaning, PartialMeaning

__all__ = ["Visitor"]

Report = Callable[[str, ast.AST, str], None]
"""Rule, place, message."""

_MARKS: Final = frozenset({"milestone", "set_state"})
# What takes a set without asking for its order.
_UNORDERED: Final = frozenset({"all", "any", "bool", "frozenset", "len", "max", "min", "set", "sorted", "sum"})
_ORDERED: Final = frozenset(
    {"dict", "enumerate", "filter", "iter", "list", "map", "next", "reversed", "tuple", "zip", "gather", "join"}
)
_MUTATING: Final = frozenset(
    """add append appendleft clear discard extend extendleft insert pop popitem popleft remove reverse setdefault sort
    update""".split()  # noqa: SIM905 - a table to be read
)


class Visitor(ast.NodeVisitor):
    """Looks over one function. `follow` is told of every function of the author's that it names."""

    def __init__(
        self,
        function: FunctionMeaning,
        report: Report,
        follow: Callable[[FunctionMeaning], None],
        changed_globals: frozenset[str],
        reaches: Callable[[FunctionMeaning], Iterable[str]],
    ) -> None:
        self._function = function
        self._names = Names(function)
        self._report = report
        self._follow = follow
        self._changed_globals = changed_globals
        self._reaches = reaches
        self._contexts = _find_contexts(function.definition)
        self._cleanup = 0
        self._handed: set[ast.AST] = find_handed(function.definition)
        """Functions inside that run as steps, and expressions that have been judged where they are used."""
        self._globals: set[str] = set()

    def look(self, definition: ast.AST) -> None:
        """All of it."""
        body = definition.body if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef) else [definition]
        for node in body:
            if isinstance(node, ast.Lambda):
                self.visit(node.body)
            else:
                self.visit(node)

    # --- assignments, in order ----------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> None:
        """The value first."""
        self.visit(node.value)
        for target in node.targets:
            self._target(target)
            self._names.assign(target, node.value)
            if isinstance(target, ast.Tuple | ast.List):
                self._ordered(node.value, "takes apart")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Its annotation says what it is."""
        if node.value is not None:
            self.visit(node.value)
        self._target(node.target)
        self._names.assign(node.target, node.value, node.annotation)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """A set stays one."""
        self.visit(node.value)
        self._target(node.target)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        """The value first."""
        self.visit(node.value)
        self._names.assign(node.target, node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        """A part of a global may go."""
        for target in node.targets:
            self._target(target)

    def visit_Global(self, node: ast.Global) -> None:
        """What is assigned to is not the function's own."""
        self._globals.update(node.names)

    def visit_Import(self, node: ast.Import) -> None:
        """As far as it has been imported before."""
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            found = self._function.scope.find_import(alias.name if alias.asname else name, "", 0)
            self._names.set_meaning(name, found)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Likewise."""
        for alias in node.names:
            found = self._function.scope.find_import(node.module or "", alias.name, node.level)
            self._names.set_meaning(alias.asname or alias.name, found)

    def _target(self, target: ast.AST) -> None:
        """What is assigned to: a global, or a part of one?"""
        if isinstance(target, ast.Name):
            if target.id in self._globals:
                self._report("global", target, f"sets the global {target.id}")
        elif isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                self._target(element)
        elif isinstance(target, ast.Starred):
            self._target(target.value)
        elif isinstance(target, ast.Subscript | ast.Attribute):
            owner = _root(target)
            if owner is not None and self._names.is_global(owner.id) and self._names.meaning(owner) is not None:
                self._report("global", target, f"changes {source_of(target, 60)}")
            self.generic_visit(target)

    # --- functions inside ---------------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """As if it were called here. What its parameters are without an argument is worked out here in any case."""
        self._defaults(node.args)
        self._names.assign(ast.Name(node.name, ast.Store()), None)
        if node in self._handed:
            return
        self._names.enter(node.args)
        cleanup, self._cleanup = self._cleanup, 0
        for statement in node.body:
            self.visit(statement)
        self._cleanup = cleanup

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - ast's name

    def visit_Lambda(self, node: ast.Lambda) -> None:
        """Likewise."""
        self._defaults(node.args)
        if node in self._handed:
            return
        self._names.enter(node.args)
        self.visit(node.body)

    def _defaults(self, arguments: ast.arguments) -> None:
        for default in [*arguments.defaults, *arguments.kw_defaults]:
            if default is not None:
                self.visit(default)

    # --- order --------------------------------------------------------------------------------------------------------

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        """A loop over a set."""
        self.visit(node.iter)
        self._ordered(node.iter, "iterates over")
        self._names.assign(node.target, None)
        for statement in [*node.body, *node.orelse]:
            self.visit(statement)

    visit_AsyncFor = visit_For  # noqa: N815 - ast's name

    def _comprehension(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp | ast.DictComp) -> None:
        is_used_in_order = isinstance(node, ast.ListComp | ast.DictComp) or any(
            isinstance(part, ast.Await) for part in ast.walk(node)
        )
        is_used_in_order |= isinstance(node, ast.GeneratorExp) and node not in self._handed
        for clause in node.generators:
            self.visit(clause.iter)
            if is_used_in_order:
                self._ordered(clause.iter, "iterates over")
            self._names.assign(clause.target, None)
            for test in clause.ifs:
                self.visit(test)
        for part in [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]:
            self.visit(part)

    visit_ListComp = visit_GeneratorExp = visit_SetComp = visit_DictComp = _comprehension  # noqa: N815 - ast's names

    def visit_Starred(self, node: ast.Starred) -> None:
        """`[*items]`, `gather(*calls)`."""
        self._ordered(node.value, "takes apart")
        self.visit(node.value)

    def _ordered(self, node: ast.AST, what: str) -> None:
        if self._names.is_set(node):
            self._report("order", node, f"{what} the set {source_of(node, 60)}")

    # --- names and calls ----------------------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> None:
        """A global that somebody changes; a function of the author's; something of the standard library."""
        if not isinstance(node.ctx, ast.Load) or node in self._handed:
            return
        if self._names.is_global(node.id) and node.id in self._changed_globals:
            self._report("global", node, f"reads the global {node.id}, which is changed elsewhere in its module")
        self._named(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """A path."""
        if node not in self._handed:
            self._named(node)
        self.visit(node.value)

    def _named(self, node: ast.Name | ast.Attribute) -> None:
        meaning = self._names.meaning(node)
        while isinstance(meaning, PartialMeaning):
            meaning = meaning.of
        if isinstance(meaning, FunctionMeaning):
            self._follow(meaning)
        elif isinstance(meaning, KnownMeaning):
            self._known(node, meaning.path, is_called=False)

    def _known(self, node: ast.expr, path: str, *, is_called: bool, has_arguments: bool = False) -> None:
        rule = rule_of(path, is_called=is_called, has_arguments=has_arguments)
        if rule:
            shown = path.removeprefix("builtins.").replace("asyncio.loop()", "loop")
            self._report(rule, node, f"calls {shown}()" if is_called else f"reads {shown}")

    def visit_Call(self, node: ast.Call) -> None:
        """What is called, and with what."""
        meaning = self._names.meaning(node.func)
        if isinstance(meaning, KnownMeaning):
            has_arguments = bool(node.args or node.keywords)
            self._known(node.func, meaning.path, is_called=True, has_arguments=has_arguments)
            self._handed.add(node.func)
        self._judge_set_use(node, meaning)
        self._judge_mutation(node)
        if self._cleanup and not is_harmless_in_cleanup(node, self._names.meaning(node.func), self._reaches):
            self._report("cleanup", node, f"calls {source_of(node.func, 60)}() where a body is cleaned up")
        skipped = parts_of_steps(node)
        for part in [node.func, *node.args, *(keyword.value for keyword in node.keywords)]:
            if part not in skipped:
                self.visit(part)

    def _judge_set_use(self, node: ast.Call, meaning: object) -> None:
        attr = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        name = meaning.path.rpartition(".")[2] if isinstance(meaning, KnownMeaning) else attr
        if name in _UNORDERED:
            self._handed.update(argument for argument in node.args if isinstance(argument, ast.GeneratorExp))
        if name in _ORDERED:
            for argument in node.args:
                self._ordered(argument, f"gives {name}()")
        if attr == "pop" and isinstance(node.func, ast.Attribute) and not node.args:
            self._ordered(node.func.value, "takes any one of")

    def _judge_mutation(self, node: ast.Call) -> None:
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in _MUTATING:
            owner = _root(func.value)
            if owner is not None and self._names.is_global(owner.id):
                meaning = self._names.meaning(func.value)
                if meaning is not None and not isinstance(meaning, KnownMeaning | FunctionMeaning):
                    self._report("global", node, f"changes {source_of(func.value, 60)}")

    def visit_Expr(self, node: ast.Expr) -> None:
        """A mark that nothing awaits is never made. (Steps and waits of that kind stand in the plan.)"""
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _MARKS:
            of = call.func.value
            if isinstance(of, ast.Name) and of.id in self._contexts:
                self._report("unawaited", call, f"makes the call {source_of(call, 60)}, which nothing awaits")
        self.visit(call)

    # --- clean-up -----------------------------------------------------------------------------------------------------

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        """What runs when the body is dropped too."""
        for statement in [*node.body, *node.orelse]:
            self.visit(statement)
        for handler in node.handlers:
            catches_all = is_catching_all(handler, self._names)
            if catches_all and not raises_again(handler):
                shown = "except:" if handler.type is None else f"except {source_of(handler.type, 60)}:"
                self._report("swallow", handler, f"catches what drops the body, and goes on: {shown}")
            if handler.name:
                self._names.assign(ast.Name(handler.name, ast.Store()), None)
            self._cleanup += catches_all
            for statement in handler.body:
                self.visit(statement)
            self._cleanup -= catches_all
        self._cleanup += 1
        for statement in node.finalbody:
            self.visit(statement)
        self._cleanup -= 1

    visit_TryStar = visit_Try  # noqa: N815 - ast's name


def _root(node: ast.AST) -> ast.Name | None:
    """`a` in `a.b[c].d`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _find_contexts(definition: ast.AST) -> set[str]:
    """Parameters of an `async def` that are contexts, by their annotation or their usual name."""
    if not isinstance(definition, ast.AsyncFunctionDef):
        return set()  # in a plain body these calls need no await
    parameters = [*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs]
    return {each.arg for each in parameters if each.arg == "ctx" or _is_context(each.annotation)}


def _is_context(annotation: ast.expr | None) -> bool:
    return annotation is not None and ast.unparse(annotation).strip("'\"").rpartition(".")[2] == "Context"
