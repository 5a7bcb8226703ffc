"""Schemas of the tests in the server that `postgres_server` finds: made when wanted, dropped at the end.

Making a schema takes a tenth of a second and emptying one a hundredth, so tests that do not care share one in each
process, one after the other.
"""

from __future__ import annotations

import asyncio
import functools
import os
import secrets
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import asyncpg
import pytest

from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.settings import parse_url
from tests.postgres_server import find_server

__all__ = [
    "change_schema",
    "drop_schemas",
    "empty_schema",
    "make_movable",
    "move_clock",
    "new_url",
    "run_apart",
    "server_url",
    "shared_url",
]

T = TypeVar("T")

_made: list[tuple[str, str]] = []
"""Database and schema of each that was named here."""


@functools.cache
def server_url() -> str:
    """Of the database for tests. Skips the test where there is none; in CI that fails the whole (scripts/run_tests)."""
    with ThreadPoolExecutor(1) as pool:  # a loop may be running in this thread
        server = pool.submit(find_server).result()
    if server is None:
        pytest.skip("there is no PostgreSQL, and nothing to start one from")
    return server.url


def new_url(**options: str) -> str:
    """A store in a schema of its own, which is made when it is opened."""
    url, schema = server_url(), f"test_{os.getpid()}_{secrets.token_hex(4)}"
    _made.append((url, schema))
    query = "".join(f"&{name}={value}" for name, value in {"schema": schema, **options}.items())
    return f"{url}{query}" if "?" in url else f"{url}?{query[1:]}"


@functools.cache
def shared_url() -> str:
    """The one of this process that is emptied after each test. Its clock can be moved."""
    url = new_url()
    run_apart(make_movable(url))
    return url


async def make_movable(url: str) -> None:
    """Make the schema of a new store, with a clock that `moved` is added to."""
    store = PostgresStore(url)
    await store.open()
    await store.close()
    await change_schema(url, _MOVABLE_CLOCK)


_MOVABLE_CLOCK = """
create table "{schema}".moved (us bigint not null, stands boolean not null);
insert into "{schema}".moved values (0, false);
create or replace function "{schema}".now_us() returns bigint language sql volatile
as 'select us + case when stands then 0 else (extract(epoch from clock_timestamp()) * 1000000)::bigint end
    from "{schema}".moved';
"""

_EMPTY = """
do $$ declare name text; begin
  for name in select tablename from pg_tables where schemaname = '{schema}' loop
    if name not in ('migrations', 'moved') then execute format('delete from %I.%I', '{schema}', name); end if;
  end loop;
end $$;
update "{schema}".moved set us = 0, stands = false;
"""


async def empty_schema() -> None:
    """Delete all that is in the shared one but its tables, and let its clock go right again."""
    await change_schema(shared_url(), _EMPTY)


async def move_clock(us: int) -> None:
    """Let the clock of the shared one be this much later."""
    await change_schema(shared_url(), f'update "{{schema}}".moved set us = us + {us}')


async def change_schema(url: str, sql: str) -> None:
    """Run SQL in which `{schema}` stands for the store's."""
    settings = parse_url(url)
    connection = await asyncpg.connect(settings.dsn)
    try:
        await connection.execute(sql.replace("{schema}", settings.schema))
    finally:
        await connection.close()


def drop_schemas() -> None:
    """At the end of a process's tests."""
    if _made:
        run_apart(_drop_all())


async def _drop_all() -> None:
    while _made:
        url, schema = _made.pop()
        connection = await asyncpg.connect(url)
        await connection.execute(f'set client_min_messages = warning; drop schema if exists "{schema}" cascade')
        await connection.close()


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run it in a loop of its own, whatever this thread is doing."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
