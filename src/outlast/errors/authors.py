"""Errors for authors to raise and to derive from; not the engine's. Layer: errors."""

from __future__ import annotations

__all__ = ["ExpectedError", "NonRetryable"]


class NonRetryable(Exception):
    """Raise it, derive from it, or raise it `from` the real error: the step fails now, whatever attempts are left."""


class ExpectedError(Exception):
    """A domain error: a declined card, not a bug. Logged as one line, without a traceback.

    Any exception class may say the same of itself with `expected = True`.
    """

    expected = True
