"""`outlast doctor` and `outlast migrate` where the store is a PostgreSQL server (SPEC D3)."""

from __future__ import annotations

from typing import Any

import asyncpg
import msgspec
import pytest

from outlast.cli.doctor.findings import Level
from outlast.cli.doctor.postgres_server import judge_server
from outlast.stores.postgres import migrate
from outlast.stores.postgres.inspection import Inspection, TableState, Transaction
from outlast.stores.postgres.migrate import known_migrations
from outlast.stores.postgres.settings import parse_url
from tests.cli.commands import Done, call
from tests.postgres_schemas import change_schema, new_url, run_apart, server_url

NEWEST = known_migrations()[-1].number


@pytest.fixture
def url() -> str:
    """Of a store that is not there yet."""
    return new_url()


def schema_of(url: str) -> str:
    return parse_url(url).schema


async def _fetch(sql: str) -> Any:
    connection = await asyncpg.connect(server_url())
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


def tables_of(url: str) -> int:
    """How many tables its schema has."""
    return int(run_apart(_fetch(f"select count(*) from pg_tables where schemaname = '{schema_of(url)}'")))


def examine(url: str) -> Done:
    return call("doctor", "--store", url, "--json")


def find(done: Done, check: str) -> dict[str, Any]:
    (found,) = [one for one in done.document["findings"] if one["check"] == check]
    return found


# --- migrate ----------------------------------------------------------------------------------------------------------


def test_migrate_makes_the_schema_once(url: str) -> None:
    """A schema that is not there is made, with all tables; one that is stays as it is. No password is shown."""
    secret = url.replace("postgres@", "postgres:secret@")
    done = call("migrate", "--json", "--store", secret)
    assert (done.document["created"], "secret" in done.out) == (True, False)
    assert tables_of(url) > 5
    told = call("migrate", "--store", url)
    assert told.out.endswith(f"{schema_of(url)} is up to date.\n")


