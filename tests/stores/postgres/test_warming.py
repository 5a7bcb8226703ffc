"""A worker that finds nothing to do gets ready for what comes."""

from __future__ import annotations

import asyncio

from outlast.stores.postgres import PostgresStore, warming
from outlast.stores.store import Claiming, Look
from outlast.testing.stores.writing import queue
from tests.stores.postgres.sessions import Session


async def _look(store: PostgresStore, worker: str) -> Look:
    return await store.look(Claiming(worker, ("default",), "deploy", 1))


async def _warmed(store: PostgresStore) -> None:
    task = store._warming._task
    assert task is not None
    async with asyncio.timeout(10):
        await task


async def test_an_idle_worker_has_its_statements_prepared(store: PostgresStore, worker: str):
    """Those that a takeover asks, on connections that are there; once, and not behind every look."""
    assert not (await _look(store, worker)).due
    await _warmed(store)
    prepared: set[str] = set()
    for pool in (store._working, store._writing):
        for link in pool._idle:
            rows = await link.fetch_text("select statement from pg_prepared_statements")
            prepared.update(row[0] for row in rows)
    for table in ("workers", "runs", "journal", "inbox"):
        assert any(f'"{store.schema}".{table}' in statement for statement in prepared)
    assert len(store._working._idle) == warming.READERS
    first = store._warming._task
    await _look(store, worker)
    assert store._warming._task is first


async def test_getting_ready_changes_nothing(store: PostgresStore, worker: str, admin: Session):
    """Neither a run, nor a journal, nor the place of anybody's entry."""
    await queue(store, "later", wake_at=2**60)
    before = [await admin.fetch(f'select * from "{store.schema}".{table}') for table in ("runs", "journal", "inbox")]
    await _look(store, worker)
    await _warmed(store)
    after = [await admin.fetch(f'select * from "{store.schema}".{table}') for table in ("runs", "journal", "inbox")]
    assert before == after


async def test_a_worker_with_work_does_not_wait_for_that(store: PostgresStore, worker: str):
    """What is due comes first: it prepares the same."""
    await queue(store, "due")
    assert (await _look(store, worker)).due
    assert store._warming._task is None
