"""Where the payloads of an event are: each of them found, and converted. Layer: payloads.

They are found by their types, so that events to come have theirs found too: JSON of a user's (`msgspec.Raw`), and what
an error says. What always holds: a conversion changes nothing of an event but its payloads.
"""

from __future__ import annotations

from functools import cache
from typing import Protocol, get_args

import msgspec

from outlast.core.events import NOTHING, DecisionJudged, ErrorRecord, Event, RunStarted, RunSuspended, SignalRefused

__all__ = ["Conversion", "convert_event"]

CLEAR = frozenset({(RunStarted, "attributes")})
"""Values that are no payloads: stores search them."""
NOTES: dict[type, tuple[str, ...]] = {
    RunSuspended: ("reason",),
    SignalRefused: ("problem",),
    DecisionJudged: ("reason",),
}
"""Texts of ours that may quote values. Nothing depends on them."""


class Conversion(Protocol):
    """What is done to payloads. `place` names event, field and key."""

    def json(self, raw: msgspec.Raw, place: bytes) -> msgspec.Raw:
        """For a value."""
        ...

    def text(self, text: str, place: bytes) -> str:
        """For what an error says."""
        ...

    def note(self, text: str, place: bytes) -> str:
        """For a text of ours."""
        ...


def convert_event(event: Event, conversion: Conversion) -> Event:
    """The event with each of its payloads converted."""
    kind = type(event)
    changes: dict[str, object] = {}
    for name, sort, default in _fields_of(kind):
        value = getattr(event, name)
        if value is None or value == default:
            continue
        place = f"{kind.__name__}.{name}\0{getattr(event, 'key', '')}".encode()
        if sort == "json":
            changes[name] = conversion.json(value, place)
        elif sort == "error":
            changes[name] = _convert_error(value, place, conversion)
        else:
            changes[name] = conversion.note(value, place)
    return msgspec.structs.replace(event, **changes) if changes else event


@cache
def _fields_of(kind: type[Event]) -> tuple[tuple[str, str, object], ...]:
    """Name, sort (`json`, `error`, `note`) and default of each field of these events that holds a payload."""
    found: list[tuple[str, str, object]] = []
    for field in msgspec.structs.fields(kind):
        types = {field.type, *get_args(field.type)}
        if (kind, field.name) in CLEAR:
            continue
        if msgspec.Raw in types:
            found.append((field.name, "json", field.default))
        elif ErrorRecord in types:
            found.append((field.name, "error", field.default))
        elif field.name in NOTES.get(kind, ()):
            found.append((field.name, "note", field.default))
    return tuple(found)


def _convert_error(error: ErrorRecord, place: bytes, conversion: Conversion) -> ErrorRecord:
    """Message, traceback and data may quote any value; type, module and code say what went wrong, and stay."""
    return msgspec.structs.replace(
        error,
        message=conversion.text(error.message, place + b".message"),
        traceback=conversion.text(error.traceback, place + b".traceback"),
        data=error.data if error.data == NOTHING else conversion.json(error.data, place + b".data"),
        cause=None if error.cause is None else _convert_error(error.cause, place, conversion),
        members=tuple(_convert_error(member, place, conversion) for member in error.members),
    )
