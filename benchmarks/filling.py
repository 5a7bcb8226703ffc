"""A store full of runs that ended long ago, put there by SQL: the engine would take hours for a million.

What always holds: the rows are as the engine leaves them, one run in fifty failed, each with two entries of a journal,
20 runs of each user; and afterwards the store is as it would be after some days: its statistics taken, its log written
back.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

from outlast.stores.open import open_store

__all__ = ["FIRST_AT", "GAP_US", "fill"]

FIRST_AT = 1_700_000_000_000_000
GAP_US = 1000
"""From one run's start to the next one's."""
PER_USER = 20
PAGE = 100_000

NUMBERS = {
    "sqlite": "with recursive numbers (n) as (select {first} union all select n + 1 from numbers where n < {last})",
    "postgresql": "with numbers (n) as (select generate_series({first}, {last}))",
}
TRUE = {"sqlite": "1", "postgresql": "true"}
FALSE = {"sqlite": "0", "postgresql": "false"}
RUNS = """
insert into {schema}runs (
  uid, id, holds, workflow, version, status, live, epoch, priority, queue, root, user_id,
  created_at, started_at, updated_at, finished_at
)
{numbers}
select
  'uid ' || n, 'id ' || n, {true}, 'workflow ' || (n % 5), 'v', case when n % 50 = 0 then 'failed' else 'completed' end,
  {false}, 1, 5, 'default', 'uid ' || n, 'user ' || (n / {per_user}),
  {at} + n * {gap}, {at} + n * {gap}, {at} + (n + 9) * {gap}, {at} + (n + 9) * {gap}
from numbers
"""
VALUES = """
insert into {schema}run_values (uid, attributes, trace)
{numbers}
select 'uid ' || n, {empty}, '' from numbers
"""
JOURNAL = """
insert into {schema}journal (run_uid, seq, at, writer, mark, events)
{numbers}
select 'uid ' || n, seq, {at} + n * {gap}, 'worker', n, {events}
from numbers cross join (select 0 as seq union select 1) s
"""
EMPTY = {"sqlite": "cast('{}' as blob)", "postgresql": "'{}'::bytea"}
EVENTS = {"sqlite": "zeroblob(300)", "postgresql": "convert_to(repeat(' ', 300), 'UTF8')"}


async def fill(url: str, runs: int, say: Callable[[str], None]) -> None:
    """Add so many. The store is made if it is not there."""
    store = open_store(url)
    await store.open()
    await store.close()
    if url.startswith("sqlite:"):
        _fill_sqlite(url, runs)
    else:
        await _fill_postgres(url, runs, say)


def _write(dialect: str, schema: str, first: int, last: int) -> list[str]:
    """The statements for runs with these numbers."""
    return [
        template.format(
            schema=schema,
            numbers=NUMBERS[dialect].format(first=first, last=last),
            true=TRUE[dialect],
            false=FALSE[dialect],
            at=FIRST_AT,
            gap=GAP_US,
            per_user=PER_USER,
            empty=EMPTY[dialect],
            events=EVENTS[dialect],
        )
        for template in (RUNS, VALUES, JOURNAL)
    ]


def _fill_sqlite(url: str, runs: int) -> None:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as connection:
        connection.execute("pragma synchronous = off")
        connection.execute("pragma cache_size = -400000")
        connection.execute("begin")
        for statement in _write("sqlite", "", 1, runs):
            connection.execute(statement)
        connection.execute("commit")
        connection.execute("pragma wal_checkpoint(truncate)")


async def _fill_postgres(url: str, runs: int, say: Callable[[str], None]) -> None:
    import asyncpg  # an extra of outlast

    from outlast.stores.postgres.settings import parse_url

    settings = parse_url(url)
    connection = await asyncpg.connect(settings.dsn)
    schema = f'"{settings.schema}".'
    try:
        for first in range(1, runs + 1, PAGE):
            if first > 1:
                say(f"{first - 1:,} are there")
            for statement in _write("postgresql", schema, first, min(first + PAGE - 1, runs)):
                await connection.execute(statement)
        for table in ("runs", "run_values", "journal"):
            await connection.execute(f"vacuum analyze {schema}{table}")
        await connection.execute("checkpoint")
    finally:
        await connection.close()
