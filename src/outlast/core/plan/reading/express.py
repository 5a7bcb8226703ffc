"""From Python's syntax tree to the expressions of a plan. Layer: core.

What always holds: the expression says what the source says, or is `Opaque` with that source; an awaited call is a
reference to the result of its node.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Final

from outlast.core.plan.expressions import (
    Argument,
    Attribute,
    Call,
    Choice,
    Clause,
    Compare,
    Each,
    Expr,
    Formatted,
    Item,
    Literal,
    Many,
    Named,
    Opaque,
    Operation,
    Pairs,
    Reference,
    Slice,
    Spread,
    Text,
)

__all__ = ["OPERATORS", "Express", "source_of"]

OPERATORS: Final[Mapping[type[ast.AST], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.And: "and",
    ast.Or: "or",
    ast.Not: "not",
    ast.USub: "-",
    ast.UAdd: "+",
    ast.Invert: "~",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_LONGEST_SOURCE = 200


def source_of(node: ast.AST, limit: int = _LONGEST_SOURCE) -> str:
    """The source in one line, cut where it is long."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


class Express:
    """Makes expressions. `refer` says what a name stands for, `results` which nodes of the tree are results."""

    def __init__(self, refer: Callable[[str], Reference], results: Mapping[ast.AST, str]) -> None:
        self._refer = refer
        self._results = results
        self._inner: list[str] = []
        """Variables of the comprehensions around what is being made."""

    def __call__(self, node: ast.AST) -> Expr:
        """The expression of a tree."""
        result = self._results.get(node)
        if result is not None:
            return Reference("", "result", result)
        match node:
            case ast.Constant(value=value):
                return _literal(value) or Opaque(source_of(node))
            case ast.Name(id=name):
                return Reference(name) if name in self._inner else self._refer(name)
            case ast.Attribute(value=value, attr=name):
                return Attribute(self(value), name)
            case ast.Subscript(value=value, slice=index):
                return Item(self(value), self(index))
            case ast.Await(value=value):
                return self(value)
            case ast.Starred(value=value):
                return Spread(self(value))
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                return Named(name, self(value))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return Choice(self(test), self(body), self(orelse))
            case ast.Call(func=func):
                return Call(self(func), self.arguments(node))
            case _:
                return self._collection(node)

    def arguments(self, call: ast.Call) -> tuple[Argument, ...]:
        """Those of a call."""
        positional = [
            Argument(self(value.value), spread="*") if isinstance(value, ast.Starred) else Argument(self(value))
            for value in call.args
        ]
        named = [
            Argument(self(keyword.value), keyword.arg or "", "" if keyword.arg else "**") for keyword in call.keywords
        ]
        return (*positional, *named)

    def _collection(self, node: ast.AST) -> Expr:
        match node:
            case ast.List(elts=elts):
                return Many("list", self._all(elts))
            case ast.Tuple(elts=elts):
                return Many("tuple", self._all(elts))
            case ast.Set(elts=elts):
                return Many("set", self._all(elts))
            case ast.Dict(keys=keys, values=values):
                return Pairs(tuple(None if key is None else self(key) for key in keys), self._all(values))
            case ast.Slice(lower=lower, upper=upper, step=step):
                return Slice(self._maybe(lower), self._maybe(upper), self._maybe(step))
            case ast.JoinedStr(values=values):
                return Text(self._all(values))
            case ast.FormattedValue(value=value, conversion=conversion, format_spec=spec):
                return Formatted(self(value), chr(conversion) if conversion > 0 else "", self._maybe(spec))
            case _:
                return self._operation(node)

    def _each(self, form: str, parts: list[ast.expr], generators: list[ast.comprehension]) -> Expr:
        """A comprehension; its variables are its own."""
        before = len(self._inner)
        clauses: list[Clause] = []
        for clause in generators:
            over = self(clause.iter)
            self._inner += [part.id for part in ast.walk(clause.target) if isinstance(part, ast.Name)]
            clauses.append(Clause(self(clause.target), over, self._all(clause.ifs), bool(clause.is_async)))
        *key, element = self._all(parts)
        del self._inner[before:]
        return Each(form, element, tuple(clauses), key[0] if key else None)

    def _operation(self, node: ast.AST) -> Expr:
        match node:
            case ast.UnaryOp(op=op, operand=operand):
                return Operation(OPERATORS[type(op)], (self(operand),))
            case ast.BinOp(left=left, op=op, right=right):
                return Operation(OPERATORS[type(op)], (self(left), self(right)))
            case ast.BoolOp(op=op, values=values):
                return Operation(OPERATORS[type(op)], self._all(values))
            case ast.Compare(left=left, ops=ops, comparators=others):
                return Compare(tuple(OPERATORS[type(op)] for op in ops), self._all([left, *others]))
            case ast.ListComp(elt=elt, generators=generators):
                return self._each("list", [elt], generators)
            case ast.SetComp(elt=elt, generators=generators):
                return self._each("set", [elt], generators)
            case ast.GeneratorExp(elt=elt, generators=generators):
                return self._each("generator", [elt], generators)
            case ast.DictComp(key=key, value=value, generators=generators):
                return self._each("dict", [key, value], generators)
            case _:
                return Opaque(source_of(node))

    def _all(self, nodes: list[ast.expr]) -> tuple[Expr, ...]:
        return tuple(map(self, nodes))

    def _maybe(self, node: ast.AST | None) -> Expr | None:
        return None if node is None else self(node)


def _literal(value: object) -> Literal | None:
    """None for what JSON does not have."""
    if isinstance(value, bool):
        return Literal(value)
    if isinstance(value, int):
        return Literal(value) if -(1 << 63) <= value < 1 << 63 else None
    if isinstance(value, float):
        return Literal(value) if value - value == 0 else None  # neither infinite nor NaN
    if isinstance(value, str):
        return Literal(value) if _is_utf8(value) else None
    return Literal(None) if value is None else None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
