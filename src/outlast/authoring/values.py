"""Looking inside values: where there are sets, and which part cannot be encoded. Layer: authoring.

The encoder is quick because it does not look. This module does, for the few values that need it: those that hold sets,
whose order differs from process to process, and those that failed.
"""

from __future__ import annotations

import copy
import enum
import math
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec

from outlast.authoring.hooks import encode_unknown, is_model

__all__ = ["MAX_DEPTH", "Fault", "find_fault", "holds_set", "is_too_deep", "look_into", "order_sets"]

MAX_DEPTH = 200
"""How deep a value may nest. Python's own limit depends on who calls: what went in live could fail on replay."""

_encode = msgspec.json.Encoder(enc_hook=encode_unknown).encode

_PLAIN: frozenset[type] = frozenset({str, int, float, bool, NoneType, bytes, UUID, msgspec.Raw})


# --- the parts of a value ---------------------------------------------------------------------------------------------

_attributes: dict[type, tuple[str, ...]] = {}


def _names_of(cls: type) -> tuple[str, ...]:
    """The attributes of instances of `cls` that are written to JSON; none for what is no record."""
    names = _attributes.get(cls)
    if names is None:
        for marker in ("__struct_fields__", "__dataclass_fields__"):
            names = names or tuple(getattr(cls, marker, ()))
        names = names or tuple(field.name for field in getattr(cls, "__attrs_attrs__", ()))
        _attributes[cls] = names
    return names


# --- sets -------------------------------------------------------------------------------------------------------------

_SCALARS: frozenset[type] = _PLAIN | {datetime, date, time, timedelta, Decimal, bytearray}
_SEQUENCES = (list, tuple)
_SETS = (set, frozenset)  # tuples, since a union is made anew each time that it is written
_free_of_sets: dict[type, bool] = dict.fromkeys(_SCALARS, True)


def holds_set(value: object) -> bool:
    """Whether there is a set anywhere in a value that has been encoded before (so it is finite)."""
    cls = type(value)
    free = _free_of_sets.get(cls)
    if free is None:
        free = _free_of_sets[cls] = _is_free_of_sets(cls, frozenset())
    if free:
        return False
    if isinstance(value, msgspec.Struct):
        parts: Iterable[object] = msgspec.structs.astuple(value)
    elif isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, _SEQUENCES):
        parts = value
    elif isinstance(value, _SETS):
        return True
    else:
        parts = [getattr(value, name) for name in _names_of(cls)]
    if _SCALARS.issuperset(map(type, parts)):  # the usual case, at C speed also for long lists
        return False
    return any(map(holds_set, parts))


def look_into(cls: type) -> None:
    """Have all instances searched for sets, whatever their annotations say: they hold what callers passed."""
    _free_of_sets[cls] = False


def _is_free_of_sets(annotation: Any, within: frozenset[type]) -> bool:
    """Whether values of this type cannot hold a set: their annotations are taken at their word."""
    if annotation in _SCALARS or annotation in within or annotation is None:
        return True
    if origin := get_origin(annotation):
        if origin is Annotated:
            return _is_free_of_sets(get_args(annotation)[0], within)
        known = origin in {list, dict, tuple, Union, UnionType}
        return known and all(_is_free_of_sets(arg, within) for arg in get_args(annotation) if arg is not ...)
    if not isinstance(annotation, type) or issubclass(annotation, dict | list | tuple | set | frozenset):
        return False
    names = _names_of(annotation)
    if not names:  # an enum, or a model, whose sets are sorted when it is dumped
        return issubclass(annotation, enum.Enum) or is_model(annotation)
    if within and annotation.__subclasses__():
        return False  # the value may be one that has more fields
    try:
        hints = get_type_hints(annotation, include_extras=True)
    except Exception:  # noqa: BLE001 - names that are not defined (yet): look at each value
        return False
    return all(_is_free_of_sets(hints.get(name, Any), within | {annotation}) for name in names)


