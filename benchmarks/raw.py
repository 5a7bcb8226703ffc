"""The least that a durable row costs on PostgreSQL: rows of the journal, by asyncpg, and nothing that knows of outlast.

A table as wide as the journal, with its key, in the schema of the store that is measured; one prepared statement, each
a transaction by itself: one row, or a whole batch as arrays. No fence, no look at the entry before it, no rows of runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Self

import asyncpg

from benchmarks.figures import Rate
from outlast.stores.postgres.settings import parse_url
from outlast.stores.store import Entry, Progress

__all__ = ["RawRows"]

TABLE = """
create schema if not exists "{schema}";
create table if not exists "{schema}".raw (
  run_uid text collate "C" not null, seq integer not null, at bigint not null, writer text not null,
  mark bigint not null, events bytea not null, primary key (run_uid, seq)
)
"""
ONE = 'insert into "{schema}".raw values ($1, $2, $3, $4, $5, $6)'
MANY = """
insert into "{schema}".raw
select uid, seq, at, 'worker', mark, events
from unnest($1::text[], $2::int[], $3::bigint[], $4::bigint[], $5::bytea[]) as b (uid, seq, at, mark, events)
"""


class RawRows:
    """A connection, and a table of its own."""

    def __init__(self, connection: asyncpg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = schema

    @classmethod
    async def open(cls, url: str) -> Self:
        """In the schema of this store."""
        settings = parse_url(url)
        connection = await asyncpg.connect(settings.dsn)
        await connection.execute(TABLE.format(schema=settings.schema))
        return cls(connection, settings.schema)

    async def close(self) -> None:
        """The table stays, with the schema."""
        await self._connection.close()

    async def write(self, batches: Sequence[Sequence[Progress]]) -> Rate:
        """Commit these as rows, one batch after another."""
        statement = await self._connection.prepare(MANY.format(schema=self._schema))
        began, cpu = time.perf_counter(), time.process_time()
        for batch in batches:
            await statement.fetch(
                [each.uid for each in batch],
                [each.seq for each in batch],
                [each.at for each in batch],
                [each.mark for each in batch],
                [each.events for each in batch],
            )
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        rows = sum(map(len, batches))
        return Rate(rows / seconds, cpu * 1e6 / rows)

    async def time_commits(self, uid: str, entries: Sequence[Entry]) -> list[float]:
        """Commit these one by one, as rows of this run; seconds of each."""
        statement = await self._connection.prepare(ONE.format(schema=self._schema))
        taken: list[float] = []
        for entry in entries:
            began = time.perf_counter()
            await statement.fetch(uid, entry.seq, entry.at, "worker", entry.mark, entry.events)
            taken.append(time.perf_counter() - began)
        return taken
