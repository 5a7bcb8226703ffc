"""The thread that writes: what it does first, in company, and after errors; and what it leaves behind in the log."""

from __future__ import annotations

import asyncio
import itertools
import logging
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlast.errors import Fenced, InboxFull, StoreFull, StoreRefused, StoreUnavailable
from outlast.stores.sqlite import SqliteStore
from outlast.stores.sqlite.connection import LOG_LIMIT_BYTES
from outlast.stores.store import Progress, Verdict
from outlast.testing.stores.writing import (
    HOUR,
    commit,
    entry,
    inbox_of,
    land,
    mark_of,
    marks_of,
    message,
    own,
    queue,
    register,
    row_of,
    start,
)
from tests.stores.sqlite_peer import finish, spawn

LANDED, STALE = Verdict.LANDED, Verdict.STALE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
async def store(path: Path):
    store = SqliteStore(f"sqlite:///{path}")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def worker(store: SqliteStore) -> str:
    return await register(store, "worker-1", HOUR)


async def set_pragma(store: SqliteStore, pragma: str) -> None:
    """On the connection that writes."""
    done = asyncio.Event()
    loop = asyncio.get_running_loop()

    def look(connection: sqlite3.Connection) -> None:
        connection.execute(f"pragma {pragma}").fetchall()
        loop.call_soon_threadsafe(done.set)

    store._writer.run_aside(look)
    await done.wait()


@contextmanager
def busy_writer(store: SqliteStore) -> Iterator[None]:
    """Keeps the writer busy meanwhile, so that what is submitted comes in company."""
    begun, over = threading.Event(), threading.Event()

    def hold(_: sqlite3.Connection) -> None:
        begun.set()
        over.wait()

    store._writer.run_aside(hold)
    assert begun.wait(30)  # else what comes now might be written before
    try:
        yield
    finally:
        over.set()


async def wait_for_renewal(store: SqliteStore) -> None:
    while not store._writer._urgent:
        await asyncio.sleep(0.001)


# --- company ----------------------------------------------------------------------------------------------------------


async def test_jobs_that_wait_share_a_transaction(store: SqliteStore, worker: str):
    """What waits while a commit is under way is written as one, and each gets its own answer."""
    await own(store, worker, *(f"r{n}" for n in range(20)))
    with busy_writer(store):
        before = store._writer.commits
        sends = [asyncio.ensure_future(store.send(f"r{n}", message())) for n in range(20)]
        moves = asyncio.ensure_future(commit(store, worker, *(entry(f"r{n}", 1) for n in range(20))))
        await asyncio.sleep(0)
    assert [sent.no for sent in await asyncio.gather(*sends)] == [1] * 20
    assert await moves == [LANDED] * 20
    assert store._writer.commits == before + 1


async def test_a_job_that_fails_in_company_hurts_none_but_itself(store: SqliteStore, worker: str):
    """Of calls that are written together each lands or fails as it would alone."""
    await own(store, worker, "a", "b", "c")
    await land(store, worker, *(start(f"child-{n}", claimed=True) for n in range(3)))
    with busy_writer(store):
        calls = [
            asyncio.ensure_future(call)
            for call in (
                commit(store, worker, entry("a", 1)),
                store.commit("nobody", [entry("b", 1)]),
                commit(store, worker, entry("b", 1, prev=5)),
                store.send("c", message()),
                commit(store, worker, start("d", id="id of a")),
                commit(store, worker, Progress("c", 1, mark=1 << 70, prev=mark_of(0), events=b"")),
                commit(store, worker, entry("child-1", 1)),
            )
        ]
        await asyncio.sleep(0)
    landed, fenced, stale, sent, taken, refused, child = await asyncio.gather(*calls, return_exceptions=True)
    assert landed == [LANDED]
    assert isinstance(fenced, Fenced)
    assert stale == [STALE]
    assert not isinstance(sent, BaseException)
    assert taken == [Verdict.TAKEN]
    assert isinstance(refused, StoreRefused)
    assert refused.run == "c"
    assert child == [LANDED]
    assert [len(await store.read_journal(uid)) for uid in ("a", "b", "c", "d", "child-1")] == [2, 1, 1, 0, 2]


