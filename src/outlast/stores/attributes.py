"""Whether a run has the attributes that a query asks for. Layer: stores.

For backends whose own comparison of JSON is not exact: it may find too much, and this is asked last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.stores.records import RunQuery, RunRow

__all__ = ["compare_attributes"]


def compare_attributes(query: RunQuery) -> Callable[[RunRow], bool] | None:
    """Whether a row has the attributes that are asked for. None: none are."""
    if not query.attributes:
        return None
    wanted = {name: _canonical(msgspec.json.decode(value)) for name, value in query.attributes}

    def fits(row: RunRow) -> bool:
        found = msgspec.json.decode(row.attributes)
        return all(name in found and _canonical(found[name]) == value for name, value in wanted.items())

    return fits


def _canonical(value: object) -> bytes:
    """JSON that is equal when the values are: in Python `True` and `1` are, in JSON they are not."""
    return msgspec.json.encode(value, order="deterministic")
