"""Expressions as data: what a plan says of arguments, conditions and results. Layer: core.

What always holds: an expression is made from source and never run as source; it can be written as JSON and read back
by every later release; and what has no form of its own here is `Opaque`, with its source.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

__all__ = [
    "Argument",
    "Attribute",
    "Call",
    "Choice",
    "Clause",
    "Compare",
    "Each",
    "Expr",
    "Formatted",
    "Item",
    "Literal",
    "Many",
    "Named",
    "Opaque",
    "Operation",
    "Pairs",
    "Reference",
    "Slice",
    "Spread",
    "Text",
    "to_text",
]


class _Expr(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="is", tag=str.lower):
    """What all have in common."""


class Literal(_Expr, frozen=True):
    """None, a truth value, a number or a text."""

    value: bool | int | float | str | None


class Reference(_Expr, frozen=True):
    """A name, and what it is known to stand for."""

    name: str
    to: str = "variable"
    """`input` (a parameter of the workflow), `result` (of `node`), `item` (of the loop `node`), `context`, `variable`
    (of the body: one of several things, or none of these) or `global`."""
    node: str = ""


class Attribute(_Expr, frozen=True):
    """`of.name`."""

    of: Expr
    name: str


class Item(_Expr, frozen=True):
    """`of[index]`."""

    of: Expr
    index: Expr


class Slice(_Expr, frozen=True):
    """`start:stop:step`, an index."""

    start: Expr | None = None
    stop: Expr | None = None
    step: Expr | None = None


class Formatted(_Expr, frozen=True):
    """One `{value!r:spec}` of a text template."""

    value: Expr
    conversion: str = ""
    spec: Expr | None = None


class Text(_Expr, frozen=True):
    """A text template: literals and `Formatted`."""

    parts: tuple[Expr, ...]


class Many(_Expr, frozen=True):
    """A `list`, `tuple` or `set` of these."""

    form: str
    items: tuple[Expr, ...] = ()


class Spread(_Expr, frozen=True):
    """`*of`, in a call or a list."""

    of: Expr


class Pairs(_Expr, frozen=True):
    """A dict. A key of None spreads its value, a mapping."""

    keys: tuple[Expr | None, ...] = ()
    values: tuple[Expr, ...] = ()


class Operation(_Expr, frozen=True):
    """`and`, `or`, `not`, or arithmetic: two operands, or one with `not`, `-`, `+`, `~`; more with `and` and `or`."""

    op: str
    operands: tuple[Expr, ...]


class Compare(_Expr, frozen=True):
    """`a < b <= c`: one more operand than operators."""

    ops: tuple[str, ...]
    operands: tuple[Expr, ...]


class Choice(_Expr, frozen=True):
    """`then if condition else otherwise`."""

    condition: Expr
    then: Expr
    otherwise: Expr


class Named(_Expr, frozen=True):
    """`(name := value)`."""

    name: str
    value: Expr


class Argument(msgspec.Struct, frozen=True, omit_defaults=True):
    """One argument of a call."""

    value: Expr
    name: str = ""
    """Empty: given by position."""
    spread: str = ""
    """`*` or `**`."""


class Call(_Expr, frozen=True):
    """A call of something that is no step: what it does, the plan does not know."""

    function: Expr
    arguments: tuple[Argument, ...] = ()


class Clause(msgspec.Struct, frozen=True, omit_defaults=True):
    """One `for target in over if condition …` of a comprehension."""

    target: Expr
    over: Expr
    conditions: tuple[Expr, ...] = ()
    is_async: bool = False


class Each(_Expr, frozen=True):
    """A comprehension: `list`, `set`, `dict` or `generator`."""

    form: str
    element: Expr
    clauses: tuple[Clause, ...]
    key: Expr | None = None


class Opaque(_Expr, frozen=True):
    """Source that has no other form here."""

    source: str


Expr: TypeAlias = (
    Literal
    | Reference
    | Attribute
    | Item
    | Slice
    | Formatted
    | Text
    | Many
    | Spread
    | Pairs
    | Operation
    | Compare
    | Choice
    | Named
    | Call
    | Each
    | Opaque
)
"""Any expression."""


# --- as people read them --------------------------------------------------------------------------------------------

_ATOMS = (Literal, Reference, Attribute, Item, Text, Many, Pairs, Call, Each, Named)
_OPENING = {"list": "[", "set": "{", "dict": "{", "tuple": "(", "generator": "("}
_CLOSING = {"list": "]", "set": "}", "dict": "}", "tuple": ")", "generator": ")"}


def to_text(expr: Expr) -> str:
    """As Python would write it; what stands for the result of a step is called like the step."""
    match expr:
        case Literal(value):
            return repr(value)
        case Reference(name, _, node):
            return name or node
        case Attribute(of, name):
            return f"{_inner(of)}.{name}"
        case Item(of, index):
            return f"{_inner(of)}[{to_text(index)}]"
        case Text(parts):
            return _template(parts)
        case Formatted():
            return _template((expr,))
        case Call(function, arguments):
            return f"{_inner(function)}({', '.join(map(argument_text, arguments))})"
        case Opaque(source):
            return source
        case Operation() | Compare() | Choice() | Named():
            return _operation_text(expr)
        case _:
            return _collection_text(expr)


def _operation_text(expr: Operation | Compare | Choice | Named) -> str:
    match expr:
        case Operation(op, operands) if len(operands) == 1:
            return f"{op}{' ' if op == 'not' else ''}{_inner(operands[0])}"
        case Operation(op, operands):
            return f" {op} ".join(map(_inner, operands))
        case Compare(ops, operands):
            rest = (f" {op} {_inner(operand)}" for op, operand in zip(ops, operands[1:], strict=True))
            return _inner(operands[0]) + "".join(rest)
        case Choice(condition, then, otherwise):
            return f"{_inner(then)} if {_inner(condition)} else {_inner(otherwise)}"
        case Named(name, value):
            return f"({name} := {to_text(value)})"


def _collection_text(expr: Many | Pairs | Spread | Slice | Each) -> str:
    match expr:
        case Many(form, items):
            comma = "," if form == "tuple" and len(items) == 1 else ""
            inside = ", ".join(map(to_text, items))
            return "set()" if form == "set" and not items else f"{_OPENING[form]}{inside}{comma}{_CLOSING[form]}"
        case Pairs(keys, values):
            return f"{{{', '.join(map(_pair, keys, values))}}}"
        case Spread(of):
            return f"*{_inner(of)}"
        case Slice(start, stop, step):
            end = "" if step is None else f":{to_text(step)}"
            return f"{_optional(start)}:{_optional(stop)}{end}"
        case Each(form, element, clauses, key):
            shown = to_text(element) if key is None else f"{to_text(key)}: {to_text(element)}"
            return f"{_OPENING[form]}{shown}{''.join(map(_clause, clauses))}{_CLOSING[form]}"


def argument_text(argument: Argument) -> str:
    """`value`, `name=value`, `*value` or `**value`."""
    before = f"{argument.name}=" if argument.name else argument.spread
    return before + to_text(argument.value)


def _inner(expr: Expr) -> str:
    """As part of something that binds it more closely."""
    return to_text(expr) if isinstance(expr, _ATOMS) else f"({to_text(expr)})"


def _optional(expr: Expr | None) -> str:
    return "" if expr is None else to_text(expr)


def _pair(key: Expr | None, value: Expr) -> str:
    return f"**{_inner(value)}" if key is None else f"{to_text(key)}: {to_text(value)}"


def _clause(clause: Clause) -> str:
    tests = "".join(f" if {to_text(test)}" for test in clause.conditions)
    return f"{' async' if clause.is_async else ''} for {to_text(clause.target)} in {_inner(clause.over)}{tests}"


def _template(parts: tuple[Expr, ...]) -> str:
    text = ""
    for part in parts:
        if isinstance(part, Formatted):
            spec = "" if part.spec is None else f":{_bare(part.spec)}"
            text += f"{{{to_text(part.value)}{'!' if part.conversion else ''}{part.conversion}{spec}}}"
        else:
            text += _bare(part)
    return f"f{text!r}"


def _bare(expr: Expr) -> str:
    """Part of a template, without quotes of its own."""
    if isinstance(expr, Literal):
        return str(expr.value)
    return _template(expr.parts)[2:-1] if isinstance(expr, Text) else to_text(expr)
