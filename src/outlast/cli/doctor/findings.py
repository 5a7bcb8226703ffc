"""What a check finds. Layer: cli."""

from __future__ import annotations

import enum

import msgspec

__all__ = ["Finding", "Level", "note", "ok", "wrong"]


class Level(enum.StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"
    """A choice or a state worth knowing of; nothing has to be done."""
    WRONG = "wrong"
    """Something has to be done: the command fails."""


class Finding(msgspec.Struct, frozen=True):
    """One check, and what came of it."""

    check: str
    """What was looked at, in a word or two."""
    level: Level
    text: str
    todo: str = ""
    """What to do; never empty where something is wrong."""


def ok(check: str, text: str) -> Finding:
    """As it should be."""
    return Finding(check, Level.OK, text)


def note(check: str, text: str, todo: str = "") -> Finding:
    """Worth knowing."""
    return Finding(check, Level.NOTE, text, todo)


def wrong(check: str, text: str, todo: str) -> Finding:
    """Somebody has to act."""
    return Finding(check, Level.WRONG, text, todo)
