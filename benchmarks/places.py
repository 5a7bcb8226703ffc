"""Stores to measure on: files of SQLite in a folder, or schemas of a PostgreSQL database.

What always holds: each is new, nobody else uses it, and it is gone afterwards, also when who measured was killed.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import tempfile
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.children import Plan

__all__ = ["describe_store", "drop_stores", "fetch_row", "find_postgres", "new_database", "new_store", "run_apart"]

VARIABLE = "OUTLAST_TEST_POSTGRES"
"""As for the tests: a URL of a database in which schemas may be made."""
USUAL = (
    "postgresql://postgres@/postgres?host=/var/run/postgresql",
    "postgresql://postgres@127.0.0.1:5432/postgres",
)
SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers")

T = TypeVar("T")


@contextmanager
def new_store(plan: Plan) -> Iterator[str]:
    """Its URL. The store is made when it is opened."""
    if not plan.postgres:
        with tempfile.TemporaryDirectory(dir=plan.folder) as folder:
            yield f"sqlite:///{Path(folder) / 'bench.db'}"
        return
    schema = f"{_prefix(plan)}{secrets.token_hex(4)}"
    try:
        yield f"{plan.postgres}{'&' if '?' in plan.postgres else '?'}schema={schema}"
    finally:
        drop_stores(plan, schema)


@contextmanager
def new_database(postgres: str) -> Iterator[str]:
    """The URL of an empty database of this server, for who wants one to itself."""
    name = f"outlast_bench_{os.getpid()}_{secrets.token_hex(4)}"
    run_apart(_execute(postgres, f'create database "{name}"'))
    try:
        scheme, _, rest = postgres.partition("://")
        location, question, query = rest.partition("?")
        yield f"{scheme}://{location.partition('/')[0]}/{name}{question}{query}"
    finally:
        run_apart(_execute(postgres, f'drop database if exists "{name}" with (force)'))


def drop_stores(plan: Plan, schema: str = "") -> None:
    """The schemas that were made for this plan and are still there, or this one of them."""
    if plan.postgres:
        run_apart(_drop(plan.postgres, schema or _prefix(plan)))


def describe_store(plan: Plan) -> str:
    """What it is, and how durable a commit is there."""
    if not plan.postgres:
        return "SQLite, WAL, synchronous=full (the default)"
    columns = ", ".join(f"current_setting('{name}')" for name in ("server_version", *SETTINGS))
    version, *values = run_apart(fetch_row(plan.postgres, f"select {columns}"))
    settings = ", ".join(f"{name}={value}" for name, value in zip(SETTINGS, values, strict=True))
    return f"PostgreSQL {version.split()[0]} on this machine, {settings}"


def find_postgres() -> str | None:
    """The database that is given, or one that answers here."""
    given = os.environ.get(VARIABLE)
    if given:
        return given
    return next((url for url in USUAL if run_apart(_answers(url))), None)


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run it in a loop of its own, whatever this thread is doing."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


async def fetch_row(url: str, sql: str) -> Any:
    """The first row that the database answers."""
    import asyncpg  # an extra of outlast: nothing on SQLite needs it

    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchrow(sql)
    finally:
        await connection.close()


async def _answers(url: str) -> bool:
    try:
        import asyncpg
    except ModuleNotFoundError:
        return False
    try:
        connection = await asyncpg.connect(url, timeout=2.0)
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError):
        return False
    await connection.close()
    return True


async def _execute(url: str, sql: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


async def _drop(url: str, beginning: str) -> None:
    import asyncpg

    connection = await asyncpg.connect(url)
    try:
        await connection.execute("set client_min_messages = warning")
        names = "select nspname from pg_namespace where starts_with(nspname::text, $1)"
        for (name,) in await connection.fetch(names, beginning):
            await connection.execute(f'drop schema "{name}" cascade')
    finally:
        await connection.close()


def _prefix(plan: Plan) -> str:
    """Of all schemas of a plan. Its folder is new, so nobody else's is named so."""
    return re.sub(r"[^a-z0-9]", "x", Path(plan.folder).name.lower())[-24:] + "_"
