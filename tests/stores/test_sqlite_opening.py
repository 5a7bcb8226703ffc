"""SQLite stores, opened: from what URLs, on what files, and what is said of those that cannot be."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.errors import (
    InvalidSetting,
    SchemaTooNew,
    StoreCorrupt,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
)
from outlast.stores.memory import MemoryStore
from outlast.stores.open import open_store
from outlast.stores.sqlite import SqliteStore
from outlast.stores.sqlite.connection import parse_url
from outlast.stores.sqlite.migrate import APPLICATION_ID, list_migrations
from outlast.testing.stores.writing import queue
from tests.stores.sqlite_peer import finish, spawn


async def open_and_close(path: Path) -> None:
    store = SqliteStore(f"sqlite:///{path}")
    await store.open()
    await store.close()


async def open_and_write(path: Path, runs: int) -> None:
    store = SqliteStore(f"sqlite:///{path}")
    try:
        await store.open()
        for n in range(runs):
            await queue(store, f"r{n}")
    finally:
        await store.close()


def change(path: Path, sql: str) -> None:
    database = sqlite3.connect(path)
    with database:
        database.execute(sql)
    database.close()


# --- URLs -------------------------------------------------------------------------------------------------------------


def test_a_url_names_its_store(tmp_path: Path):
    """The scheme chooses the backend; nothing is opened yet."""
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    assert isinstance(store, SqliteStore)
    assert not [*tmp_path.iterdir()]
    assert isinstance(open_store("memory://"), MemoryStore)
    assert open_store("memory://name").url == "memory://name"
    assert type(open_store("postgresql://localhost/shop")).__name__ == "PostgresStore"


@pytest.mark.parametrize("url", ["mysql://localhost/shop", "shop.db", "", "sqlite:shop.db", "://"])
def test_an_unknown_scheme_is_refused(url: str):
    """A URL that names no backend is an error that lists what there is."""
    with pytest.raises(InvalidSetting, match=r"sqlite:///path\.db, postgresql://.* or memory://"):
        open_store(url)


def test_paths_are_relative_or_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Three slashes are before a relative path, four make it absolute; it is that of the time it was named."""
    monkeypatch.chdir(tmp_path)
    assert parse_url("sqlite:///shop.db").path == tmp_path / "shop.db"
    assert parse_url("sqlite:///data/shop.db").path == tmp_path / "data" / "shop.db"
    assert parse_url("sqlite:////data/shop.db").path == Path("/data/shop.db")
    assert parse_url("sqlite:////data/my%20shop%3F.db").path == Path("/data/my shop?.db")


def test_options_are_in_the_query():
    """Durability, reading threads and patience can be set."""
    settings = parse_url("sqlite:///shop.db?synchronous=normal&readers=1&busy_timeout=2.5")
    assert (settings.synchronous, settings.readers, settings.busy_us) == ("normal", 1, 2_500_000)
    assert parse_url("sqlite:///shop.db").synchronous == "full"


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("sqlite:///:memory:", "memory://"),
        ("sqlite://shop.db", "three slashes"),
        ("sqlite:///", "relative/path"),
        ("sqlite:///a%00b", "relative/path"),
        ("sqlite:///shop.db?sync=off", "synchronous=full|normal"),
        ("sqlite:///shop.db?synchronous=off", "full or normal"),
        ("sqlite:///shop.db?readers=0", "1 or 2"),
        ("sqlite:///shop.db?busy_timeout=soon", "seconds"),
        ("sqlite:///shop.db?busy_timeout=-1", "seconds"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, hint: str):
    """What is wrong with a URL is said before anything is opened, with what is allowed."""
    with pytest.raises(InvalidSetting) as caught:
        open_store(url)
    assert hint in str(caught.value)


# --- files that are no store ------------------------------------------------------------------------------------------


async def test_a_store_is_durable_by_default(tmp_path: Path):
    """What a commit has answered is on the disk: the log is synced with each, unless the URL says otherwise."""
    for query, wanted in (("", 2), ("?synchronous=normal", 1)):
        store = SqliteStore(f"sqlite:///{tmp_path}/store.db{query}")
        await store.open()
        found: list[int] = []
        store._writer.run_aside(lambda it, to=found: to.extend(it.execute("pragma synchronous").fetchall()[0]))
        while not found:
            await asyncio.sleep(0.001)
        assert found == [wanted]
        await store.close()


def test_the_file_says_whose_it_is(tmp_path: Path):
    """The application id in the header is outlast's."""
    path = tmp_path / "store.db"
    asyncio.run(open_and_close(path))
    assert path.read_bytes()[68:72] == b"OUTL" == APPLICATION_ID.to_bytes(4, "big")


def test_another_programs_file_is_left_alone(tmp_path: Path):
    """An SQLite file with tables of somebody else's is refused, and not a byte of it is changed."""
    path = tmp_path / "contacts.db"
    change(path, "create table contacts (name)")
    before = path.read_bytes()
    with pytest.raises(InvalidSetting, match="tables contacts"):
        asyncio.run(open_and_close(path))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["contacts.db"]


async def test_a_file_with_another_application_id_is_left_alone(tmp_path: Path):
    """Also one without tables, when it says that it is somebody else's."""
    path = tmp_path / "other.db"
    change(path, "pragma application_id = 17")
    with pytest.raises(InvalidSetting, match="0x11"):
        await open_and_close(path)


