"""Which processes have a file open, and what they are doing. Layer: cli. Linux tells; elsewhere nobody is found."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

__all__ = ["Process", "find_users"]

_PROC = Path("/proc")
_STOPPED = "Tt"
"""States of a process that a signal or a debugger has stopped."""


class Process(NamedTuple):
    """A process that has one of the files open."""

    pid: int
    command: str
    state: str
    """One letter, as `ps` shows it."""

    @property
    def is_stopped(self) -> bool:
        """It holds what it holds until it is continued or killed."""
        return self.state in _STOPPED and bool(self.state)


def find_users(*paths: Path) -> list[Process]:
    """All other processes with any of these files open, as far as this user may see them."""
    wanted = {identity for path in paths if (identity := _identify(path)) is not None}
    return sorted(
        Process(int(folder.name), _command_of(folder), _state_of(folder))
        for folder in _list_processes()
        if int(folder.name) != os.getpid() and _has_open(folder, wanted)
    )


def _list_processes() -> Iterator[Path]:
    if _PROC.is_dir():
        yield from (folder for folder in _PROC.iterdir() if folder.name.isdecimal())


def _identify(path: Path) -> tuple[int, int] | None:
    """Device and inode: what a file is, whatever it is called where the other process runs."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _has_open(folder: Path, wanted: set[tuple[int, int]]) -> bool:
    try:
        return any(_identify(link) in wanted for link in (folder / "fd").iterdir())
    except OSError:  # gone, or another user's
        return False


def _command_of(folder: Path) -> str:
    try:
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "?"
    text = " ".join(word for word in words if word)
    return text if len(text) <= 100 else f"{text[:99]}…"


def _state_of(folder: Path) -> str:
    """The letter behind the name, which is in brackets and may hold anything."""
    try:
        return (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""
