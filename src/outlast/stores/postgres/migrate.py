"""Numbered migrations, each applied once, with checksums. Layer: stores (postgres).

What always holds: the schema is as its `migrations` table says, because both change in one transaction; two processes
that migrate at once wait for each other; and a schema that is up to date is only read, so a role that may not change it
can open the store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.errors import InvalidSetting, StoreReadOnly
from outlast.stores import sql_files
from outlast.stores.postgres.link import connect
from outlast.stores.postgres.settings import Role
from outlast.stores.postgres.statements import PACKAGE
from outlast.stores.sql_files import find_pending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.stores.postgres.link import Link
    from outlast.stores.postgres.settings import Settings
    from outlast.stores.sql_files import Migration

__all__ = ["OLDEST_VERSION", "is_up_to_date", "known_migrations", "migrate"]

OLDEST_VERSION = 130000
"""PostgreSQL 13."""

_TABLE = """
create table outlast.migrations (
  number integer primary key,
  name text not null,
  checksum text not null,
  applied_at bigint not null
);
"""

_LOOK = """
select
  current_setting('server_version_num')::int as version,
  current_setting('server_version') as told,
  current_setting('server_encoding') as encoding,
  pg_is_in_recovery() as is_standby,
  to_regclass($1 || '.migrations') is not null as is_ours,
  array(select c.relname::text from pg_catalog.pg_class c
    where c.relnamespace = to_regnamespace($1) and c.relkind in ('r', 'p', 'v', 'm') order by 1 limit 5) as tables
"""


def known_migrations() -> tuple[Migration, ...]:
    """All that this release knows, in order."""
    return sql_files.list_migrations(PACKAGE)


async def is_up_to_date(link: Link) -> bool:
    """See that it is a server and a schema that we can use, and whether nothing has to be done to it. Raises what
    `Store.open` promises, and `InvalidSetting` for a server or a schema that is not for us."""
    return not await _find_pending(link)


async def migrate(settings: Settings) -> None:
    """Bring the schema up to date. Raises the same."""
    link = await connect(settings, Role.MIGRATION)
    try:
        async with link.transaction():
            lock = f"outlast {settings.schema}"
            await link.fetch_text("select pg_advisory_xact_lock(hashtextextended($1, 0))", lock)
            for migration in await _find_pending(link):  # anew: another process may have been first
                # CRASH: the server undoes all of it. [test_a_migration_that_dies_half_way_leaves_no_trace]
                await _apply(link, migration)
    finally:
        await link.close()


async def _apply(link: Link, migration: Migration) -> None:
    if migration.number == 1:
        # `create schema if not exists` asks for a right that a role with a schema of its own need not have
        [(is_there,)] = await link.fetch_text("select to_regnamespace($1) is not null", f'"{link.settings.schema}"')
        schema = "" if is_there else f'create schema "{link.settings.schema}";'
        await link.run_script(schema + _TABLE)
    await link.run_script(migration.sql)
    await link.fetch_text(
        "insert into outlast.migrations (number, name, checksum, applied_at) values ($1, $2, $3, outlast.now_us())",
        migration.number,
        migration.name,
        migration.checksum,
    )


async def _find_pending(link: Link) -> Sequence[Migration]:
    """What is to be applied."""
    settings = link.settings
    [server] = await link.fetch_text(_LOOK, f'"{settings.schema}"')
    if server["version"] < OLDEST_VERSION:
        raise InvalidSetting("PostgreSQL server", server["told"], "version 13 or newer")
    if server["encoding"] != "UTF8":
        raise InvalidSetting("encoding of the database", server["encoding"], "UTF8")
    if not server["is_ours"] and server["tables"]:
        holds = ", ".join(server["tables"])
        expected = f"a schema that outlast made, or none; {settings.schema} has {holds}. Choose another with ?schema="
        raise InvalidSetting("store URL", settings.url, expected)
    applied: list[tuple[int, str, str]] = []
    if server["is_ours"]:
        rows = await link.fetch_text("select number, name, checksum from outlast.migrations order by number")
        applied = [(row["number"], row["name"], row["checksum"]) for row in rows]
    pending = find_pending(settings.url, applied, known_migrations())
    if server["is_standby"]:
        raise StoreReadOnly(settings.url, "the server is a standby")
    return pending
