"""Opening: the schema is made once, by whoever comes first, and refused when it is not ours."""

from __future__ import annotations

import asyncio
import sys

import pytest

from outlast.errors import InvalidSetting, SchemaTooNew, StoreCorrupt, StoreError, StoreReadOnly, StoreUnavailable
from outlast.stores.open import open_store
from outlast.stores.postgres import PostgresStore, migrate
from outlast.stores.postgres.migrate import known_migrations
from outlast.stores.postgres.settings import parse_url
from outlast.testing.stores.writing import HOUR, own, register
from tests.postgres_schemas import new_url, server_url
from tests.stores.postgres.sessions import Session, as_role, holding, wait_until_blocked


@pytest.fixture
def url() -> str:
    """Of a store that is not there yet."""
    return new_url()


async def open_and_close(url: str) -> None:
    store = PostgresStore(url)
    try:
        await store.open()
    finally:
        await store.close()


# SPEC D3
async def test_many_open_a_store_that_is_not_there(url: str):
    """Processes that start together make the schema once, and all of them work on it."""
    stores = [PostgresStore(url) for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    for n, store in enumerate(stores):
        await register(store, f"w{n}", HOUR)
        await own(store, f"w{n}", f"r{n}")
    assert len(await stores[0].list_workers()) == 6
    await asyncio.gather(*(store.close() for store in stores))


# SPEC D3
async def test_a_second_migrator_waits_for_the_first(url: str, admin: Session):
    """While somebody migrates, others wait, and then find it done."""
    schema = parse_url(url).schema
    lock = "select pg_advisory_xact_lock(hashtextextended($1, 0))"
    async with holding(admin, lock, f"outlast {schema}"):
        opening = asyncio.create_task(open_and_close(url))
        await wait_until_blocked(admin)
        assert not await admin.fetchval("select to_regnamespace($1) is not null", schema)
    await opening
    count = await admin.fetchval(f'select count(*) from "{schema}".migrations')
    assert count == len(known_migrations())


async def test_a_newer_schema_is_refused(url: str, admin: Session):
    """A store that a newer release migrated is not touched by an older one."""  # SPEC D3
    await open_and_close(url)
    await admin.execute(f'insert into "{parse_url(url).schema}".migrations values (99, $1, $1, 1)', "later")
    with pytest.raises(SchemaTooNew) as caught:
        await open_and_close(url)
    assert (caught.value.found, caught.value.known) == (99, known_migrations()[-1].number)


async def test_an_edited_migration_is_noticed(url: str, admin: Session):
    """A migration that was applied in another wording than this release's is not built upon."""  # SPEC D3
    await open_and_close(url)
    await admin.execute(f"update \"{parse_url(url).schema}\".migrations set checksum = 'other'")
    with pytest.raises(StoreCorrupt, match=r"migration 1 \(initial\) was applied in another wording"):
        await open_and_close(url)


async def test_a_migration_that_dies_half_way_leaves_no_trace(url: str, admin: Session, monkeypatch):
    """The schema is migrated wholly or not at all; the next process does it."""  # SPEC D3
    [first, *_] = known_migrations()
    broken = type(first)(1, "initial", first.sql + "\ncreate table outlast.workers (id text);")
    with monkeypatch.context() as patch:
        patch.setattr(migrate, "known_migrations", lambda: (broken,))
        with pytest.raises(StoreError):
            await open_and_close(url)
    assert not await admin.fetchval("select to_regnamespace($1) is not null", parse_url(url).schema)
    await open_and_close(url)


async def test_a_schema_of_another_program_is_refused(url: str, admin: Session):
    """A schema with tables that outlast did not make is not touched."""
    schema = parse_url(url).schema
    await admin.execute(f'create schema "{schema}"; create table "{schema}".customers (id int)')
    with pytest.raises(InvalidSetting, match="customers"):
        await open_and_close(url)


async def test_a_role_that_may_change_nothing_opens_what_is_there(url: str, guest: str, admin: Session):
    """Only the first process needs the right to make a schema; a role that may not write says so when it does."""
    with pytest.raises(StoreReadOnly):
        await open_and_close(as_role(url, guest))
    await open_and_close(url)
    schema = parse_url(url).schema
    await admin.execute(f'grant usage on schema "{schema}" to {guest}; grant select on all tables in schema "{schema}"'
                        f' to {guest}')  # fmt: skip
    reader = PostgresStore(as_role(url, guest))
    await reader.open()
    assert await reader.list_workers() == []
    with pytest.raises(StoreReadOnly):
        await register(reader, "w", HOUR)
    await reader.close()


async def test_a_role_with_a_schema_of_its_own_makes_the_store_in_it(url: str, guest: str, admin: Session):
    """A role that may make no schemas needs one that was made for it, and nothing else."""
    await admin.execute(f'create schema "{guest}" authorization {guest}')
    store = PostgresStore(as_role(url.replace(parse_url(url).schema, guest), guest))
    await store.open()
    assert await store.list_workers() == []
    await store.close()


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("postgresql://postgres@127.0.0.1:1/postgres", StoreUnavailable),
        ("postgresql://postgres@host.invalid/postgres", StoreUnavailable),
        ("{server}/no_such_database", InvalidSetting),
        ("{server}/postgres?no_such_setting=1", InvalidSetting),
        ("{server}/postgres?sslmode=wrong", InvalidSetting),
    ],
)
async def test_a_server_that_cannot_be_used_is_told(where: str, error: type[Exception]):
    """Who is not there may come back, and is unavailable; what the server will never accept is a setting."""
    location, _, query = server_url().partition("?")
    server, _, _ = location.rpartition("/")
    place, _, more = where.replace("{server}", server).partition("?")
    url = f"{place}?{'&'.join(filter(None, [query if '{server}' in where else '', more]))}"
    with pytest.raises(error):
        await open_and_close(url)


async def test_a_store_that_could_not_be_opened_can_be_opened_later(url: str, monkeypatch):
    """Nothing is left over from a failure."""
    store = PostgresStore(url)

    async def fail(*_: object) -> None:
        raise StoreUnavailable(url, "for the test")

    with monkeypatch.context() as patch:
        patch.setattr("outlast.stores.postgres.store.migrate", fail)
        with pytest.raises(StoreUnavailable):
            await store.open()
    await store.open()
    assert await store.list_workers() == []
    await store.close()


def test_a_missing_driver_is_told(monkeypatch: pytest.MonkeyPatch):
    """Without asyncpg the error names the extra to install."""
    for name in [name for name in sys.modules if name.startswith("outlast.stores.postgres")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    with pytest.raises(ImportError, match=r"outlast\[postgres\]"):
        open_store("postgresql://localhost/x")
