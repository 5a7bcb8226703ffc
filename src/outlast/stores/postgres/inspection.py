"""What a server says of itself, and of the store in it, to whoever asks whether all is well. Layer: stores (postgres).

What always holds: nothing is changed, and a schema that is not there is not made.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.stores.postgres.link import connect
from outlast.stores.postgres.settings import Role

if TYPE_CHECKING:
    from outlast.stores.postgres.link import Link
    from outlast.stores.postgres.settings import Settings

__all__ = ["Inspection", "TableState", "Transaction", "ask", "has_schema", "inspect"]


class TableState(msgspec.Struct, frozen=True):
    """One of the store's tables."""

    name: str
    rows: int
    dead: int
    """Rows that were updated or deleted, and whose place is not free yet; an estimate, as `rows` is."""
    size: int
    """Bytes, with its indexes."""


class Transaction(msgspec.Struct, frozen=True):
    """The one in this database that has been open for longest."""

    pid: int
    application: str
    state: str
    seconds: float


class Inspection(msgspec.Struct, frozen=True):
    """Of a server and the store in it."""

    version: str
    version_number: int
    """130000 is PostgreSQL 13."""
    encoding: str
    is_standby: bool
    fsync: bool
    full_page_writes: bool
    autovacuum: bool
    connections: int
    max_connections: int
    may_make_schemas: bool
    may_use_schema: bool
    """There is a schema of this name, and this role may make tables in it."""
    migration: int
    """Number of the last one that was applied; 0: there is no store."""
    tables: tuple[TableState, ...]
    """Of the schema, whoever made them."""
    oldest: Transaction | None
    answer_ms: float
    """How long the shortest of a few questions took."""


_SERVER = """
select
  current_setting('server_version') as version, current_setting('server_version_num')::int as version_number,
  current_setting('server_encoding') as encoding, pg_is_in_recovery() as is_standby,
  current_setting('fsync')::boolean as fsync, current_setting('full_page_writes')::boolean as full_page_writes,
  current_setting('autovacuum')::boolean as autovacuum,
  (select count(*)::int from pg_stat_activity where backend_type = 'client backend') as connections,
  current_setting('max_connections')::int as max_connections,
  has_database_privilege(current_database(), 'create') as may_make_schemas,
  coalesce(has_schema_privilege(to_regnamespace($1)::oid, 'create'), false) as may_use_schema
"""

_TABLES = """
select relname::text, n_live_tup, n_dead_tup, pg_total_relation_size(relid)
from pg_stat_user_tables where schemaname = $1 order by relname
"""

_OLDEST = """
select pid, application_name, coalesce(state, ''),
  extract(epoch from clock_timestamp() - xact_start)::float8
from pg_stat_activity
where datname = current_database() and xact_start is not null and pid <> pg_backend_pid()
  and backend_type = 'client backend'
order by xact_start limit 1
"""


async def has_schema(settings: Settings) -> bool:
    """Whether there is a store. Raises what connecting does."""
    link = await connect(settings, Role.LISTS)
    try:
        return await _find_migration(link) > 0
    finally:
        await link.close()


async def ask(settings: Settings, sql: str) -> list[tuple[Any, ...]]:
    """Rows of one question about the store. Raises what connecting does."""
    link = await connect(settings, Role.LISTS)
    try:
        return [tuple(row) for row in await link.fetch_text(sql)]
    finally:
        await link.close()


async def inspect(settings: Settings) -> Inspection:
    """Ask. Raises what connecting does."""
    link = await connect(settings, Role.LISTS)
    try:
        [server] = await link.fetch_text(_SERVER, f'"{settings.schema}"')
        oldest = await link.fetch_text(_OLDEST)
        return Inspection(
            **dict(server),
            migration=await _find_migration(link),
            tables=tuple(TableState(*row) for row in await link.fetch_text(_TABLES, settings.schema)),
            oldest=Transaction(*oldest[0]) if oldest else None,
            answer_ms=min([await _time_answer(link) for _ in range(5)]),
        )
    finally:
        await link.close()


async def _find_migration(link: Link) -> int:
    table = f'"{link.settings.schema}".migrations'
    [(is_there,)] = await link.fetch_text("select to_regclass($1) is not null", table)
    if not is_there:
        return 0
    [(number,)] = await link.fetch_text("select coalesce(max(number), 0) from outlast.migrations")
    return int(number)


async def _time_answer(link: Link) -> float:
    began = time.perf_counter()
    await link.fetch_text("select 1")
    return (time.perf_counter() - began) * 1000
