"""A run's journal as a file: out of one store, into another. Layer: run.

A file is JSON lines: first what the run's row says (`Header`), then each entry as it lies in the store, values still
packed as they are there. What always holds: the entries of an imported journal are the exported ones, byte for byte,
though a client wrote them; a file that is cut off is refused before anything is stored, and an import that broke off
can be repeated; and a run that had not ended does not go on by itself, since its original may: it is suspended as
`IMPORTED`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from outlast.core.events import Event, RunStarted, RunSuspended, decode_events, encode_events
from outlast.core.fold import fold
from outlast.core.states import RunStatus, is_ended
from outlast.core.view import IMPORTED
from outlast.engine.ids import new_mark
from outlast.engine.messages.waits import show_wait
from outlast.errors import InvalidSetting, RunExists
from outlast.stores.store import Effects, Entry, NewRun, NewWait, Progress, RowChange, Verdict

if TYPE_CHECKING:
    from outlast.core.view import RunView
    from outlast.engine.engine import Engine
    from outlast.stores.store import RunRow

__all__ = ["IMPORTED", "Header", "Imported", "export_run", "import_run", "read_file"]

T = TypeVar("T")

NEVER = 253_402_300_799_000_000
"""The end of the year 9999, in µs: until its last entry is written, no worker may take the run."""


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    outlast: Literal["journal"] = "journal"
    format: Literal[1] = 1
    entries: int
    """How many lines follow."""
    uid: str
    id: str
    workflow: str
    version: str
    status: RunStatus
    queue: str
    priority: int
    user: str | None
    attributes: msgspec.Raw
    trace: str
    parent: str | None
    error: msgspec.Raw
    """The row's summary of it, or null."""


class _Line(msgspec.Struct, frozen=True):
    """One entry."""

    seq: int
    at: int
    writer: str
    mark: int
    events: msgspec.Raw


class Imported(msgspec.Struct, frozen=True):
    """What came of an import."""

    uid: str
    id: str
    entries: int
    status: RunStatus


async def export_run(engine: Engine, row: RunRow) -> Iterator[bytes]:
    """The lines of the run's file, each with its line break."""
    entries: list[Entry] = []
    while page := await engine.store.read_journal(row.uid, after=len(entries) - 1):
        entries += page
    header = Header(
        entries=len(entries),
        uid=row.uid,
        id=row.id,
        workflow=row.workflow,
        version=row.version,
        status=row.status,
        queue=row.queue,
        priority=row.priority,
        user=row.user,
        attributes=msgspec.Raw(row.attributes),
        trace=row.trace,
        parent=row.parent,
        error=msgspec.Raw(row.error or b"null"),
    )
    return _write(header, entries)


def _write(header: Header, entries: Iterable[Entry]) -> Iterator[bytes]:
    encode = msgspec.json.encode
    yield encode({"outlast": header.outlast, "format": header.format, **msgspec.structs.asdict(header)}) + b"\n"
    for entry in entries:
        yield encode(_Line(entry.seq, entry.at, entry.writer, entry.mark, msgspec.Raw(entry.events))) + b"\n"


async def import_run(engine: Engine, lines: Iterable[bytes]) -> Imported:
    """Write a file's run into the store. Raises InvalidSetting for what is no such file, whole; RunExists."""
    header, entries, view = read_file(lines)
    holder = await engine.store.find_run(header.id)
    if holder is not None and holder.uid != header.uid:
        raise RunExists(header.id, holder.status)
    ends = view.is_ended or view.suspension is not None  # else something of it could go on, be it only an answer
    prev = 0
    for number, entry in enumerate(entries):
        is_last = ends and number == len(entries) - 1
        effects = Effects(
            start=_new_run(header) if number == 0 else None,
            unowned=RunStatus.QUEUED if number else None,
            row=_final(header, view) if is_last else None,
            waits_opened=_open_waits(view) if is_last else (),
        )
        await _commit(engine, header, entry, prev, effects)
        prev = entry.mark
    if not ends:
        await _suspend(engine, header, entries[-1], view)
    row = await engine.get_row(header.uid)
    return Imported(row.uid, row.id, len(entries), row.status)


