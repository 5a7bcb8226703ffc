"""What JSON carries beside what msgspec knows: models, paths, and subclasses of plain values. Layer: authoring.

msgspec writes dataclasses, Structs, attrs classes, enums, dates and the like itself; it asks here about the rest. What
always holds: a library is never imported for this. A pydantic model can only exist where pydantic was imported.
"""

from __future__ import annotations

import collections.abc
import enum
import sys
from types import GenericAlias
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

__all__ = ["decode_unknown", "encode_unknown", "is_model", "is_supported", "show_schema"]

# Their own constructors read what `str` writes. By module, so that none is imported that the author does not use.
_WRITTEN_AS_TEXT = ("pathlib", "ipaddress", "fractions")

# Annotations that promise no more than that one can loop: a list does.
_LOOPABLE = (collections.abc.Iterable, collections.abc.Reversible)


def encode_unknown(value: Any) -> object:
    """What msgspec shall write for a value it does not know. Raises TypeError for what JSON cannot carry."""
    cls = type(value)
    for plain, convert in _SUBCLASSED:
        if issubclass(cls, plain):
            return convert(value)
    if is_model(cls):
        return _dump(value)
    if _is_text(cls):
        return str(value)
    raise TypeError(f"{cls.__qualname__} is not supported")


# The builtin's own conversion: a subclass may have changed what str() or int() say of it.
_SUBCLASSED: tuple[tuple[type, Callable[[Any], object]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (bytes, bytes),
)


def decode_unknown(cls: Any, value: Any) -> object:
    """An instance of `cls` from what JSON held for it. msgspec checks what comes back."""
    if cls is object:
        return value
    origin = get_origin(cls) or cls
    if origin in _LOOPABLE:
        items = get_args(cls)
        return msgspec.convert(value, GenericAlias(list, items), dec_hook=decode_unknown) if items else list(value)
    if is_model(cls):
        return _validate(cls, value)
    if _is_text(cls) and isinstance(value, str):
        return cls(value)
    if issubclass(cls, bytes) and isinstance(value, str):
        return cls(msgspec.convert(value, bytes))
    for plain in (str, int, float):
        if issubclass(cls, plain) and isinstance(value, plain | int if plain is float else plain):
            return cls(value)
    return value  # msgspec then says what it expected and what it got


def is_supported(cls: Any) -> bool:
    """Whether a class that msgspec does not know can be decoded here."""
    origin = get_origin(cls) or cls
    if origin is object or origin in _LOOPABLE:
        return True
    if not isinstance(origin, type) or issubclass(origin, enum.Enum):
        return False
    return is_model(origin) or _is_text(origin) or issubclass(origin, str | int | float | bytes)


def show_schema(cls: Any) -> dict[str, Any]:
    """The JSON Schema of a class that msgspec does not know."""
    if is_model(cls):
        schema: dict[str, Any] = cls.model_json_schema()
        return schema
    for plain, name in ((str, "string"), (int, "integer"), (float, "number"), (bytes, "string")):
        if isinstance(cls, type) and issubclass(cls, plain):
            return {"type": name}
    return {"type": "string"} if isinstance(cls, type) and _is_text(cls) else {}


def _is_text(cls: type) -> bool:
    return cls.__module__.partition(".")[0] in _WRITTEN_AS_TEXT


# --- pydantic ---------------------------------------------------------------------------------------------------------


def _pydantic() -> ModuleType | None:
    return sys.modules.get("pydantic")


def is_model(cls: Any) -> bool:
    """Whether `cls` is a pydantic model."""
    pydantic = _pydantic()
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)


def _dump(model: Any) -> object:
    """The model as JSON types, in pydantic's own words: only its JSON mode can be read back for bytes, dates and so on.

    That mode writes sets in the order of their hashes and secrets as asterisks; the Python mode shows where they are.
    """
    written = model.model_dump(mode="json", round_trip=True)
    return _mend(model.model_dump(mode="python", round_trip=True), written)


def _mend(python: Any, written: Any) -> Any:
    if isinstance(python, set | frozenset) and isinstance(written, list):
        return sorted(written, key=msgspec.json.encode)
    if isinstance(python, dict) and isinstance(written, dict) and len(python) == len(written):
        return {key: _mend(inner, written[key]) for inner, key in zip(python.values(), written, strict=True)}
    if isinstance(python, list | tuple) and isinstance(written, list) and len(python) == len(written):
        return [_mend(inner, item) for inner, item in zip(python, written, strict=True)]
    if isinstance(written, str) and written and not written.strip("*") and hasattr(python, "get_secret_value"):
        raise TypeError(f"{type(python).__qualname__} hides its value, even from JSON")
    return written


def _validate(cls: Any, value: object) -> object:
    """From JSON, not from Python objects: a strict model takes a date from text only there.

    People write aliases, `_dump` writes names. Raises ValueError, which msgspec prefixes with the path so far.
    """
    pydantic = _pydantic()
    assert pydantic is not None
    try:
        return cls.model_validate_json(msgspec.json.encode(value), by_alias=True, by_name=True)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise ValueError(f"{first['msg']}{_AT}{path}") from None


_AT = " - within "