def order_sets(value: Any) -> Any:
    """The value with each set as a list in the order of its items' JSON; parts without one are the originals."""
    if isinstance(value, set | frozenset):
        return [msgspec.Raw(item) for item in sorted(_encode(order_sets(item)) for item in value)]
    if isinstance(value, dict):
        return {key: order_sets(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [order_sets(part) for part in value]
    names = _names_of(type(value))
    if not names or not holds_set(value):
        return value
    other = copy.copy(value)
    for name in names:
        part = getattr(value, name)
        if type(part) not in _PLAIN:
            _set(other, name, order_sets(part))
    return other


def _set(record: Any, name: str, part: object) -> None:
    """On a copy that is only encoded, so that neither its type nor its being frozen matters."""
    if isinstance(record, msgspec.Struct):
        msgspec.structs.force_setattr(record, name, part)
    else:
        object.__setattr__(record, name, part)


# --- faults -----------------------------------------------------------------------------------------------------------


class Fault(NamedTuple):
    """The part of a value that cannot be encoded."""

    path: str
    type: str
    problem: str


def find_fault(value: object, path: str) -> Fault | None:
    """The first part that JSON cannot carry. Slow; only after something failed. `path` is what the value is called."""
    return _fault(value, path, ())


def _fault(value: object, path: str, around: tuple[int, ...]) -> Fault | None:
    name = type(value).__qualname__
    if id(value) in around:
        return Fault(path, name, ", which contains itself")
    if len(around) > MAX_DEPTH:
        return Fault(_shorten(path), name, f", nested over {MAX_DEPTH} deep")
    if isinstance(value, float) and not math.isfinite(value):
        return Fault(path, name, f" {value}, which JSON does not have")
    found = None
    for step, part in _parts(value):
        found = found or _fault(part, path + step, (*around, id(value)))
    return found or _own_fault(value, path)


def _parts(value: Any) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield f"[{_shorten(repr(key))}]", part
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield f"[{index}]", part
    elif isinstance(value, set | frozenset):
        for part in value:
            yield f"{{{_shorten(repr(part))}}}", part
    else:
        names = type(value).model_fields if is_model(type(value)) else _names_of(type(value))
        for name in names:
            yield f".{name}", getattr(value, name, None)


def _own_fault(value: object, path: str) -> Fault | None:
    """What is wrong with a value whose parts are all right."""
    name = type(value).__qualname__
    if isinstance(value, dict):
        for key in value:
            try:
                _encode({key: None})
            except (TypeError, ValueError) as error:
                problem = " as a key" if isinstance(error, TypeError) else _say(error)
                return Fault(f"{path}[{_shorten(repr(key))}]", type(key).__qualname__, problem)
    try:
        _encode(value)
    except (TypeError, ValueError, AttributeError) as error:
        return Fault(path, name, _say(error))
    except RecursionError:  # so deep in the stack of the caller that even this is too much
        return Fault(_shorten(path), name, ", nested too deep")
    return None


def _say(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return ", with half a surrogate pair"
    if isinstance(error, TypeError) and "not supported" in str(error):
        return ""
    return f", {_shorten(str(error))}"


def _shorten(text: str) -> str:
    return text if len(text) <= 120 else f"{text[:80]}...{text[-30:]}"


# --- depth ------------------------------------------------------------------------------------------------------------

_BRACKETS = b"[]{}"
_OTHERS = bytes(set(range(256)) - set(_BRACKETS))


def is_too_deep(data: bytes) -> bool:
    """Whether JSON nests over MAX_DEPTH deep. For what is shorter than 2 * MAX_DEPTH nobody needs to ask."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    # Peel off the innermost level until nothing is left. Brackets within text may stop that early; then look closely.
    skeleton = data.translate(None, _OTHERS)
    for _ in range(MAX_DEPTH):
        peeled = skeleton.replace(b"[]", b"").replace(b"{}", b"")
        if peeled == skeleton:
            break
        skeleton = peeled
    return bool(skeleton) and _depth(data) > MAX_DEPTH


def _depth(data: bytes) -> int:
    deepest = depth = 0
    within_text = escaped = False
    for byte in data:
        if within_text:
            within_text = escaped or byte != 0x22
            escaped = byte == 0x5C and not escaped
        elif byte == 0x22:
            within_text = True
        elif byte in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif byte in b"]}":
            depth -= 1
    return deepest
