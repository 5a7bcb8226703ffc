"""What SQLite cannot keep as text is refused before it gets there. Layer: stores (sqlite)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.errors import StoreRefused

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["check_text"]


def check_text(url: str, uid: str, values: Iterable[str | None]) -> None:
    """A NUL would end a text early for much that reads it; half of a surrogate pair has no encoding.

    Raises `StoreRefused`, naming the run."""
    for value in values:
        if value is None or (value.isascii() and "\0" not in value):
            continue
        if "\0" in value:
            raise StoreRefused(url, uid, f"a text with a NUL character: {value[:80]!r}")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise StoreRefused(url, uid, f"a text with half of a surrogate pair: {value[:80]!r}") from error
