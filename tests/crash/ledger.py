"""What steps did in the world: a file outside of every store, with whole lines of a killed process or none.

Each line is one `write` of one process to a file opened with O_APPEND, so lines of many processes never mix, and a
SIGKILL loses none that was written.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from outlast.authoring.current import current_step
from outlast.core.events import AttemptStarted, StepStarted, decode_events

__all__ = ["AppendFile", "Ledger", "Mark"]


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: a step was here."""

    what: str
    """`before` its effect, `after` it, or `failed`."""
    uid: str
    key: str
    invocation: str
    attempt: int
    pid: int
    at: int
    """ns of the machine's clock."""
    threaded: bool = False
    """Written in a thread, which nobody can stop."""
    recorded: bool | None = True
    """The attempt stood in the journal at that moment. None: nobody could say, for the store was away."""


class AppendFile:
    """Lines of JSON that outlive their writer."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def append(self, record: object) -> None:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(self._file, msgspec.json.encode(record) + b"\n")

    def lines(self) -> list[bytes]:
        return self.lines_after(0)[0]

    def lines_after(self, offset: int) -> tuple[list[bytes], int]:
        """Those from this byte on, and the byte to go on from."""
        if not self.path.exists():
            return [], offset
        with self.path.open("rb") as file:
            file.seek(offset)
            read = file.read()
        return read.splitlines(), offset + len(read)


class Ledger:
    """The effects of the steps of one world. `read_journal` gives the entries of one of its runs."""

    def __init__(self, path: Path, read_journal: Callable[[str], list[bytes] | None]) -> None:
        self._file = AppendFile(path)
        self._read_journal = read_journal
        self._marks: list[Mark] = []
        self._read_to = 0

    def marks(self) -> list[Mark]:
        """All lines, in the order written. Each is read once, however often this is asked for."""
        lines, self._read_to = self._file.lines_after(self._read_to)
        self._marks += [msgspec.json.decode(line, type=Mark) for line in lines]
        return [*self._marks]

    def unfinished(self) -> list[Mark]:
        """Of the executions that have begun and not ended. Those of the dead are among them."""
        begun: dict[tuple[str, str, int, int], Mark] = {}
        for mark in self.marks():
            execution = mark.uid, mark.key, mark.attempt, mark.pid
            if mark.what == "before":
                begun[execution] = mark
            else:
                begun.pop(execution, None)
        return [*begun.values()]

    @contextmanager
    def effect(self) -> Iterator[None]:
        """Around a step's effect. Called within the step."""
        self.note("before")
        try:
            yield
        except BaseException:
            self.note("failed")
            raise
        self.note("after")

    def note(self, what: str) -> None:
        info = current_step()
        uid = str(info.uid)
        recorded = what != "before" or self._is_on_record(uid, info.key, info.attempt)
        threaded = threading.current_thread() is not threading.main_thread()
        self._file.append(
            Mark(what, uid, info.key, info.invocation_id, info.attempt, os.getpid(), time.time_ns(), threaded, recorded)
        )

    def _is_on_record(self, uid: str, key: str, attempt: int) -> bool | None:
        """Whether the store has this attempt already, seen through a connection of our own."""
        journal = self._read_journal(uid)
        if journal is None:
            return None
        started = (event for events in journal for event in decode_events(events))
        return any(
            isinstance(event, StepStarted | AttemptStarted) and (event.key, event.attempt) == (key, attempt)
            for event in started
        )
