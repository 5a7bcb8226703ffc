"""JSON Schemas of what routes take and give, for the OpenAPI document. Layer: http.

msgspec makes them from the types; but it cannot tell of a default that is raw JSON, as that of `ErrorRecord.data`. What
always holds: such a record is told by a twin of the same name and fields, without that default.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from types import EllipsisType, UnionType
from typing import Annotated, Any, get_args, get_origin

import msgspec

from outlast.authoring.hooks import show_schema
from outlast.core import events

__all__ = ["ErrorRecord", "Schemas", "collect_schemas"]

Schemas = dict[str, dict[str, Any]]
"""By what a type is called: the schema to put in."""


class ErrorRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """An exception, as it was recorded."""

    type: str
    message: str
    module: str = ""
    traceback: str = ""
    code: str = ""
    expected: bool = False
    data: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    cause: ErrorRecord | None = None
    members: tuple[ErrorRecord, ...] = ()


def collect_schemas(types: Iterable[Any]) -> tuple[Schemas, dict[str, Any]]:
    """The schema of each type, and the components that they refer to."""
    unique = list({repr(one): one for one in types}.values())
    template = "#/components/schemas/{name}"
    found, components = msgspec.json.schema_components(
        map(_twin, unique), schema_hook=show_schema, ref_template=template
    )
    return {repr(one): schema for one, schema in zip(unique, found, strict=True)}, dict(components)


def _twin(annotation: Any) -> Any:
    """The annotation with every `ErrorRecord` in it, at any depth, replaced; itself, if there is none."""
    if annotation is events.ErrorRecord:
        return ErrorRecord
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _twin_struct(annotation)
    args = get_args(annotation)
    twins = tuple(one if isinstance(one, EllipsisType) else _twin(one) for one in args)
    origin: Any = get_origin(annotation)
    if all(map(operator.is_, args, twins)):
        return annotation
    if origin is UnionType:
        return functools.reduce(operator.or_, twins)
    return Annotated[twins] if origin is Annotated else origin[twins]


@functools.cache
def _twin_struct(cls: type[msgspec.Struct]) -> type[msgspec.Struct]:
    if not _has_error(cls, set()):
        return cls
    made: list[Any] = []
    for field in msgspec.structs.fields(cls):
        twin = _twin(field.type)
        made.append((field.name, twin) if field.required else (field.name, twin, _default_of(field)))
    return msgspec.defstruct(cls.__name__, made, kw_only=True, namespace={"__doc__": cls.__doc__})


def _has_error(annotation: Any, seen: set[Any]) -> bool:
    """Whether there is an `ErrorRecord` in it. Records may hold themselves: plans do."""
    if annotation is events.ErrorRecord:
        return True
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        if annotation in seen:
            return False
        seen.add(annotation)
        return any(_has_error(field.type, seen) for field in msgspec.structs.fields(annotation))
    return any(_has_error(one, seen) for one in get_args(annotation))


def _default_of(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return field.default
