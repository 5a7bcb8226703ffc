"""Looking inside values: what the encoder would not write in one way, and what it cannot write. Layer: authoring.

The encoder is quick because it does not look. This module does, for the few values that need it: those that hold sets,
whose order differs from process to process; dataclasses that msgspec has made, on which defaults are not set; and those
that failed.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import math
import re
from array import array
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import accumulate
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NamedTuple,
    Union,  # pyright: ignore[reportDeprecated] - to recognise it
    get_args,
    get_origin,
    get_type_hints,
)
from uuid import UUID

import msgspec

from outlast.authoring.hooks import encode_unknown, is_model

__all__ = ["MAX_DEPTH", "Fault", "find_fault", "is_canonical", "is_too_deep", "look_into", "to_canonical"]

MAX_DEPTH = 200
"""How deep a value may nest. Python's own limit depends on who calls: what went in live could fail on replay."""

_encode = msgspec.json.Encoder(enc_hook=encode_unknown).encode

_PLAIN: frozenset[type] = frozenset({str, int, float, bool, NoneType, bytes, UUID, msgspec.Raw})


# --- records ----------------------------------------------------------------------------------------------------------


class _Record(NamedTuple):
    """What a class of records writes to JSON."""

    names: tuple[str, ...]
    is_hollow: bool
    """msgspec leaves an attribute of a dataclass unset where its default, on the class, answers for it; and then does
    not write it. The record would change with the default."""


_records: dict[type, _Record] = {}


def _record_of(cls: type) -> _Record:
    """Of a class that is none, one without names."""
    record = _records.get(cls)
    if record is None:
        names: tuple[str, ...] = getattr(cls, "__struct_fields__", ())
        is_hollow = False
        if dataclasses.is_dataclass(cls):
            names = tuple(field.name for field in dataclasses.fields(cls))
            is_hollow = "__slots__" not in vars(cls) and any(
                name in vars(base) for base in cls.__mro__ for name in names
            )
        elif not names:
            names = tuple(field.name for field in getattr(cls, "__attrs_attrs__", ()))
        record = _records[cls] = _Record(names, is_hollow)
    return record


# --- one way to write -------------------------------------------------------------------------------------------------

_SCALARS: frozenset[type] = _PLAIN | {datetime, date, time, timedelta, Decimal, bytearray}
_SEQUENCES = (list, tuple)
_SETS = (set, frozenset)  # tuples, since a union is made anew each time that it is written
_always_canonical: dict[type, bool] = dict.fromkeys(_SCALARS, True)


def is_canonical(value: object) -> bool:
    """Whether the encoder writes all of the value, the same in every process. It has been encoded, so it is finite."""
    cls = type(value)
    always = _always_canonical.get(cls)
    if always is None:
        always = _always_canonical[cls] = _is_always_canonical(cls, frozenset())
    if always:
        return True
    if isinstance(value, msgspec.Struct):
        parts: Iterable[object] = msgspec.structs.astuple(value)
    elif isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, _SEQUENCES):
        parts = value
    elif isinstance(value, _SETS):
        return False
    else:
        names, is_hollow = _record_of(cls)
        if is_hollow and not vars(value).keys() >= set(names):
            return False
        parts = [getattr(value, name, None) for name in names]
    # The usual case, at C speed also for long lists, and the rest.
    return _SCALARS.issuperset(map(type, parts)) or all(map(is_canonical, parts))


def look_into(cls: type) -> None:
    """Have all instances looked into, whatever their annotations say: they hold what callers passed."""
    _always_canonical[cls] = False


def _is_always_canonical(annotation: Any, within: frozenset[type]) -> bool:
    """Whether all values of this type are canonical. Annotations are taken at their word."""
    if annotation in _SCALARS or annotation in within or annotation is None:
        return True
    if origin := get_origin(annotation):
        if origin is Annotated:
            return _is_always_canonical(get_args(annotation)[0], within)
        known = origin in {list, dict, tuple, UnionType, Union}  # pyright: ignore[reportDeprecated] - what Optional has
        return known and all(_is_always_canonical(arg, within) for arg in get_args(annotation) if arg is not ...)
    if not isinstance(annotation, type) or issubclass(annotation, dict | list | tuple | set | frozenset):
        return False
    names, is_hollow = _record_of(annotation)
    if not names:  # an enum, or a model, whose sets are sorted when it is dumped
        return issubclass(annotation, enum.Enum) or is_model(annotation)
    if is_hollow or (within and annotation.__subclasses__()):
        return False  # of a subclass, an instance may have more fields
    try:
        hints = get_type_hints(annotation, include_extras=True)
    except Exception:  # noqa: BLE001 - names that are not defined (yet): look at each value
        return False
    return all(_is_always_canonical(hints.get(name, Any), within | {annotation}) for name in names)


def to_canonical(value: Any) -> Any:
    """The value with each set as a list in the order of its items' JSON, and each record with all that it has.

    Parts that need neither are the originals, and the value itself is left alone.
    """
    if isinstance(value, set | frozenset):
        return [msgspec.Raw(item) for item in sorted(_encode(to_canonical(item)) for item in value)]
    if isinstance(value, dict):
        return {key: to_canonical(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_canonical(part) for part in value]
    if is_canonical(value):
        return value
    other = copy.copy(value)
    for name in _record_of(type(value)).names:
        if hasattr(value, name):
            _set(other, name, to_canonical(getattr(value, name)))
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
        names = type(value).model_fields if is_model(type(value)) else _record_of(type(value)).names
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


# A text in JSON; one that never ends too, so that looking for texts takes no longer than reading.
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
"""Brackets as bytes that are +1 and -1 when they are read with a sign."""
_LEVELS = 16
"""Deeper than values are that people write."""


def is_too_deep(data: bytes) -> bool:
    """Whether JSON nests over MAX_DEPTH deep. For what is shorter than 2 * MAX_DEPTH nobody needs to ask."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    # Peel off the innermost level until nothing is left. Brackets within text may stop that early; then look closely.
    skeleton = data.translate(None, _OTHERS)
    for _ in range(_LEVELS):
        peeled = skeleton.replace(b"[]", b"").replace(b"{}", b"")
        if peeled == skeleton:
            break
        skeleton = peeled
    return bool(skeleton) and _depth(data) > MAX_DEPTH


def _depth(data: bytes) -> int:
    """In one pass, whatever the data: it may come from an enemy."""
    steps = array("b", _TEXT.sub(b"", data).translate(_STEPS, _OTHERS))
    return max(accumulate(steps), default=0)