async def test_a_full_inbox_in_company_is_the_senders_alone(store: SqliteStore, worker: str, monkeypatch):
    """A refused send does not take the sends beside it down."""
    monkeypatch.setattr("outlast.stores.sqlite.mail.INBOX_LIMIT", 2)
    await own(store, worker, "full", "free")
    for id in ("m1", "m2"):
        await store.send("full", message(id))
    with busy_writer(store):
        sends = [asyncio.ensure_future(store.send(to, message("m3"))) for to in ("full", "free")]
        await asyncio.sleep(0)
    refused, sent = await asyncio.gather(*sends, return_exceptions=True)
    assert isinstance(refused, InboxFull)
    assert not isinstance(sent, BaseException)
    assert sent.verdict == "sent"


async def test_a_renewal_goes_before_all_that_waits(path: Path):
    """A lease is renewed in the next transaction, however much waits (L2, F38)."""
    turns = itertools.count()
    store = SqliteStore(f"sqlite:///{path}", lambda: next(turns))  # so that each transaction has another time
    await store.open()
    worker = await register(store, "w", HOUR)
    await own(store, worker, "r")
    with busy_writer(store):
        waiting = [asyncio.ensure_future(store.send("r", message(f"m{n}"))) for n in range(2500)]
        await asyncio.sleep(0)
        renewal = asyncio.get_running_loop().run_in_executor(None, store.renew, worker, HOUR)
        await wait_for_renewal(store)
    renewed = await renewal
    await asyncio.gather(*waiting)
    written_at = sorted({sent.sent_at for sent in await inbox_of(store, "r")})
    assert len(written_at) > 1
    assert renewed is not None
    assert renewed.now == written_at[0]
    await store.close()


async def test_a_renewal_goes_before_a_plain_commit(store: SqliteStore, worker: str):
    """Also when all that waits is one statement, which has no transaction around it."""
    await own(store, worker, "r")
    with busy_writer(store):
        move = asyncio.ensure_future(commit(store, worker, entry("r", 1)))
        await asyncio.sleep(0)
        renewal = asyncio.get_running_loop().run_in_executor(None, store.renew, worker, HOUR)
        await wait_for_renewal(store)
    assert await renewal is not None
    assert await move == [LANDED]


async def test_a_renewal_of_a_closed_store_does_not_hang(store: SqliteStore, worker: str):
    """The heartbeat's thread is told, not left waiting."""
    await store.close()
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(asyncio.to_thread(store.renew, worker, HOUR), 20)


async def test_closing_waits_for_what_was_sent(path: Path):
    """What was submitted before the close is done, and answered."""
    store = SqliteStore(f"sqlite:///{path}")
    await store.open()
    calls = [asyncio.ensure_future(store.commit(None, [start(f"r{n}")])) for n in range(50)]
    await asyncio.sleep(0)
    await store.close()
    assert all(call.done() for call in calls)
    await store.open()
    assert await store.find_uid("r49") is not None
    await store.close()


async def test_a_caller_that_gives_up_breaks_nothing(store: SqliteStore, worker: str):
    """A cancelled commit may land all the same; the writer goes on."""
    await own(store, worker, "r")
    with busy_writer(store):
        given_up = asyncio.ensure_future(commit(store, worker, entry("r", 1)))
        await asyncio.sleep(0)
        given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    await land(store, worker, entry("r", 1))
    assert len(await store.read_journal("r")) == 2


# --- a disk without room ----------------------------------------------------------------------------------------------


async def test_a_full_disk_is_said_and_survived(store: SqliteStore, worker: str, path: Path):
    """With no room left a commit says so, nothing of it has happened, and with room it lands as it was sent."""
    await own(store, worker, "r")
    await set_pragma(store, "max_page_count = 1")  # as many as there are
    landed = 0

    async def fill() -> None:
        nonlocal landed
        while landed < 200:
            await land(store, worker, entry("r", landed + 1, events=b"x" * 5000))
            landed += 1

    with pytest.raises(StoreFull, match=r"store\.db cannot grow"):
        await fill()
    assert len(await store.read_journal("r")) == landed + 1
    assert await asyncio.to_thread(store.renew, worker, HOUR) is not None  # who needs no room goes on
    await set_pragma(store, "max_page_count = 1000000")
    await land(store, worker, entry("r", landed + 1, events=b"x" * 5000))
    assert len(await marks_of(store, "r")) == landed + 2
    assert sqlite_check(path) == [("ok",)]


