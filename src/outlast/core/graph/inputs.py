"""The fields of a graph's input: their types, and the types of Python that stand for them. Layer: core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from outlast.core.graph.definition import InputField
from outlast.core.graph.problems import Problems, list_names, shorten
from outlast.core.graph.references import kind_of
from outlast.core.keys import check_name
from outlast.errors import InvalidName

__all__ = ["TYPES", "Field", "check_fields", "make_input_type"]

TYPES: Final[Mapping[str, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list[Any],
    "object": dict[str, Any],
    "any": Any,
}


class Field(NamedTuple):
    """One field, checked."""

    name: str
    type: str
    is_required: bool
    default: Any = None


def check_fields(fields: Mapping[str, str | InputField], problems: Problems) -> tuple[Field, ...]:
    """The fields; what is wrong with them goes to `problems`."""
    return tuple(_check_field(name, field, problems) for name, field in fields.items())


def _check_field(name: str, given: str | InputField, problems: Problems) -> Field:
    field = InputField(given) if isinstance(given, str) else given
    where = f"input.{shorten(name)}" if not name.isidentifier() else f"input.{name}"
    try:
        check_name("input field", name)
    except InvalidName as error:
        problems.add(error.problem, error.fix, field=where)
    kind = field.type.removesuffix("?")
    if kind not in TYPES:
        fix = f"There are {list_names(list(TYPES))}, and the same with ? behind them."
        problems.add(f"There is no type {shorten(field.type)}", fix, field=where)
        return Field(name, "any", is_required=False)
    if field.default is msgspec.UNSET:
        return Field(name, kind, is_required=not field.type.endswith("?"))
    if field.default is not None or not field.type.endswith("?"):
        try:
            msgspec.convert(field.default, TYPES[kind])
        except msgspec.ValidationError:
            problem = f"Its default {shorten(field.default)} is {kind_of(field.default)}, and it is {kind!r}"
            problems.add(problem, "Correct one of them.", field=where)
    return Field(name, kind, is_required=False, default=field.default)


def make_input_type(fields: tuple[Field, ...] | None) -> Any:
    """What the codec checks a run's input with: a Struct; Any where the fields are not declared."""
    if fields is None:
        return Any
    made: list[tuple[str, Any, Any]] = []
    names: dict[str, str] = {}
    for number, field in enumerate(fields):
        kind = TYPES[field.type]
        # A field's name may be anything, such as `class` or `my field`; the attribute's may not.
        attribute = f"field_{number}"
        names[attribute] = field.name
        if field.is_required:
            made.append((attribute, kind, msgspec.NODEFAULT))
        elif isinstance(field.default, list | dict):
            made.append((attribute, kind, msgspec.field(default_factory=_copier(field.default))))
        else:
            made.append((attribute, kind if field.default is not None else kind | None, field.default))
    return msgspec.defstruct("Input", made, rename=names, kw_only=True, forbid_unknown_fields=True)


def _copier(value: Any) -> Any:
    return lambda: msgspec.json.decode(msgspec.json.encode(value))
