"""What events are made of: their common shape, errors, and the value that is none. Layer: core.

What always holds: fields are only ever added, with defaults, so that every release reads the journals of all earlier
ones.
"""

from __future__ import annotations

import msgspec

__all__ = ["NOTHING", "ErrorRecord", "EventShape"]

NOTHING = msgspec.Raw(b"null")


class ErrorRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """An exception as the journal keeps it (SPEC R8)."""

    type: str
    """Qualified name without the module, such as `CardDeclined`."""
    message: str
    module: str = ""
    traceback: str = ""
    code: str = ""
    """The stable code of one of outlast's own errors or of a user's error that has one."""
    expected: bool = False
    """A domain error its author marked so: logged as one line, without a traceback."""
    data: msgspec.Raw = NOTHING
    """What the codec needs to build the exception again."""
    cause: ErrorRecord | None = None
    members: tuple[ErrorRecord, ...] = ()
    """The exceptions of an exception group."""


class EventShape(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="event", gc=False):
    """Common to all events: tagged with the class's name, defaults left out. None leads to itself, so none needs
    collecting.
    """
