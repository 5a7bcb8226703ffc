"""What a running program may touch of the objects it holds. Layer: core.

What always holds: an attribute is data, or a method that touches nothing but its object; nothing private, no class, no
module and no function is looked into.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import importlib
import random
import sys
import types
import uuid
from typing import Any, Final

import msgspec

from outlast.core.program.language import BUILTINS, KNOWN

__all__ = ["NotInterpretable", "get_attribute", "is_known", "known", "load_class", "set_attribute"]


class NotInterpretable(BaseException):
    """The program does something that has no place in the language. A BaseException: no handler of a body stops it."""


_VALUES: Final = (
    *(str, bytes, int, float, bool, complex, list, dict, tuple, set, frozenset, range),
    *(dt.date, dt.time, dt.timedelta, dt.tzinfo, decimal.Decimal, uuid.UUID),
)
"""Their methods touch nothing but themselves."""
_JSON: Final = (str, int, float, list, dict)
_REFUSED: Final = frozenset({"format", "format_map"})
"""But these, which look into whatever they are given."""
_TOOLS: Final = (
    *(asyncio.Future, asyncio.Queue, asyncio.Event, asyncio.Lock, asyncio.Condition, asyncio.Semaphore),
    *(asyncio.TaskGroup, asyncio.Timeout, random.Random),
)
"""What a body works with, within its own loop."""
_CLOSED: Final = (
    *(type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools.partial),
    *(types.CodeType, types.FrameType, types.CoroutineType, types.GeneratorType, types.TracebackType),
)


def get_attribute(value: Any, name: str) -> Any:
    """`value.name`. Raises AttributeError as Python does, and NotInterpretable."""
    if name.startswith("_"):
        raise NotInterpretable(f"the private attribute {name!r}")
    if isinstance(value, type) and issubclass(value, enum.Enum) and name in value.__members__:
        return value[name]
    if isinstance(value, _CLOSED):
        raise NotInterpretable(f"the attribute {name!r} of {type(value).__name__}")
    if isinstance(value, dict) and name not in dir(dict) and name in value:
        return value[name]  # an object whose class is not known any more
    if isinstance(value, _JSON) and not hasattr(value, name):
        # The source may have had an object there, of a class that the code at hand does not have.
        raise NotInterpretable(f"the attribute {name!r} of {type(value).__name__}")
    found = getattr(value, name)
    if isinstance(value, _VALUES) and type(value).__module__ in {"builtins", "datetime", "decimal", "uuid"}:
        if name in _REFUSED:
            raise NotInterpretable(f"the method {name!r}")
        return found
    if isinstance(value, _TOOLS):
        return found
    if callable(found):
        raise NotInterpretable(f"the method {name!r} of {type(value).__name__}")
    return found


def set_attribute(value: Any, name: str, new: object) -> None:
    """`value.name = new`, of plain data. Raises as Python does, and NotInterpretable."""
    if name.startswith("_") or isinstance(value, (*_CLOSED, *_TOOLS)) or callable(getattr(value, name, None)):
        raise NotInterpretable(f"setting the attribute {name!r} of {type(value).__name__}")
    setattr(value, name, new)


def is_known(path: str) -> bool:
    """Whether a program may name it: a harmless function, a part of asyncio, an error."""
    family, _, name = path.rpartition(".")
    if path in KNOWN or (family == "builtins" and name in BUILTINS):
        return True
    if family not in {"builtins", "asyncio"}:
        return False
    value = getattr(importlib.import_module(family), name, None)
    return isinstance(value, type) and issubclass(value, BaseException)


@functools.cache
def known(path: str) -> Any:
    """What of the standard library has this path. Raises NotInterpretable for what a program may not name."""
    family, _, name = path.rpartition(".")
    if is_known(path):
        return getattr(importlib.import_module(family), name)
    raise NotInterpretable(f"the name {path!r}")


def is_plain_class(cls: type) -> bool:
    """Errors, enums, and what only holds fields: making one has no effect."""
    is_data = dataclasses.is_dataclass(cls) or issubclass(cls, msgspec.Struct) or hasattr(cls, "_fields")
    is_model = hasattr(cls, "__attrs_attrs__") or isinstance(getattr(cls, "__pydantic_fields__", None), dict)
    return is_data or is_model or issubclass(cls, BaseException | enum.Enum)


def load_class(module: str, name: str) -> Any:
    """A class of errors or of data, where its module has been imported. Raises NotInterpretable."""
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = getattr(value, part, None)
    if not isinstance(value, type):
        raise NotInterpretable(f"the class {module}.{name} is gone")
    if not is_plain_class(value):
        raise NotInterpretable(f"the class {module}.{name} is none of errors or data")
    return value
