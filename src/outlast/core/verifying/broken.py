"""What a check tells. Layer: core."""

from __future__ import annotations

import enum
from typing import NamedTuple

__all__ = ["Broken", "Rule"]


class Rule(enum.StrEnum):
    """What is broken. In brackets: its number in ARCHITECTURE.md."""

    JOURNAL = "journal"
    """Entries without a gap, each with a mark of its own, in time, from one start (1)."""
    ROW = "row"
    """The run's row, and its rows of waits, say what the journal says (2)."""
    KEPT = "kept"
    """A run that has not ended goes on: somebody, or something, will wake it in time (3)."""
    OUTCOME = "outcome"
    """An attempt has one outcome, a step one success, a message counts once (4)."""
    ATTEMPT = "attempt"
    """Attempts are on record before their outcome, numbered without a gap, and no more than their retries allow (5)."""
    END = "end"
    """Nothing comes behind an end, and nothing is left of an ended run that others would wait for (7)."""
    TIMER = "timer"
    """A timer fires once, and not before it is due."""
    FAMILY = "family"
    """A child is there, is its parent's, and came to what its parent has of it."""
    UNDO = "undo"
    """What is undone is what succeeded and can be, each once, in the order on record."""


class Broken(NamedTuple):
    """Something that must not be."""

    rule: Rule
    text: str
