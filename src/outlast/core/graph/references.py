"""The language of a graph's values: literals, references and texts with references in them. Layer: core.

    $input.order.items[0]      the run's input               $item, $index    in a node with for_each
    $nodes.charge.receipt      what a node gave last         $error.message   in a handler
    $nodes["a b"]["c.d"]       names in quotes               $run.id, $run.user
    $input.coupon?             null where it is missing      $output.verdict  in `branch`: what the node gave
    Order ${input.order}       a text with references in it  $$5              a text that begins with $

It is closed: there is no expression, no call and no eval, and what a value refers to can be read off before anything
runs. What always holds: a text that is one reference gives the value itself, a text with references in it gives a text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from outlast.core.graph.limits import LONGEST_PATH, MOST_PARTS
from outlast.core.graph.problems import list_names, shorten

__all__ = [
    "ROOTS",
    "Literal",
    "Missing",
    "Reference",
    "ReferenceProblem",
    "Scope",
    "Template",
    "Value",
    "iter_references",
    "kind_of",
    "parse_reference",
    "parse_value",
    "write_step",
]

ROOTS: Final = ("input", "nodes", "item", "index", "error", "run", "output")

Scope: TypeAlias = Mapping[str, Any]
"""What there is to refer to, by root. `nodes` has what each node gave that has run."""

_ROOT = re.compile(r"\$([A-Za-z_]+)")
_STEP = re.compile(
    r"""\.([^\s.\[\]{}$?"]+)"""  # .name
    r"""|\[(-?[0-9]{1,9})\]"""  # [0], [-1]
    r"""|\[("(?:[^"\\]|\\.)*")\]"""  # ["any text"]
)
_PLAIN_NAME = re.compile(r"""[^\s.\[\]{}$?"]+""")
_write_json = msgspec.json.Encoder().encode


class ReferenceProblem(ValueError):
    """A text that is no reference: what is wrong, and what to do."""

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(problem, fix)
        self.problem = problem
        self.fix = fix


class Missing(LookupError):
    """A reference to what is not there, or is not what it was taken for. Says what is there."""


class Reference(NamedTuple):
    """A place in what a run knows. `str()` of it is its normal form."""

    root: str
    node: str
    """For the root `nodes`: which."""
    path: tuple[str | int, ...]
    is_optional: bool

    def resolve(self, scope: Scope) -> Any:
        """The value there. Raises Missing."""
        value = scope.get(self.root, _NOTHING)
        if self.root == "nodes" and value is not _NOTHING:
            value = value.get(self.node, _NOTHING)
        if value is _NOTHING:
            if self.is_optional:
                return None
            raise Missing(f"{self} has not run" if self.root == "nodes" else f"there is no ${self.root} here")
        for number, step in enumerate(self.path):
            if value is None and self.is_optional:
                return None
            value = self._enter(value, step, number)
            if value is _NOTHING:
                return None
        return value

    def _enter(self, value: Any, step: str | int, number: int) -> Any:
        """One step of the path; _NOTHING where that is missing and may be."""
        try:
            if isinstance(value, dict) and isinstance(step, str):
                return value[step]
            if isinstance(value, list) and isinstance(step, int):
                return value[step]
        except LookupError:
            if self.is_optional:
                return _NOTHING
            there = f"has {list_names(list(value)) or 'nothing'}" if isinstance(value, dict) else f"has {len(value)}"
            before = self._replace(path=self.path[:number], is_optional=False)
            raise Missing(f"{before} {there}, and no {shorten(step)}") from None
        before = self._replace(path=self.path[:number], is_optional=False)
        raise Missing(f"{before} is {kind_of(value)}, and has no {shorten(step)}")

    def __str__(self) -> str:
        return f"${self.inner}"

    @property
    def inner(self) -> str:
        """As it stands in a text, between `${` and `}`."""
        steps = (self.node, *self.path) if self.root == "nodes" else self.path
        return f"{self.root}{''.join(map(write_step, steps))}{'?' if self.is_optional else ''}"


_NOTHING: Final = object()


def write_step(step: str | int) -> str:
    """One step of a path: `.name`, `[0]` or `["any name"]`."""
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_NAME.fullmatch(step) else f"[{json.dumps(step, ensure_ascii=False)}]"


class Literal(NamedTuple):
    """A value without references."""

    value: Any

    def resolve(self, scope: Scope) -> Any:  # noqa: ARG002 - as the others are
        """The value."""
        return self.value


class Template(NamedTuple):
    """A text with references in it."""

    parts: tuple[str | Reference, ...]

    def resolve(self, scope: Scope) -> str:
        """The text: texts go in as they are, all else as JSON. Raises Missing."""
        return "".join(part if isinstance(part, str) else _write(part, scope) for part in self.parts)


class ListValue(NamedTuple):
    """A list with references somewhere in it."""

    items: tuple[Value, ...]

    def resolve(self, scope: Scope) -> list[Any]:
        """The list. Raises Missing."""
        return [item.resolve(scope) for item in self.items]


class ObjectValue(NamedTuple):
    """An object with references somewhere in it."""

    fields: tuple[tuple[str, Value], ...]

    def resolve(self, scope: Scope) -> dict[str, Any]:
        """The object. Raises Missing."""
        return {name: value.resolve(scope) for name, value in self.fields}


Value: TypeAlias = Literal | Reference | Template | ListValue | ObjectValue


def _write(reference: Reference, scope: Scope) -> str:
    value = reference.resolve(scope)
    if isinstance(value, str):
        return value
    if value is None and reference.is_optional:
        return ""
    return _write_json(value).decode()


# --- reading ----------------------------------------------------------------------------------------------------------


def parse_value(data: Any) -> Value:
    """The value that plain data stands for. Raises ReferenceProblem."""
    if isinstance(data, str):
        return _parse_text(data)
    if isinstance(data, list):
        items = tuple(map(parse_value, data))
        return Literal([item.resolve({}) for item in items]) if _are_literal(items) else ListValue(items)
    if isinstance(data, dict):
        fields = tuple((name, parse_value(part)) for name, part in data.items())
        if _are_literal(value for _, value in fields):
            return Literal({name: value.resolve({}) for name, value in fields})
        return ObjectValue(fields)
    return Literal(data)


def _are_literal(values: Iterable[Value]) -> bool:
    return all(isinstance(value, Literal) for value in values)


def _parse_text(text: str) -> Value:
    if "$" not in text:
        return Literal(text)
    if text[0] == "$" and text[1:2] not in {"$", "{"}:
        return parse_reference(text)
    parts: list[str | Reference] = []
    pieces: list[str] = []  # of the text before the next reference
    at, count = 0, 0
    while (sign := text.find("$", at)) >= 0:
        pieces.append(text[at:sign])
        follows = text[sign + 1 : sign + 2]
        if follows == "{":
            end = _find_end(text, sign + 2)
            parts += ["".join(pieces), parse_reference(f"${text[sign + 2 : end]}")]
            pieces, at, count = [], end + 1, count + 1
            if count > MOST_PARTS:
                raise ReferenceProblem(f"A text has over {MOST_PARTS} references", "Take it apart.")
        else:  # `$$` is one; a `$` before anything else stands for itself
            pieces.append("$")
            at = sign + (2 if follows == "$" else 1)
    last = "".join([*pieces, text[at:]])
    if not parts:
        return Literal(last)
    return Template(tuple(part for part in (*parts, last) if part != ""))


def _find_end(text: str, start: int) -> int:
    """Where the reference that begins here is closed; a brace in quotes is part of a name."""
    at, quoted = start, False
    while at < len(text):
        sign = text[at]
        if quoted and sign == "\\":
            at += 1
        elif sign == '"':
            quoted = not quoted
        elif sign == "}" and not quoted:
            return at
        at += 1
    problem = f"{shorten(text[start - 2 :])} is not closed"
    raise ReferenceProblem(problem, "Write the } that ends it; for a text with ${ in it write $${.")


def parse_reference(text: str) -> Reference:
    """The reference this text is. Raises ReferenceProblem."""
    match = _ROOT.match(text)
    if match is None or match[1] not in ROOTS:
        roots = ", ".join(f"${root}" for root in ROOTS)
        fix = f"References begin with {roots}. For a text that begins with $ write $$."
        raise ReferenceProblem(f"{shorten(text)} is no reference", fix)
    root, at = match[1], match.end()
    is_optional = text.endswith("?")
    end = len(text) - 1 if is_optional else len(text)
    steps: list[str | int] = []
    while at < end:
        step = _STEP.match(text, at, end)
        if step is None:
            problem = f"{shorten(text)} cannot be read from {shorten(text[at:])} on"
            raise ReferenceProblem(problem, 'Paths are written .name, [0] or ["any name"].')
        steps.append(_read_step(step, text))
        at = step.end()
        if len(steps) > LONGEST_PATH + 1:
            raise ReferenceProblem(f"{shorten(text)} has over {LONGEST_PATH} steps", "Let a step take it apart.")
    return _make(root, steps, is_optional, text)


def _read_step(match: re.Match[str], text: str) -> str | int:
    name, index, quoted = match.groups()
    if index is not None:
        return int(index)
    if quoted is None:
        return name
    try:
        read = json.loads(quoted)
        read.encode()
    except ValueError:  # also of half a surrogate pair
        problem = f"{shorten(text)} has a name that is no JSON text: {shorten(quoted)}"
        raise ReferenceProblem(problem, "Write it in double quotes, with \\ before quotes within.") from None
    assert isinstance(read, str)
    return read


def _make(root: str, steps: list[str | int], is_optional: bool, text: str) -> Reference:
    if root != "nodes":
        if root == "index" and steps:
            raise ReferenceProblem(f"{shorten(text)} goes into a number", "Write $index alone.")
        return Reference(root, "", tuple(steps), is_optional)
    if not steps or not isinstance(steps[0], str):
        raise ReferenceProblem(f"{shorten(text)} names no node", 'Write $nodes.name or $nodes["any name"].')
    return Reference(root, steps[0], tuple(steps[1:]), is_optional)


def iter_references(value: Value) -> Iterator[Reference]:
    """All references in it, in order."""
    match value:
        case Reference():
            yield value
        case Template(parts):
            yield from (part for part in parts if isinstance(part, Reference))
        case ListValue(items):
            for item in items:
                yield from iter_references(item)
        case ObjectValue(fields):
            for _, part in fields:
                yield from iter_references(part)
        case Literal():
            pass


def kind_of(value: object) -> str:
    """What JSON calls it, with an article: for messages."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    return "a list" if isinstance(value, list) else "an object"
