"""Findings: what `outlast check` says of a body. Layer: core.

What always holds: a finding has a rule that stays what it is called, a place in a file, and says what to do.
"""

from __future__ import annotations

import msgspec

__all__ = ["RULES", "Finding"]

RULES = {
    "clock": "The time a replay reads is another one.",
    "random": "A replay draws something else.",
    "environment": "Another machine, or another day, answers differently.",
    "io": "It would happen again on every replay.",
    "thread": "A body runs on its own loop, in one thread.",
    "order": "The order of a set differs from process to process.",
    "global": "What other runs and steps change is another thing on a replay.",
    "cleanup": "It would happen each time the run is parked.",
    "swallow": "It keeps a body from being cancelled, parked or dropped.",
    "unawaited": "Nothing runs it, or nothing waits for it.",
}
"""By name: why."""


class Finding(msgspec.Struct, frozen=True):
    """One of them."""

    rule: str
    file: str
    line: int
    column: int
    """From 1."""
    workflow: str
    function: str
    """The function it stands in: the body, or one that it calls."""
    message: str
    todo: str
