"""Checks of a PostgreSQL server and the schema in it, which change nothing. Layer: cli."""

from __future__ import annotations

from collections.abc import Iterator

from outlast.cli.doctor.findings import Finding, Level, note, ok, wrong
from outlast.cli.exits import problem_of
from outlast.errors import OutlastError
from outlast.stores.postgres.inspection import Inspection, inspect
from outlast.stores.postgres.migrate import OLDEST_VERSION, known_migrations
from outlast.stores.postgres.settings import Settings

__all__ = ["check_server", "judge_server"]

LONG_TRANSACTION_S = 60.0
"""Past it, what the store deletes and updates is kept for a transaction that might want to see it."""
MOST_CONNECTIONS = 0.9
DEAD_SHARE = 0.5
FEWEST_DEAD = 50_000
SLOW_ANSWER_MS = 20.0
"""A step waits for at least one answer."""


async def check_server(settings: Settings) -> tuple[list[Finding], bool]:
    """What is to be said of the server, and whether it makes sense to open the store."""
    try:
        inspection = await inspect(settings)
    except OutlastError as error:
        problem = problem_of(error)
        return [wrong("server", f"{problem.what}: {problem.where}", problem.todo)], False
    findings = [*judge_server(inspection, settings.schema)]
    # Opening a store migrates it, which is not for a doctor to do.
    is_up_to_date = inspection.migration == known_migrations()[-1].number
    return findings, is_up_to_date and all(each.level is not Level.WRONG for each in findings[:3])


def judge_server(server: Inspection, schema: str) -> Iterator[Finding]:
    """The first three say whether the store can be used at all."""
    yield _judge_version(server)
    yield _judge_role(server)
    yield _judge_schema(server, schema)
    yield from _judge_durability(server)
    yield _judge_connections(server)
    yield from _judge_vacuum(server)
    if server.answer_ms > SLOW_ANSWER_MS:
        yield note("answers", f"the quickest of five took {server.answer_ms:.0f} ms, and each step waits for some")
    else:
        yield ok("answers", f"within {server.answer_ms:.1f} ms")


def _judge_version(server: Inspection) -> Finding:
    if server.version_number < OLDEST_VERSION:
        return wrong(
            "server", f"it is PostgreSQL {server.version}", "Upgrade it: version 13 is the oldest that serves."
        )
    if server.encoding != "UTF8":
        todo = "Make a database with: create database … encoding 'UTF8' template template0."
        return wrong("server", f"the database's encoding is {server.encoding}", todo)
    return ok("server", f"PostgreSQL {server.version}")


def _judge_role(server: Inspection) -> Finding:
    if server.is_standby:
        return wrong("role", "the server is a standby, which cannot be written", "Name the primary in the URL.")
    return ok("role", "a primary")


def _judge_schema(server: Inspection, schema: str) -> Finding:
    known, found = known_migrations()[-1].number, server.migration
    if found > known:
        return wrong("schema", f"{schema} is {found}, this release knows up to {known}", "Upgrade outlast here.")
    if found == 0 and server.tables:
        names = ", ".join(table.name for table in server.tables[:5])
        text = f"{schema} has tables that outlast did not make: {names}"
        return wrong("schema", text, "Choose another schema with ?schema=NAME in the URL.")
    if found == 0 and not (server.may_make_schemas or server.may_use_schema):
        todo = f"Have its owner run: create schema {schema} authorization …, then: outlast migrate."
        return wrong("schema", f"there is no store in {schema}, and this role may make none", todo)
    if found == 0:
        return note("schema", f"there is no store in {schema}; whoever opens it next makes it", "Or: outlast migrate.")
    if found < known:
        text = f"{schema} is {found} of {known}; whoever opens it next migrates it"
        return note("schema", text, "Or: outlast migrate.")
    size = sum(table.size for table in server.tables)
    return ok("schema", f"{schema}: {found}, of this release; {size / 1_000_000:,.1f} MB")


def _judge_durability(server: Inspection) -> Iterator[Finding]:
    if not server.fsync:
        todo = "Set fsync = on in postgresql.conf, unless all of this may be lost."
        yield wrong("durability", "fsync is off: a power cut may destroy the database", todo)
    elif not server.full_page_writes:
        todo = "Set full_page_writes = on, unless the disk writes pages whole."
        yield note("durability", "full_page_writes is off: a power cut may tear pages", todo)
    else:
        yield ok("durability", "fsync is on, and sessions set synchronous_commit: what was acknowledged is kept")


def _judge_connections(server: Inspection) -> Finding:
    used = f"{server.connections} of {server.max_connections} are used"
    if server.connections > server.max_connections * MOST_CONNECTIONS:
        return wrong(
            "connections", used, "Raise max_connections, use a pooler (?pooler=transaction), or fewer workers."
        )
    return ok("connections", used)


def _judge_vacuum(server: Inspection) -> Iterator[Finding]:
    if not server.autovacuum:
        yield wrong("vacuum", "autovacuum is off: tables grow for ever", "Set autovacuum = on.")
    oldest = server.oldest
    if oldest is not None and oldest.seconds > LONG_TRANSACTION_S:
        who = f"process {oldest.pid} ({oldest.application or 'unnamed'}, {oldest.state or 'state unknown'})"
        text = f"{who} has had a transaction open for {oldest.seconds:.0f} s; nothing that was deleted since is freed"
        yield note("vacuum", text, f"If nobody needs it: select pg_terminate_backend({oldest.pid}).")
    for table in server.tables:
        if table.dead > max(FEWEST_DEAD, table.rows * DEAD_SHARE):
            text = f"{table.name} has {table.dead:,} dead rows beside {table.rows:,} live ones"
            yield note(
                "bloat", text, "Autovacuum does not keep up: look for long transactions, or give it more workers."
            )