async def test_a_full_disk_spares_what_fits(store: SqliteStore, worker: str):
    """Of commits in one group that one fails which does not fit."""
    await own(store, worker, "r", "s")
    await set_pragma(store, "max_page_count = 1")
    with busy_writer(store):
        big = asyncio.ensure_future(commit(store, worker, entry("r", 1, events=b"x" * 500_000)))
        small = asyncio.ensure_future(store.list_workers()), asyncio.ensure_future(register(store, "w", HOUR))
        await asyncio.sleep(0)
    answers = await asyncio.gather(big, *small, return_exceptions=True)
    assert isinstance(answers[0], StoreFull)
    assert answers[2] == "w"


@pytest.mark.process
async def test_a_commit_whose_end_is_not_known_can_be_sent_again(path: Path):
    """When the disk refuses a write inside COMMIT nothing stays open, and the same batch lands when sent again."""
    said = await asyncio.to_thread(finish, spawn("limit_file_size", path))
    assert said.splitlines() == ["StoreUnavailable", "landed", "entries 2"]
    assert sqlite_check(path) == [("ok",)]


def sqlite_check(path: Path) -> list[tuple[str]]:
    database = sqlite3.connect(path)
    found = database.execute("pragma integrity_check").fetchall()
    database.close()
    return found


async def test_a_disk_that_is_gone_for_a_while(store: SqliteStore, worker: str, path: Path):
    """While the file cannot be reached everybody is told, the heartbeat too, and afterwards all goes on."""
    await own(store, worker, "r")
    away = path.parent.with_name("away")
    is_broken = threading.Event()

    def break_off(connection: sqlite3.Connection) -> None:
        is_broken.set()
        connection.execute("not SQL")  # after an error it connects anew

    store._writer.run_aside(break_off)
    assert await asyncio.to_thread(is_broken.wait, 20)
    path.parent.rename(away)
    again = entry("r", 1)
    with pytest.raises(StoreUnavailable, match="does not exist"):
        await store.commit(worker, [again])
    with pytest.raises(StoreUnavailable, match="does not exist"):
        await asyncio.wait_for(asyncio.to_thread(store.renew, worker, HOUR), 20)
    away.rename(path.parent)
    assert await asyncio.to_thread(store.renew, worker, HOUR) is not None
    await land(store, worker, again)


# --- the log ----------------------------------------------------------------------------------------------------------


def file_size(path: Path) -> int:
    return path.stat().st_size


def log_size(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size


async def test_the_log_is_emptied_as_it_fills(store: SqliteStore, worker: str, path: Path):
    """However much is written, the write-ahead log stays at some megabytes."""
    await own(store, worker, "r")
    for seq in range(1, 100):
        await land(store, worker, entry("r", seq, events=bytes(500_000)))
    assert log_size(path) < 20_000_000 < file_size(path)


async def test_a_log_that_a_reader_made_long_is_cut(path: Path, caplog: pytest.LogCaptureFixture, monkeypatch):
    """Somebody who reads for long keeps the log from being emptied; when they are gone it is cut."""
    monkeypatch.setattr("outlast.stores.sqlite.checkpoint.LOG_LIMIT_BYTES", 20_000_000)
    monkeypatch.setattr("outlast.stores.sqlite.checkpoint._PAUSE_S", 0.0)
    assert LOG_LIMIT_BYTES == 64 * 1024 * 1024
    store = SqliteStore(f"sqlite:///{path}?synchronous=normal")
    await store.open()
    worker = await register(store, "w", HOUR)
    await own(store, worker, "r")
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("begin")
    reader.execute("select count(*) from journal").fetchall()
    with caplog.at_level(logging.WARNING, "outlast"):
        for seq in range(1, 60):
            await land(store, worker, entry("r", seq, events=bytes(500_000)))
    assert log_size(path) > 20_000_000
    assert "somebody has been reading" in caplog.text
    reader.execute("rollback")
    reader.close()
    for seq in range(60, 80):
        await land(store, worker, entry("r", seq, events=bytes(500_000)))
    assert log_size(path) < 20_000_000
    assert (await row_of(store, "r")).owner == worker
    await store.close()


async def test_no_read_outlasts_its_call(store: SqliteStore, worker: str):
    """Between calls no connection has a snapshot open: the log can be emptied wholly."""
    await queue(store, *(f"r{n}" for n in range(10)))
    await store.read_journal("r0")
    await store.list_workers()
    await store.find_run("id of r1")
    found: list[tuple[int, int, int]] = []
    store._writer.run_aside(lambda it: found.extend(it.execute("pragma wal_checkpoint(truncate)").fetchall()))
    while not found:
        await asyncio.sleep(0.001)
    assert found == [(0, 0, 0)]
