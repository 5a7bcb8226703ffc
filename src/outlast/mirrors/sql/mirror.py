"""`SqlMirror`: runs, steps and events in another database, through SQLAlchemy Core. Layer: mirrors.

What always holds: one batch is one transaction; an event that is there is not written again; and the rows of a run and
its steps are made of all events that are there from its first entry on, without a gap, whoever wrote them. Lock order:
rows of runs, by uid.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from outlast.core.events import decode_events
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
    from outlast.mirrors.sql.tables import EVENTS, RUNS, event_rows

    uids = sorted({entry.uid for entry in batch})
    _insert_missing(connection, RUNS, [{"uid": uid, "entries": 0} for uid in uids], ["uid"])
    kept = _lock_runs(connection, uids)
    rows = [row for entry in batch for row in event_rows(entry, decode_events(entry.events))]
    _insert_missing(connection, EVENTS, rows, ["uid", "seq", "position"])
    for uid in uids:
        run = seen.setdefault(uid, _Seen())
        if kept[uid] != run.entries:
            run.steps = None  # another process has written them since
        _rebuild(connection, uid, run)


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


class _Seen:
    """A run as far as this process has seen its events. Entries never change, so that stays true."""

    def __init__(self) -> None:
        self.fold = Fold()
        self.entries = 0
        """How many, from the first on, without a gap."""
        self.steps: dict[str, dict[str, Any]] | None = None
        """Rows of its steps as they were last written; None: not by this process."""


def _rebuild(connection: Connection, uid: str, seen: _Seen) -> None:
    """Make the rows of a run and its steps of the events that are there."""
    from sqlalchemy import delete, insert, select, update

    from outlast.mirrors.sql.tables import EVENTS, RUNS, STEPS, run_row, step_rows

    found = connection.execute(
        select(EVENTS.c.seq, EVENTS.c.written_us, EVENTS.c.data)
        .where(EVENTS.c.uid == uid, EVENTS.c.seq >= seen.entries)
        .order_by(EVENTS.c.seq, EVENTS.c.position)
    )
    for seq, of_entry in itertools.groupby(found, lambda row: row.seq):
        if seq != seen.entries:
            break  # a gap: what is behind it has to wait
        for _, written_us, data in of_entry:
            seen.fold.apply(decode_events(f"[{data}]".encode())[0], written_us)
        seen.entries += 1
    view = seen.fold.view
    connection.execute(update(RUNS).where(RUNS.c.uid == uid).values(run_row(uid, view, seen.entries)))
    before, now = seen.steps, {row["step_key"]: row for row in step_rows(uid, view)}
    seen.steps = now
    if before is None:
        connection.execute(delete(STEPS).where(STEPS.c.uid == uid))
        changed = list(now.values())
    else:
        changed = [row for key, row in now.items() if before.get(key) != row]
        gone = [key for key in before if now.get(key) != before[key]]
        for some in _parts(gone):
            connection.execute(delete(STEPS).where(STEPS.c.uid == uid, STEPS.c.step_key.in_(some)))
    if changed:
        connection.execute(insert(STEPS), changed)


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