def test_migrate_brings_an_older_schema_up_to_date(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor says that it is old, and leaves it so; migrate applies the migrations that are missing."""
    with monkeypatch.context() as earlier:
        earlier.setattr(migrate, "known_migrations", lambda: known_migrations()[:-1])
        call("migrate", "--store", url)
    for _ in range(2):
        assert find(examine(url), "schema")["text"].startswith(f"{schema_of(url)} is {NEWEST - 1} of {NEWEST}")
    assert call("migrate", "--json", "--store", url).document["created"] is False
    assert find(examine(url), "schema")["level"] == "ok"


def test_migrate_refuses_what_another_release_or_program_made(url: str) -> None:
    """A newer schema needs a newer outlast, and tables of somebody else's another schema; no traceback."""
    other = new_url()
    run_apart(change_schema(other, 'create schema "{schema}"; create table "{schema}".customers (id int)'))
    call("migrate", "--store", url)
    run_apart(change_schema(url, "insert into \"{schema}\".migrations values (99, 'later', 'x', 1)"))
    for refused, words in ((url, "99"), (other, "customers")):
        done = call("migrate", "--store", refused)
        assert done.code != 0
        assert words in done.err
        assert "Traceback" not in done.err
    assert tables_of(other) == 1


# --- doctor -----------------------------------------------------------------------------------------------------------


def test_a_store_that_is_not_there_is_told_and_not_made(url: str) -> None:
    """Doctor makes no schema, and says who will."""
    found = find(examine(url), "schema")
    assert (found["level"], found["todo"]) == ("note", "Or: outlast migrate.")
    assert tables_of(url) == 0


def test_a_sound_store_is_looked_at_wholly(url: str) -> None:
    """The server's own checks come first, then those of any store: its clock, its workers, its runs."""
    call("migrate", "--store", url)
    done = examine(url)
    checks = [one["check"] for one in done.document["findings"]]
    assert checks[:3] == ["server", "role", "schema"]
    assert {"durability", "connections", "answers", "opening", "clock", "runs"} <= {*checks}
    wrong = {one["check"] for one in done.document["findings"] if one["level"] == "wrong"}
    assert wrong <= {"durability", "vacuum", "connections"}, "a server for tests may be set so"
    assert f"schema: {schema_of(url)}: {NEWEST}, of this release" in call("doctor", "--store", url).out


def test_what_another_release_or_program_made_is_told(url: str) -> None:
    """A newer schema is not opened; neither are tables of somebody else's."""
    other = new_url()
    run_apart(change_schema(other, 'create schema "{schema}"; create table "{schema}".customers (id int)'))
    call("migrate", "--store", url)
    run_apart(change_schema(url, "insert into \"{schema}\".migrations values (99, 'later', 'x', 1)"))
    for refused, words in ((url, "99, this release knows up to"), (other, "customers")):
        done = examine(refused)
        assert done.code == 1
        assert words in find(done, "schema")["text"]
        assert "opening" not in [one["check"] for one in done.document["findings"]]


def test_a_server_that_is_not_there_is_told() -> None:
    """One finding, and what to do; no traceback."""
    done = call("doctor", "--json", "--store", "postgresql://postgres@127.0.0.1:1/postgres")
    assert done.code == 1
    assert find(done, "server")["todo"]


SOUND = Inspection(
    version="15.4", version_number=150004, encoding="UTF8", is_standby=False, fsync=True, full_page_writes=True,
    autovacuum=True, connections=5, max_connections=100, may_make_schemas=True, may_use_schema=True, migration=NEWEST,
    tables=(TableState("journal", 1000, 10, 1_000_000),), oldest=None, answer_ms=0.4,
)  # fmt: skip


def judge(**more: Any) -> list[tuple[Level, str, str]]:
    """What is to be said beside that all is well: level, check and what to do."""
    server = msgspec.structs.replace(SOUND, **more)
    found = judge_server(server, "outlast")
    return [(each.level, each.check, each.todo) for each in found if each.level is not Level.OK]


@pytest.mark.parametrize(
    ("more", "level", "check", "todo"),
    [
        ({"version_number": 120004, "version": "12.4"}, Level.WRONG, "server", "Upgrade it"),
        ({"encoding": "SQL_ASCII"}, Level.WRONG, "server", "encoding 'UTF8'"),
        ({"is_standby": True}, Level.WRONG, "role", "Name the primary"),
        ({"migration": NEWEST + 1}, Level.WRONG, "schema", "Upgrade outlast"),
        ({"migration": NEWEST - 1}, Level.NOTE, "schema", "outlast migrate"),
        ({"fsync": False}, Level.WRONG, "durability", "fsync = on"),
        ({"full_page_writes": False}, Level.NOTE, "durability", "full_page_writes = on"),
        ({"connections": 95}, Level.WRONG, "connections", "Raise max_connections"),
        ({"autovacuum": False}, Level.WRONG, "vacuum", "autovacuum = on"),
        ({"oldest": Transaction(42, "psql", "idle in transaction", 90.0)}, Level.NOTE, "vacuum", "backend(42)"),
        ({"tables": (TableState("inbox", 1000, 90_000, 1),)}, Level.NOTE, "bloat", "Autovacuum does not keep up"),
        ({"answer_ms": 30.0}, Level.NOTE, "answers", ""),
        (
            {"migration": 0, "tables": (), "may_make_schemas": False, "may_use_schema": False},
            Level.WRONG,
            "schema",
            "create schema outlast",
        ),
        ({"migration": 0, "tables": (), "may_make_schemas": False}, Level.NOTE, "schema", "outlast migrate"),
        ({"migration": 0}, Level.WRONG, "schema", "?schema="),
    ],
)
def test_each_thing_that_is_wrong_with_a_server_is_said(
    more: dict[str, Any], level: Level, check: str, todo: str
) -> None:
    """With what to do about it; nothing else is."""
    [(found_level, found_check, found_todo)] = judge(**more)
    assert (found_level, found_check) == (level, check)
    assert todo in found_todo


def test_nothing_is_wrong_with_a_sound_server() -> None:
    """A young transaction, a few dead rows and connections to spare are no news."""
    assert judge(oldest=Transaction(42, "psql", "active", 5.0)) == []
