"""Entries as lines of JSON in a file, for whatever reads such. Layer: mirrors.

    {"uid":"…","seq":0,"at":1700000000000000,"writer":"client","events":[{"event":"RunStarted",…}]}

What always holds: a line is whole or not there. Any number of processes may write to one file: each write holds its
lock, and cuts off what a process that died in the middle of one has left. Lines of a run may come out of order and,
after a failure, twice: `(uid, seq)` says which.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path

import msgspec

from outlast.errors import InvalidSetting
from outlast.telemetry.observer import Landed

__all__ = ["JsonLinesMirror"]

CHUNK = 64 * 1024
KEEP_INDEX_S = 60.0


class _Kept:
    """Which entries of a run are there: all before the first that is missing, and some behind it."""

    __slots__ = ("_behind", "first_missing")

    def __init__(self) -> None:
        self.first_missing = 0
        self._behind: set[int] = set()

    def add(self, seq: int) -> None:
        """This one is."""
        if seq >= self.first_missing:
            self._behind.add(seq)
        while self.first_missing in self._behind:
            self._behind.remove(self.first_missing)
            self.first_missing += 1


class _Line(msgspec.Struct):
    uid: str
    seq: int
    at: int
    writer: str
    events: msgspec.Raw


class _Place(msgspec.Struct):
    uid: str
    seq: int


_encode = msgspec.json.Encoder().encode
_read_place = msgspec.json.Decoder(_Place).decode


class JsonLinesMirror:
    """Appends to the file at `path`. With `rotate_at`, a file of so many bytes is renamed to `NAME.1`, `NAME.2` and so
    on, the highest being the latest, and a new one is begun."""

    def __init__(self, path: str | os.PathLike[str], *, rotate_at: int | None = None) -> None:
        if rotate_at is not None and rotate_at < 1:
            raise InvalidSetting("JsonLinesMirror(rotate_at=…)", rotate_at, "a number of bytes, 1 or more")
        self.path = Path(path)
        self.name = self.path.name
        self._rotate_at = rotate_at
        self._index: dict[str, _Kept] | None = None
        """What the files hold, while somebody catches up: they are read once, and not for each page of runs."""
        self._asked_at = 0.0

    async def write(self, batch: Sequence[Landed]) -> None:
        """See `Mirror`."""
        lines = b"".join(
            _encode(_Line(entry.uid, entry.seq, entry.at, entry.writer, msgspec.Raw(entry.events))) + b"\n"
            for entry in batch
        )
        with self._locked() as file:
            end = _cut_torn_line(file)
            try:
                _write_all(file, lines)
            except OSError:
                file.truncate(end)  # all of the batch or nothing: it comes again
                raise
            if self._index is not None and time.monotonic() - self._asked_at < KEEP_INDEX_S:
                for entry in batch:
                    self._index.setdefault(entry.uid, _Kept()).add(entry.seq)
            else:
                self._index = None
            if self._rotate_at is not None and end + len(lines) >= self._rotate_at:
                self._rotate()

    async def positions(self, uids: Sequence[str]) -> dict[str, int]:
        """See `Mirror`. It reads all files, unless it has just done so."""
        if self._index is None or time.monotonic() - self._asked_at >= KEEP_INDEX_S:
            self._index = {}
            for line in self._lines():
                place = _read_place(line)
                self._index.setdefault(place.uid, _Kept()).add(place.seq)
        self._asked_at = time.monotonic()
        return {uid: kept.first_missing for uid in uids if (kept := self._index.get(uid)) is not None}

    def _lines(self) -> Iterator[bytes]:
        for path in self.files():
            with path.open("rb") as file:
                for line in file:
                    if line.endswith(b"\n"):  # else its process died, or is writing it
                        yield line

    def files(self) -> list[Path]:
        """All there are, the oldest first."""
        rotated = sorted(filter(_number_of, self.path.parent.glob(f"{self.path.name}.*")), key=_number_of)
        return rotated + ([self.path] if self.path.exists() else [])

    def _locked(self) -> FileIO:
        """The file, ours until it is closed. It may have been renamed between opening and locking it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        while True:
            file = self.path.open("a+b", buffering=0)
            fcntl.flock(file, fcntl.LOCK_EX)
            if self.path.exists() and os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                return file
            file.close()

    def _rotate(self) -> None:
        last = max((_number_of(path) for path in self.files()), default=0)
        self.path.rename(self.path.with_name(f"{self.path.name}.{last + 1}"))


def _number_of(path: Path) -> int:
    """0: not a rotated file."""
    end = path.name.rpartition(".")[2]
    return int(end) if end.isdecimal() else 0


def _write_all(file: FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _cut_torn_line(file: FileIO) -> int:
    """Cut off a line without its end; gives where the file ends then."""
    end = file.seek(0, os.SEEK_END)
    whole = end
    while whole > 0:
        begin = max(0, whole - CHUNK)
        file.seek(begin)
        found = file.read(whole - begin).rfind(b"\n")
        if found >= 0:
            whole = begin + found + 1
            break
        whole = begin
    if whole < end:
        file.truncate(whole)
    return whole