def test_an_empty_file_becomes_a_store(tmp_path: Path):
    """As `touch` leaves it."""
    path = tmp_path / "store.db"
    path.touch()
    asyncio.run(open_and_close(path))
    assert path.stat().st_size > 0


async def test_a_text_file_is_no_store(tmp_path: Path):
    """What is no database is said to be none."""
    path = tmp_path / "notes.txt"
    path.write_text("groceries: " + "milk " * 1000)
    with pytest.raises(StoreCorrupt, match=r"notes.txt is not an SQLite database"):
        await open_and_close(path)


async def test_a_damaged_file_is_said_to_be_damaged(tmp_path: Path):
    """Pages that were overwritten are noticed at the first use, and named."""
    path = tmp_path / "store.db"
    await open_and_write(path, 50)
    content = bytearray(path.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match=r"store\.db"):
        await open_and_write(path, 1)


async def test_a_folder_is_no_store(tmp_path: Path):
    """A path that is a folder is named as one."""
    with pytest.raises(StoreUnavailable, match="is a folder"):
        await open_and_close(tmp_path)


async def test_a_missing_folder_is_named(tmp_path: Path):
    """A file in a folder that is not there: the folder is not made, but named."""
    with pytest.raises(StoreUnavailable, match=r"the folder .*/missing does not exist"):
        await open_and_close(tmp_path / "missing" / "store.db")


async def test_a_failed_opening_leaves_nothing_behind(tmp_path: Path):
    """After an error the same handle can be opened once the cause is gone."""
    store = SqliteStore(f"sqlite:///{tmp_path}/missing/store.db")
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            await store.open()
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.now()
    (tmp_path / "missing").mkdir()
    await store.open()
    await queue(store, "r")
    await store.close()


# --- schema -----------------------------------------------------------------------------------------------------------


async def test_a_newer_schema_is_refused(tmp_path: Path):
    """A store that a newer release migrated is not touched by an older one."""  # SPEC D3
    path = tmp_path / "store.db"
    await open_and_close(path)
    change(path, "insert into migrations values (99, 'later', 'x', 1)")
    with pytest.raises(SchemaTooNew) as caught:
        await open_and_close(path)
    assert (caught.value.found, caught.value.known) == (99, list_migrations()[-1].number)


async def test_an_edited_migration_is_noticed(tmp_path: Path):
    """A migration that was applied in another wording than this release's is not built upon."""  # SPEC D3
    path = tmp_path / "store.db"
    await open_and_close(path)
    change(path, "update migrations set checksum = 'other' where number = 1")
    with pytest.raises(StoreCorrupt, match=r"migration 1 \(initial\) was applied in another wording"):
        await open_and_close(path)


async def test_a_migration_that_dies_half_way_leaves_no_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The schema is migrated wholly or not at all; the next process does it."""  # SPEC D3
    path = tmp_path / "store.db"
    [first, *_] = list_migrations()
    broken = type(first)(1, "initial", first.sql + "\ncreate table workers (id);")
    with monkeypatch.context() as patch:
        patch.setattr("outlast.stores.sqlite.migrate.list_migrations", lambda: (broken,))
        with pytest.raises(StoreError):
            await open_and_close(path)
    database = sqlite3.connect(path)
    assert database.execute("select count(*) from sqlite_master").fetchall() == [(0,)]
    database.close()
    await open_and_close(path)


# --- permissions, as another user -------------------------------------------------------------------------------------

as_nobody = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can act as another user")


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that others may look into."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def open_as_nobody(path: Path) -> str:
    """What a user without rights gets told."""
    return finish(spawn("open_as_nobody", path))


@as_nobody
@pytest.mark.process
def test_a_read_only_file_is_said_to_be_read_only(shared: Path):
    """A file that this user may read and not write is `StoreReadOnly`, named."""
    asyncio.run(open_and_close(shared / "store.db"))
    (shared / "store.db").chmod(0o644)
    shared.chmod(0o777)
    said = open_as_nobody(shared / "store.db")
    assert said.startswith(StoreReadOnly.__name__)
    assert "may not write" in said
    assert "store.db" in said


@as_nobody
@pytest.mark.process
def test_a_read_only_folder_is_said_to_be_read_only(shared: Path):
    """A new file, or the log of one, cannot be made in a folder this user may not write to."""
    shared.chmod(0o755)
    said = open_as_nobody(shared / "new.db")
    assert said.startswith(StoreReadOnly.__name__)
    assert "may not create files in the folder" in said
    asyncio.run(open_and_close(shared / "store.db"))
    (shared / "store.db").chmod(0o666)
    assert open_as_nobody(shared / "store.db").startswith(StoreReadOnly.__name__)


@as_nobody
@pytest.mark.process
def test_a_secret_file_is_said_to_be_unreadable(shared: Path):
    """A file this user may not even read is `StoreUnavailable`, and says why."""
    asyncio.run(open_and_close(shared / "store.db"))
    (shared / "store.db").chmod(0o600)
    shared.chmod(0o777)
    said = open_as_nobody(shared / "store.db")
    assert said.startswith(StoreUnavailable.__name__)
    assert "may not read" in said
