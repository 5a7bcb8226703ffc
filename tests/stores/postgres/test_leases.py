"""Leases are renewed by a thread of their own, whatever else goes on (PROTOCOL F38)."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from outlast.errors import StoreUnavailable
from outlast.stores.postgres import PostgresStore
from outlast.testing.stores.writing import HOUR, commit, entry, message, own, send_to
from tests.stores.postgres.sessions import Session, holding, wait_until_blocked


# SPEC L3
async def test_a_blocked_event_loop_does_not_delay_a_renewal(store: PostgresStore, worker: str):
    """The loop is not entered while the renewal is sent and answered."""
    with ThreadPoolExecutor(1) as thread:
        renewed = thread.submit(store.renew, worker, HOUR)
        assert renewed.result(timeout=10) is not None  # the loop stands still here


async def test_requests_that_wait_do_not_delay_a_renewal(store: PostgresStore, worker: str, holder: Session):
    """All other connections wait for locks; the lease has one of its own."""
    uids = [f"r{n}" for n in range(5)]
    await own(store, worker, *uids)
    async with holding(holder, "select 1 from runs for update"):
        waiting: list[asyncio.Task[object]] = [asyncio.create_task(store.send(uid, message())) for uid in uids[:4]]
        waiting.append(asyncio.create_task(commit(store, worker, entry("r4", 1, sends=(send_to("r4"),)))))
        await wait_until_blocked(holder, 5)
        assert await asyncio.to_thread(store.renew, worker, HOUR) is not None
    await asyncio.gather(*waiting)


async def test_a_renewal_outlives_its_connection(store: PostgresStore, worker: str, admin: Session):
    """The server ended the session between two renewals: the next one is sent on another."""
    assert await asyncio.to_thread(store.renew, worker, HOUR) is not None
    pool = store._heartbeats._pool
    assert pool is not None
    await admin.fetch("select pg_terminate_backend($1)", pool._idle[0].pid)
    assert await asyncio.to_thread(store.renew, worker, HOUR) is not None


async def test_a_closed_store_renews_nothing(store: PostgresStore, worker: str):
    """And leaves no thread behind."""
    await store.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "outlast-postgres-leases"]
    with pytest.raises(StoreUnavailable):
        await asyncio.to_thread(store.renew, worker, HOUR)
