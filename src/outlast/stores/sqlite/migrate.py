"""Numbered migrations, each applied once, with checksums. Layer: stores (sqlite).

What always holds: the schema is as the `migrations` table says, because both change in one transaction; two processes
that migrate at once wait for each other; and a migration that was applied is never edited.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from outlast.errors import InvalidSetting
from outlast.stores import sql_files
from outlast.stores.sql_files import find_pending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.stores.sql_files import Migration
    from outlast.stores.sqlite.connection import Settings

__all__ = ["APPLICATION_ID", "check_file", "list_migrations", "migrate", "split"]

APPLICATION_ID = int.from_bytes(b"OUTL", "big")
"""In the file's header; `file shop.db` shows it. A file with tables and without it is somebody else's."""

_TABLE = """create table migrations (
  number integer primary key,
  name text not null,
  checksum text not null,
  applied_at integer not null
)"""


def list_migrations() -> tuple[Migration, ...]:
    """All that this release knows, in order."""
    return sql_files.list_migrations("outlast.stores.sqlite")


def split(migration: Migration) -> Iterator[str]:
    """Its statements one by one: `executescript` would commit first."""
    begun: list[str] = []
    for line in migration.code:
        begun.append(line)
        if line.endswith(";") and sqlite3.complete_statement(statement := "\n".join(begun)):
            yield statement
            begun.clear()
    assert not begun, f"migration {migration.number} does not end with a semicolon"


def check_file(connection: sqlite3.Connection, settings: Settings) -> None:
    """Refuse a file that another program made, before anything is written into it. Raises `InvalidSetting`."""
    connection.execute("begin")  # so that both questions see the file at one moment
    try:
        ((application,),) = connection.execute("pragma application_id").fetchall()
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table' limit 5")]
    finally:
        connection.execute("rollback")
    if application not in {APPLICATION_ID, 0} or (application == 0 and tables):
        holds = f"it has the tables {', '.join(tables)}" if tables else f"its application id is {application:#x}"
        raise InvalidSetting("store URL", settings.url, f"a file that outlast made, or none; of this one {holds}")


def migrate(connection: sqlite3.Connection, settings: Settings, now_us: int) -> None:
    """Bring the schema up to date, in the write transaction that the caller began.

    Raises `SchemaTooNew`, and `StoreCorrupt` for a migration that is not the one this release knows."""
    if not connection.execute("select 1 from sqlite_master where name = 'migrations'").fetchall():
        connection.execute(f"pragma application_id = {APPLICATION_ID}")
        connection.execute(_TABLE)
    applied = connection.execute("select number, name, checksum from migrations order by number").fetchall()
    for migration in find_pending(settings.url, applied, list_migrations()):
        for statement in split(migration):
            connection.execute(statement)
        connection.execute(
            "insert into migrations (number, name, checksum, applied_at) values (?, ?, ?, ?)",
            (migration.number, migration.name, migration.checksum, now_us),
        )
