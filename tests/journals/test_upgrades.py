"""Stores that earlier releases left: this one opens each, finds it sound, and goes on with what is in it."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outlast import User
from outlast.engine.verifying import Verified, verify_store
from outlast.stores.open import open_store
from outlast.stores.store import Store
from tests import postgres_schemas
from tests.journals import bodies
from tests.journals.kept import HERE, RELEASES, SCHEMA


def _load_file(dump: Path, folder: Path) -> str:
    path = folder / "store.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(dump.read_text(encoding="utf-8"))
    return f"sqlite:///{path}"


def _load_server(dump: Path) -> str:
    url = postgres_schemas.new_url()
    sql = dump.read_text(encoding="utf-8").replace(SCHEMA, "{schema}")
    postgres_schemas.run_apart(postgres_schemas.change_schema(url, sql))
    return url


@pytest.fixture(params=[(release, kind) for release in RELEASES for kind in ("sqlite", "postgres")], ids="-".join)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a store as that release left it."""
    release, kind = request.param
    dump = HERE / release / f"{kind}.sql"
    return _load_file(dump, tmp_path) if kind == "sqlite" else _load_server(dump)


async def _verify(store: Store) -> int:
    verified = Verified()
    problems = [problem async for problem in verify_store(store, verified)]
    assert problems == []
    return verified.runs


@pytest.mark.slow
async def test_a_store_of_an_earlier_release_is_served(url: str) -> None:
    """Its schema is brought up to date, nothing in it is broken, and its runs end as they would have. If the schema
    was changed before its release, `python tests/journals/kept.py` writes the store anew."""
    store = open_store(url)
    await store.open()
    before = await _verify(store)
    assert before >= 8
    twin: Any = bodies.app.on_store(open_store(url))
    async with twin.worker(queues=("default", "gpu")):
        waiting, unseen, tasked = [await twin.get_run(id) for id in ("waiting", "unseen", "tasked")]
        await waiting.signal("paid", 5)
        while not [wait for wait in (await waiting.status()).waits if wait.kind == "approval"]:
            await asyncio.sleep(0.01)
        await waiting.approve("ship it?", True, by=User("bob"))
        assert (await unseen.result(timeout=30))["grouped"] == [6]
        assert await tasked.result(timeout=30) == "picture of a house"
        assert (await (await twin.get_run("ended")).result(timeout=30))["grouped"] == [3, 4]
        assert str((await (await twin.get_run("compensated")).status()).status) == "compensated"
        await (await twin.get_run("sleeping")).cancel("upgraded")
    assert await _verify(store) >= before
    await store.close()
