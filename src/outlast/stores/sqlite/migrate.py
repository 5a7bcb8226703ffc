"""Numbered migrations, each applied once, with checksums. Layer: stores (sqlite).

What always holds: the schema is as the `migrations` table says, because both change in one transaction; two processes
that migrate at once wait for each other; and a migration that was applied is never edited.
"""

from __future__ import annotations

import hashlib
import sqlite3
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from outlast.errors import InvalidSetting, SchemaTooNew, StoreCorrupt

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.stores.sqlite.connection import Settings

__all__ = ["APPLICATION_ID", "check_file", "list_migrations", "migrate"]

APPLICATION_ID = int.from_bytes(b"OUTL", "big")
"""In the file's header; `file shop.db` shows it. A file with tables and without it is somebody else's."""

_TABLE = """create table migrations (
  number integer primary key,
  name text not null,
  checksum text not null,
  applied_at integer not null
)"""


@dataclass(frozen=True)
class Migration:
    """One step of the schema, from `migrations/<number>_<name>.sql`."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """Of the statements; comments may be mended."""
        return hashlib.sha256("\n".join(self.statements()).encode()).hexdigest()

    def statements(self) -> Iterator[str]:
        """One by one: `executescript` would commit first."""
        begun: list[str] = []
        for line in self.sql.splitlines():
            code = line.partition("--")[0].rstrip()
            if code:
                begun.append(code)
            if code.endswith(";") and sqlite3.complete_statement(statement := "\n".join(begun)):
                yield statement
                begun.clear()
        assert not begun, f"migration {self.number} does not end with a semicolon"


@cache
def list_migrations() -> tuple[Migration, ...]:
    """All that this release knows, in order, without a gap."""
    files = sorted(
        (
            path
            for path in resources.files("outlast.stores.sqlite").joinpath("migrations").iterdir()
            if path.name.endswith(".sql")
        ),
        key=lambda path: path.name,
    )
    found = []
    for file in files:
        number, _, name = file.name.removesuffix(".sql").partition("_")
        found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    assert [migration.number for migration in found] == list(range(1, len(found) + 1))
    return tuple(found)


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
    known = list_migrations()
    if not connection.execute("select 1 from sqlite_master where name = 'migrations'").fetchall():
        connection.execute(f"pragma application_id = {APPLICATION_ID}")
        connection.execute(_TABLE)
    rows = connection.execute("select number, name, checksum from migrations order by number").fetchall()
    if rows and rows[-1][0] > known[-1].number:
        raise SchemaTooNew(settings.url, rows[-1][0], known[-1].number)
    for (number, name, checksum), migration in zip(rows, known, strict=False):
        if (number, checksum) != (migration.number, migration.checksum):
            raise StoreCorrupt(
                settings.url,
                f"migration {number} ({name}) was applied in another wording than this release's: was it edited, "
                "or the file made by a development version?",
            )
    for migration in known[len(rows) :]:
        for statement in migration.statements():
            connection.execute(statement)
        connection.execute(
            "insert into migrations (number, name, checksum, applied_at) values (?, ?, ?, ?)",
            (migration.number, migration.name, migration.checksum, now_us),
        )
