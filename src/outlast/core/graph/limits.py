"""How large a graph may be. Layer: core.

A graph may come from a stranger: a file, a form, a program that writes programs. Each limit is far above what a person
draws, and keeps what reading costs within a second.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "DEFAULT_LIMIT",
    "LONGEST_ID",
    "LONGEST_PATH",
    "LONGEST_TEXT",
    "MOST_EDGES",
    "MOST_HANDLERS",
    "MOST_LIMIT",
    "MOST_NESTED",
    "MOST_NODES",
    "MOST_PARTS",
    "MOST_VALUES",
    "MOST_VISITS",
    "NESTING",
]

LONGEST_TEXT: Final = 1024 * 1024
"""Bytes of UTF-8 of a whole definition."""
NESTING: Final = 40
"""How deep its values may nest."""
MOST_VALUES: Final = 200_000
"""Values in a whole definition, each text, number, list and object counted."""
MOST_NODES: Final = 5_000
MOST_EDGES: Final = 50_000
LONGEST_ID: Final = 200
"""Bytes of a node's id: with the number of an item behind it, it has to fit into a step's key."""
LONGEST_PATH: Final = 30
"""Steps of a reference's path: `.address.lines[0]` has three."""
MOST_PARTS: Final = 200
"""References in one text."""
MOST_VISITS: Final = 10_000
"""The most that a `max_visits` may say."""
MOST_HANDLERS: Final = 16
"""How long a chain of `on_error` may be: a handler may have one of its own."""
MOST_NESTED: Final = 10
"""How many cycles may lie within each other."""
MOST_LIMIT: Final = 1_000
"""The most items of a `for_each` that may run at once."""
DEFAULT_LIMIT: Final = 20
