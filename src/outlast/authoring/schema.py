"""Types: what an annotation names, how it is decoded, whether it can be at all, and how to say so. Layer: authoring.

What always holds: a type is looked at once, and an annotation that could never be decoded is an error where it is
declared, not after the step has run.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple, Never, NoReturn

import msgspec
import msgspec.inspect

from outlast.authoring.hooks import decode_unknown, is_supported, show_schema
from outlast.errors import InvalidDefinition, InvalidInput

__all__ = [
    "Misfit",
    "check_type",
    "decoder",
    "describe_type",
    "explain",
    "invalid_input",
    "json_schema",
    "resolve_annotation",
]


def resolve_annotation(fn: Callable[..., Any], name: str, annotation: Any, namespace: Mapping[str, Any] | None) -> Any:
    """The type that `name`, a parameter or `return`, is annotated with.

    One at a time: a name that only a type checker imports is an error of its own parameter, not of all. Names are
    looked up in the function's globals, what it closes over, and `namespace`. Raises InvalidDefinition, caused by a
    NameError where the name may only be defined later.
    """
    inner: Any = inspect.unwrap(fn)
    local: dict[str, Any] = dict(namespace or {})
    closure = zip(inner.__code__.co_freevars, inner.__closure__ or (), strict=True)
    local.update({variable: cell.cell_contents for variable, cell in closure if _is_filled(cell)})
    holder: Any = SimpleNamespace(__annotations__={name: annotation})
    try:
        return typing.get_type_hints(holder, inner.__globals__, local, include_extras=True)[name]
    except Exception as error:
        of = "Its return annotation" if name == "return" else f"The annotation of its parameter {name!r}"
        problem = f"{of}, {annotation!r}, cannot be resolved: {error}"
        fix = "Import what it names at run time, not under TYPE_CHECKING only, and define it at the module's top."
        raise InvalidDefinition(problem, f"{inner.__module__}.{inner.__qualname__}", fix) from error


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


Decode = Callable[[bytes | msgspec.Raw], Any]

_decode_any: Decode = msgspec.json.Decoder().decode
_decoders: dict[Any, Decode] = {Any: _decode_any, object: _decode_any}


def decoder(annotation: Any) -> Decode:
    """What turns JSON into a value of this type: cached, so that hot paths fetch it once and call it.

    `Any` gives plain JSON types: what was a set is a list, what was a date is text. It raises msgspec.ValidationError
    for JSON that does not fit, msgspec.DecodeError for what is none, and this function InvalidDefinition for a type
    that can never be decoded.
    """
    try:
        return _decoders[annotation]
    except KeyError:
        found = _decoders[annotation] = _make_decoder(annotation)
        return found
    except TypeError:  # Annotated with something unhashable
        return _make_decoder(annotation)


def _make_decoder(annotation: Any) -> Decode:
    check_type(annotation)
    if annotation is NoReturn or annotation is Never:
        return _decode_any
    return msgspec.json.Decoder(annotation, dec_hook=decode_unknown).decode


def check_type(annotation: Any, where: str = "annotation") -> None:
    """Raises InvalidDefinition if no JSON could ever be decoded as this type. `where` says what it annotates."""
    if annotation is Any or annotation is NoReturn or annotation is Never:
        return
    try:
        problem = _find_problem(msgspec.inspect.type_info(annotation), set())
        if problem is None:
            msgspec.json.Decoder(annotation, dec_hook=decode_unknown)
    except NameError as error:
        problem = f"it names {error.name!r}, which is not defined"
    except (TypeError, RuntimeError, AttributeError) as error:
        problem = str(error)
    if problem is not None:
        what = f"{describe_type(annotation)} cannot be read back from JSON: {problem}"
        raise InvalidDefinition(what, where, "Use types that JSON can carry, or Any for plain JSON.")


def _find_problem(node: object, seen: set[int]) -> str | None:
    """The first part of a type that cannot be decoded; msgspec takes any class it does not know for somebody else's."""
    if isinstance(node, tuple | list):
        return next(filter(None, (_find_problem(one, seen) for one in node)), None)
    if not isinstance(node, msgspec.inspect.Type | msgspec.inspect.Field) or id(node) in seen:
        return None
    seen.add(id(node))
    if isinstance(node, msgspec.inspect.CustomType) and not is_supported(node.cls):
        return f"{describe_type(node.cls)} is not supported"
    if isinstance(node, msgspec.inspect.DataclassType):
        for field in getattr(node.cls, "__attrs_attrs__", ()):
            if field.name.startswith("_"):
                return (
                    f"private attributes of attrs classes, such as {field.name} of {node.cls.__name__}, are not stored"
                )
    return _find_problem([getattr(node, name) for name in node.__struct_fields__], seen)


def describe_type(annotation: Any) -> str:
    """The type as an author would write it."""
    if annotation is Any:
        return "a value"
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__qualname__
    # Without the modules: `dict[str, Order]`, not `dict[str, shop.orders.Order]`.
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z_])", "", str(annotation))


def json_schema(annotation: Any) -> dict[str, Any]:
    """The type's JSON Schema, for forms and for OpenAPI."""
    return msgspec.json.schema(annotation, schema_hook=show_schema)


class Misfit(NamedTuple):
    """Why JSON does not fit a type. `path` starts at the root with `$`: `$.items[3].price`."""

    path: str
    expected: str
    problem: str


_AT = re.compile(r"(.*?) - at `(?:key in )?\$(.*)`", re.DOTALL)
_WITHIN = re.compile(r"(.*?) - within (.*)", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_EXPECTED = re.compile(r"Expected (.*?)(?:, (got .*))?", re.DOTALL)


def explain(error: msgspec.MsgspecError) -> Misfit:
    """msgspec's message, taken apart: it carries no fields."""
    text, path = str(error), ""
    if at := _AT.fullmatch(text):
        text, path = at.groups()
    if within := _WITHIN.fullmatch(text):
        text, path = within[1], path + within[2]
    if missing := _MISSING.fullmatch(text):
        return Misfit(f"${path}.{missing[1]}", "a value", "it is missing")
    if unknown := _UNKNOWN.fullmatch(text):
        return Misfit(f"${path}.{unknown[1]}", "no such field", "it is unknown")
    if expected := _EXPECTED.fullmatch(text):
        return Misfit(f"${path}", expected[1].replace("`", ""), (expected[2] or "it is not").replace("`", ""))
    if not isinstance(error, msgspec.ValidationError):
        return Misfit(f"${path}", "JSON", text)
    return Misfit(f"${path}", "a valid value", text)


def invalid_input(function: str, misfit: Misfit) -> InvalidInput:
    """The error for arguments that do not fit: the path begins with the parameter's name."""
    path, expected, problem = misfit
    return InvalidInput(function, path.removeprefix("$").removeprefix(".") or "input", expected, problem)
