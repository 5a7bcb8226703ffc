"""`SqlMirror`: runs, steps and events in another database, through SQLAlchemy Core. Layer: mirrors.

What always holds: one batch is one transaction; an event that is there is not written again; and the rows of a run and
its steps are made of all events that are there from its first entry on, without a gap, whoever wrote them. Lock order:
rows of runs, by uid.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from outlast.core.events import (
    AttemptStarted,
    Event,
    StepFailed,
    StepProgressed,
    StepStarted,
    StepSucceeded,
    decode_events,
)
from outlast.core.fold import Fold
from outlast.errors import ExtraMissing
from outlast.telemetry.observer import Landed

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.ext.asyncio import AsyncEngine

__all__ = ["SqlMirror"]

AT_ONCE = 400
"""uids in one statement: SQLite of old takes 999 values."""

MOST_SEEN = 500
"""Runs that are kept in mind, so that their events need not be read again for each batch."""

_Entry: TypeAlias = tuple[int, int, Sequence[Event]]
"""Its number, when it was written, and its events."""

OF_ONE_STEP = (StepStarted, StepSucceeded, StepFailed, AttemptStarted, StepProgressed)
"""Events that change the row of the step they name and no other."""

T = TypeVar("T")


class SqlMirror:
    """Writes to the database at `url`, as SQLAlchemy spells it; `postgresql://` alone is taken for asyncpg's.

    The tables `outlast_runs`, `outlast_steps` and `outlast_events` are made if they are not there, in the schema that
    is named, which has to be. Any number of processes may write to one database."""

    def __init__(self, url: str, *, schema: str | None = None) -> None:
        try:
            from sqlalchemy.engine import make_url
        except ImportError:
            raise ExtraMissing("A mirror in SQL", "mirror") from None
        parsed = make_url(url)
        if parsed.drivername in {"postgresql", "postgres"}:
            parsed = parsed.set(drivername="postgresql+asyncpg")
        self._url = parsed
        self.name = f"sql:{parsed.database}"
        self._schema = schema
        self._engine: Engine | AsyncEngine | None = None
        self._seen: dict[str, _Seen] = {}

    async def open(self) -> None:
        """See `Mirror`."""
        from outlast.mirrors.sql.tables import METADATA

        self._engine = self._make_engine().execution_options(schema_translate_map={None: self._schema})
        await self._use(METADATA.create_all)

    async def close(self) -> None:
        """See `Mirror`."""
        from sqlalchemy.ext.asyncio import AsyncEngine

        engine, self._engine = self._engine, None
        if isinstance(engine, AsyncEngine):
            await engine.dispose()
        elif engine is not None:
            engine.dispose()

    async def write(self, batch: Sequence[Landed]) -> None:
        """See `Mirror`."""
        try:
            await self._use(lambda connection: _write(connection, batch, self._seen))
        except BaseException:
            self._seen.clear()  # it says what the transaction would have written
            raise
        for uid in {entry.uid for entry in batch}:
            if self._seen[uid].fold.view.is_ended:
                del self._seen[uid]
        while len(self._seen) > MOST_SEEN:
            del self._seen[next(iter(self._seen))]

    async def positions(self, uids: Sequence[str]) -> dict[str, int]:
        """See `Mirror`."""
        return await self._use(lambda connection: _find_positions(connection, uids))

    def _make_engine(self) -> Engine | AsyncEngine:
        from sqlalchemy import create_engine, event
        from sqlalchemy.ext.asyncio import create_async_engine

        if self._url.get_dialect().is_async:
            return create_async_engine(self._url)
        engine = create_engine(self._url)
        if engine.dialect.name == "sqlite":  # its driver begins transactions late, and then they may be refused

            @event.listens_for(engine, "connect")
            def connected(connection: Any, _record: object) -> None:
                connection.isolation_level = None
                connection.execute("pragma busy_timeout = 20000")

            @event.listens_for(engine, "begin")
            def begin(connection: Connection) -> None:
                connection.exec_driver_sql("begin immediate")

        return engine

    async def _use(self, work: Callable[[Connection], T]) -> T:
        from sqlalchemy.ext.asyncio import AsyncEngine

        engine = self._engine
        assert engine is not None, "not open"
        if isinstance(engine, AsyncEngine):
            async with engine.begin() as connection:
                return await connection.run_sync(work)
        with engine.begin() as connection:
            return work(connection)


# --- in one transaction -----------------------------------------------------------------------------------------------


def _write(connection: Connection, batch: Sequence[Landed], seen: dict[str, _Seen]) -> None:
    """A handful of statements, however many runs are in the batch: each costs as much as many rows do."""
    from outlast.mirrors.sql.tables import EVENTS, RUNS, event_rows

    entries: dict[str, list[_Entry]] = {uid: [] for uid in sorted({entry.uid for entry in batch})}
    rows: list[dict[str, Any]] = []
    for entry in batch:
        events = decode_events(entry.events)
        entries[entry.uid].append((entry.seq, entry.at, events))
        rows += event_rows(entry, events)
    uids = [*entries]
    _insert_missing(connection, RUNS, [{"uid": uid, "entries": 0} for uid in uids], ["uid"])
    kept = _lock_runs(connection, uids)
    _insert_missing(connection, EVENTS, rows, ["uid", "seq", "position"])
    newest = _find_newest(connection, uids)
    for uid, given in entries.items():
        run = seen.setdefault(uid, _Seen())
        if kept[uid] != run.entries:
            run.steps = None  # another process has written them since
        run.apply(sorted(given, key=itemgetter(0)))
        if run.entries <= newest[uid]:  # there is more, of another process, or of a batch that came too early
            run.apply(_read_entries(connection, uid, run.entries))
    _rewrite(connection, {uid: seen[uid] for uid in uids})


def _lock_runs(connection: Connection, uids: Sequence[str]) -> dict[str, int]:
    """One writer of a run at a time: else each would make its rows of what it alone has written. Gives how far each
    goes."""
    from sqlalchemy import select

    from outlast.mirrors.sql.tables import RUNS

    kept: dict[str, int] = {}
    for some in _parts(uids):
        asking = select(RUNS.c.uid, RUNS.c.entries).where(RUNS.c.uid.in_(some)).order_by(RUNS.c.uid).with_for_update()
        kept.update((row.uid, row.entries) for row in connection.execute(asking))
    return kept


def _find_newest(connection: Connection, uids: Sequence[str]) -> dict[str, int]:
    """The last entry that is there of each, with or without a gap before it."""
    from sqlalchemy import func, select

    from outlast.mirrors.sql.tables import EVENTS

    newest: dict[str, int] = {}
    for some in _parts(uids):
        asking = select(EVENTS.c.uid, func.max(EVENTS.c.seq)).where(EVENTS.c.uid.in_(some)).group_by(EVENTS.c.uid)
        newest.update((uid, seq) for uid, seq in connection.execute(asking))
    return newest


def _read_entries(connection: Connection, uid: str, first: int) -> Iterator[_Entry]:
    """Those that are there, from this one on."""
    from sqlalchemy import select

    from outlast.mirrors.sql.tables import EVENTS

    found = connection.execute(
        select(EVENTS.c.seq, EVENTS.c.written_us, EVENTS.c.data)
        .where(EVENTS.c.uid == uid, EVENTS.c.seq >= first)
        .order_by(EVENTS.c.seq, EVENTS.c.position)
    )
    for seq, of_entry in itertools.groupby(found, itemgetter(0)):
        parts = [*of_entry]
        yield seq, parts[0][1], decode_events(f"[{','.join(data for _, _, data in parts)}]".encode())


class _Seen:
    """A run as far as this process has seen its events. Entries never change, so that stays true."""

    def __init__(self) -> None:
        self.fold = Fold()
        self.entries = 0
        """How many, from the first on, without a gap."""
        self.steps: dict[str, dict[str, Any]] | None = None
        """Rows of its steps as they were last written; None: not by this process."""
        self.touched: dict[str, None] | None = None
        """Keys of steps that have changed since; None: any of them may."""

    def apply(self, entries: Iterable[_Entry]) -> None:
        """Take in those that follow, in their order; what is behind a gap has to wait."""
        for seq, written_us, events in entries:
            if seq == self.entries:
                for event in events:
                    self.fold.apply(event, written_us)
                    if not isinstance(event, OF_ONE_STEP):
                        self.touched = None
                    elif self.touched is not None:
                        self.touched[event.key] = None
                self.entries += 1

    def step_rows(self, uid: str) -> tuple[list[str], list[dict[str, Any]]]:
        """Keys whose rows there are and that are not as they should be, and the rows that are to be there instead."""
        from outlast.mirrors.sql.tables import step_row

        views = self.fold.view.steps
        if self.steps is None or self.touched is None:
            rows = {key: step_row(uid, step) for key, step in views.items()}
        else:
            rows = {key: step_row(uid, views[key]) for key in self.touched if key in views}
        before = {} if self.steps is None else self.steps
        looked_at = rows if self.touched is not None else {**before, **rows}
        gone = [key for key in looked_at if key in before and rows.get(key) != before[key]]
        new = [row for key, row in rows.items() if before.get(key) != row]
        self.steps = {**before, **rows} if self.touched is not None else rows
        self.touched = {}
        return gone, new


def _rewrite(connection: Connection, runs: Mapping[str, _Seen]) -> None:
    """Make the rows of these runs and their steps anew, as far as they have changed."""
    from sqlalchemy import bindparam, delete, insert, update

    from outlast.mirrors.sql.tables import RUNS, STEPS, run_row

    changes = [run_row(uid, run.fold.view, run.entries) for uid, run in runs.items() if run.entries]
    if changes:
        values: dict[str, Any] = {name: bindparam(name) for name in changes[0] if name != "uid"}
        change = update(RUNS).where(RUNS.c.uid == bindparam("of_uid")).values(values)
        connection.execute(change, [{"of_uid": row.pop("uid"), **row} for row in changes])
    unknown: list[str] = []
    gone: list[dict[str, Any]] = []
    new: list[dict[str, Any]] = []
    for uid, run in runs.items():
        if run.steps is None:
            unknown.append(uid)
        keys, rows = run.step_rows(uid)
        gone += [{"of_uid": uid, "key": key} for key in keys]
        new += rows
    for some in _parts(unknown):
        connection.execute(delete(STEPS).where(STEPS.c.uid.in_(some)))
    if gone:
        is_gone = (STEPS.c.uid == bindparam("of_uid")) & (STEPS.c.step_key == bindparam("key"))
        connection.execute(delete(STEPS).where(is_gone), gone)
    if new:
        connection.execute(insert(STEPS), new)


def _find_positions(connection: Connection, uids: Sequence[str]) -> dict[str, int]:
    """The rows of runs say how far they go; a gap is where that ends."""
    from sqlalchemy import select

    from outlast.mirrors.sql.tables import RUNS

    found: dict[str, int] = {}
    for some in _parts(uids):
        rows = connection.execute(select(RUNS.c.uid, RUNS.c.entries).where(RUNS.c.uid.in_(some)))
        found.update((row.uid, row.entries) for row in rows)
    return found


def _insert_missing(connection: Connection, table: Any, rows: list[dict[str, Any]], key: list[str]) -> None:
    """Those that are not there yet, whoever writes the same at the same time."""
    from sqlalchemy import insert, select
    from sqlalchemy.dialects import postgresql, sqlite

    dialects: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
    make = dialects.get(connection.dialect.name)
    if make is not None:
        connection.execute(make(table).on_conflict_do_nothing(index_elements=key), rows)
        return
    for some in _parts(sorted({row["uid"] for row in rows})):
        there = {
            tuple(row)
            for row in connection.execute(select(*(table.c[name] for name in key)).where(table.c.uid.in_(some)))
        }
        missing = [row for row in rows if row["uid"] in some and tuple(row[name] for name in key) not in there]
        if missing:
            connection.execute(insert(table), missing)  # beside another writer this may fail: the batch comes again


def _parts(uids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (uids[begin : begin + AT_ONCE] for begin in range(0, len(uids), AT_ONCE))