async def _commit(engine: Engine, header: Header, entry: Entry, prev: int, effects: Effects) -> None:
    progress = Progress(header.uid, entry.seq, entry.at, entry.mark, prev, entry.events, effects)
    answer = (await engine.store.commit(None, [progress]))[0]
    # CRASH: part of the journal is there, and nobody takes the run. The same import goes on behind it.
    # [test_an_import_that_breaks_off_is_repeated]
    if answer.verdict is not Verdict.LANDED:
        row = await engine.store.find_run(header.id)
        raise RunExists(header.id, "there with another history" if row is None else row.status)


async def _suspend(engine: Engine, header: Header, last: Entry, view: RunView) -> None:
    """Set a run aside that would go on. Once: a repeated import finds it so."""
    if (await engine.get_row(header.uid)).status is RunStatus.SUSPENDED:
        return
    reason = "it came from a file, and where it came from it may go on; resume it when that is not so"
    events = encode_events([RunSuspended(last.at, IMPORTED, reason)])
    entry = Entry(last.seq + 1, last.at, last.writer, new_mark(), events)
    row = RowChange(status=RunStatus.SUSPENDED, waiting_on=IMPORTED)
    effects = Effects(unowned=RunStatus.QUEUED, row=row, waits_opened=_open_waits(view))
    await _commit(engine, header, entry, last.mark, effects)


def _new_run(header: Header) -> NewRun:
    return NewRun(
        id=header.id,
        workflow=header.workflow,
        version=header.version,
        queue=header.queue,
        priority=header.priority,
        wake_at=NEVER,
        parent=header.parent,
        root=header.uid,
        user=header.user,
        attributes=bytes(header.attributes),
        trace=header.trace,
    )


def _open_waits(view: RunView) -> tuple[NewWait, ...]:
    """Rows of what it waits for: people can see it, and answer when it is resumed."""
    return tuple(map(show_wait, view.waits.values()))


def _final(header: Header, view: RunView) -> RowChange:
    assert view.status is not None
    error = bytes(header.error)
    return RowChange(
        status=view.status,
        waiting_on=view.waiting_on,
        ended=is_ended(view.status),
        error=b"" if error == b"null" else error,
    )


# --- reading ----------------------------------------------------------------------------------------------------------


def read_file(lines: Iterable[bytes]) -> tuple[Header, list[Entry], RunView]:
    """All of it, checked: nothing is stored of a file that is not whole."""
    given = iter(lines)
    header = _decode(next(given, b""), Header, 1)
    entries: list[Entry] = []
    journal: list[tuple[Entry, list[Event]]] = []
    for number, line in enumerate(given, 2):
        if line.strip():
            read = _decode(line, _Line, number)
            entry = Entry(read.seq, read.at, read.writer, read.mark, bytes(read.events))
            entries.append(entry)
            journal.append((entry, _decode_events(entry, number)))
    if [entry.seq for entry in entries] != list(range(header.entries)):
        raise _wrong(f"{len(entries)} entries", f"{header.entries} of them, numbered from 0: the file is cut off")
    first = journal[0][1][0] if journal and journal[0][1] else None
    if not isinstance(first, RunStarted) or (first.uid, first.id) != (header.uid, header.id):
        raise _wrong(f"run {header.uid}", "a journal that begins with the start of this run")
    return header, entries, fold(journal)


def _decode(line: bytes, kind: type[T], number: int) -> T:
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _wrong(f"line {number}", f"a journal that `outlast export` wrote: {error}") from error


def _decode_events(entry: Entry, number: int) -> list[Event]:
    try:
        return decode_events(entry.events)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _wrong(f"line {number}", f"events that this release knows: {error}") from error


def _wrong(value: str, expected: str) -> InvalidSetting:
    return InvalidSetting("the file", value, expected)
