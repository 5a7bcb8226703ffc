"""`--input`: JSON on the command line, from a file or from standard input. Layer: cli."""

from __future__ import annotations

import sys
from pathlib import Path

from outlast.cli.exits import CommandError, ExitCode

__all__ = ["read_input"]

LARGEST = 64 * 1024 * 1024
"""Bytes that are read at most: far beyond what a run may be started with, and short of filling the memory."""


def read_input(given: str) -> bytes:
    """The JSON that `--input` gives: itself, the content of `@file`, or standard input for `-`.

    Raises CommandError for what cannot be read; whether it is JSON that fits, the workflow says.
    """
    if given == "-":
        return _limited(sys.stdin.buffer.read(LARGEST + 1), "standard input")
    if not given.startswith("@"):
        return given.encode(errors="surrogateescape")
    path = Path(given[1:])
    try:
        with path.open("rb") as file:
            return _limited(file.read(LARGEST + 1), str(path))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        todo = "Give JSON itself, @FILE, or - for standard input."
        raise _refused(f"The input cannot be read, {reason}", given, todo) from None


def _limited(data: bytes, where: str) -> bytes:
    if len(data) > LARGEST:
        problem = f"The input is over {LARGEST // 2**20} MiB"
        raise _refused(problem, where, "Store it elsewhere and pass a reference.")
    return data


def _refused(what: str, where: str, todo: str) -> CommandError:
    return CommandError("INPUT_NOT_READ", what, where, todo, ExitCode.USAGE)
