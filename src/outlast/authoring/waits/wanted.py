"""What a wait asks for: a type, as people see it, and as what comes is checked against it. Layer: authoring.

What always holds: what came is looked at once, in the body's machine; what does not fit is told with the place in the
value where it does not, and never raised.
"""

from __future__ import annotations

import functools
from typing import Any

import msgspec

from outlast.authoring.schema import decoder, explain, json_schema
from outlast.core.record import NOTHING
from outlast.core.waits.body import Check

__all__ = ["Wanted", "find_wanted"]

_MOST_KNOWN = 256
LONGEST_PROBLEM = 500


class Wanted(msgspec.Struct, frozen=True):
    """A type that is waited for."""

    check: Check
    schema: msgspec.Raw
    """JSON Schema; null where nothing is said of the value."""


def find_wanted(annotation: Any) -> Wanted:
    """What is wanted of a value of this type. Raises InvalidDefinition for one that no JSON could be read as."""
    try:
        return _known(annotation)
    except TypeError:  # Annotated with something that cannot be hashed
        return _make(annotation)


def _make(annotation: Any) -> Wanted:
    decode = decoder(annotation)

    def check(raw: msgspec.Raw) -> tuple[Any, str]:
        try:
            return decode(raw), ""
        except msgspec.MsgspecError as error:
            path, expected, problem = explain(error)
            return None, f"{path.replace('$', 'value', 1)}: expected {expected}, {problem}"[:LONGEST_PROBLEM]
        except Exception as error:  # noqa: BLE001 - of an author's own type
            return None, f"value: {type(error).__name__}: {error}"[:LONGEST_PROBLEM]

    return Wanted(check, NOTHING if annotation is Any or annotation is object else _schema(annotation))


_known = functools.lru_cache(_MOST_KNOWN)(_make)


def _schema(annotation: Any) -> msgspec.Raw:
    try:
        return msgspec.Raw(msgspec.json.encode(json_schema(annotation)))
    except Exception:  # noqa: BLE001 - a type may be read and not be described; then a form is all that is missing
        return NOTHING
