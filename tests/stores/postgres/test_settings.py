"""Where the store is and how its sessions are set, from its URL."""

from __future__ import annotations

import pytest

from outlast.errors import InvalidSetting
from outlast.stores.open import open_store, without_password
from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.link import connect
from outlast.stores.postgres.settings import Role, parse_url
from outlast.stores.postgres.statements import Statement, in_schema
from outlast.testing.stores.writing import SECOND, register
from tests.postgres_schemas import server_url
from tests.stores.postgres.sessions import Session, as_role


def test_ours_and_the_drivers_options_are_told_apart():
    """Ours are taken; all others go to the driver as they are."""
    settings = parse_url("postgresql://ada:x@db:5433/shop?schema=Work&sslmode=require&connections=9&pooler=transaction")
    assert (settings.schema, settings.connections, settings.pooler) == ("Work", 9, True)
    assert settings.dsn == "postgresql://ada:x@db:5433/shop?sslmode=require"
    plain = parse_url("postgresql://db/shop")
    assert (plain.schema, plain.pooler, plain.dsn) == ("outlast", False, "postgresql://db/shop")


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "POSTGRESQL"])
def test_both_schemes_open_it(scheme: str):
    """`postgres://` is what many hosts hand out."""
    assert isinstance(open_store(f"{scheme}://db/shop"), PostgresStore)


@pytest.mark.parametrize(
    "option",
    [
        "schema=pg_catalog",
        "schema=a;b",
        "schema=",
        "schema=1a",
        "pooler=session",
        "connections=0",
        "connections=many",
        "x",
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(option: str):
    """Before anything is connected to."""
    with pytest.raises(InvalidSetting):
        parse_url(f"postgresql://db/shop?{option}")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://ada:se%40cret@db/shop?schema=a", "postgresql://ada@db/shop?schema=a"),
        ("postgresql://ada@db/shop", "postgresql://ada@db/shop"),
        ("postgresql://db/shop?user=ada&password=secret&x=1", "postgresql://db/shop?user=ada&x=1"),
        ("postgresql:///shop?password=secret", "postgresql:///shop"),
        ("postgresql://ada:a/b@db:5432,other:1/shop", "postgresql://ada@db:5432,other:1/shop"),
        ("sqlite:///a@b.db?synchronous=full", "sqlite:///a@b.db?synchronous=full"),
        ("memory://", "memory://"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str):
    """In errors, logs and what the command line says."""
    assert without_password(url) == shown
    if url.startswith("postgresql"):
        assert open_store(url).url == shown


# SPEC D3; PROTOCOL F10
async def test_sessions_set_what_they_rely_on(url: str):
    """Whatever the role's defaults are: commits that are on disk, read committed, and limits that follow the lease."""
    link = await connect(parse_url(url).with_lease(12 * SECOND), Role.WORK)
    wanted = {
        "synchronous_commit": "on",
        "transaction_isolation": "read committed",
        "statement_timeout": "4s",
        "lock_timeout": "4s",
        "idle_in_transaction_session_timeout": "2s",
        "jit": "off",
        "plan_cache_mode": "force_generic_plan",
    }
    found = {name: (await link.fetch_text(f"select current_setting('{name}')"))[0][0] for name in wanted}
    await link.close()
    assert found == wanted


# SPEC D3
async def test_a_roles_defaults_do_not_count(guest: str, admin: Session):
    """A role with durability off and another isolation works with ours all the same."""
    await admin.execute(f"alter role {guest} set synchronous_commit = off")
    await admin.execute(f"alter role {guest} set default_transaction_isolation = serializable")
    link = await connect(parse_url(as_role(server_url(), guest)), Role.WORK)
    async with link.transaction():
        for name, wanted in {"synchronous_commit": "on", "transaction_isolation": "read committed"}.items():
            [(found,)] = await link.fetch_text(f"select current_setting('{name}')")
            assert found == wanted
    await link.close()


# PROTOCOL F10
async def test_sessions_follow_the_shortest_lease(store: PostgresStore):
    """A worker with a shorter lease than was known makes the limits tighter, for requests that follow."""
    await store.now()
    await register(store, "w", 6 * SECOND)
    async with store._working.link() as link:
        assert (await link.fetch_text("select current_setting('statement_timeout')"))[0][0] == "2s"
    await register(store, "brief", SECOND // 10)
    async with store._working.link() as link:
        assert (await link.fetch_text("select current_setting('statement_timeout')"))[0][0] == "1s"


def test_parameters_are_named_once_and_numbered():
    """A name that is used twice is one parameter; casts are no names."""
    statement = Statement("s", "For a test.", "select :b::text, :a::int[] where x = :b::text")
    assert statement.text == "select $1::text, $2::int[] where x = $1::text"
    assert statement.arrange({"a": [1], "b": "x"}) == ("x", [1])


def test_the_schema_is_put_in_its_place():
    """Everywhere, and nowhere else."""
    assert in_schema("from outlast.runs, x_outlast.y", "s") == 'from "s".runs, x_outlast.y'
