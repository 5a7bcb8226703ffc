"""Connections that break in the middle of something: what happened is known in the end, and happened once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from outlast.errors import StoreUnavailable
from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.link import connect
from outlast.stores.postgres.settings import Role, parse_url
from outlast.stores.store import Progress, Verdict
from outlast.testing.stores.writing import (
    HOUR,
    claim,
    claiming,
    commit,
    end,
    entry,
    inbox_of,
    land,
    marks_of,
    message,
    own,
    queue,
    register,
    row_of,
    send_to,
    start,
)
from tests.stores.postgres.proxy import Proxy, proxy_to
from tests.stores.postgres.sessions import wait_until_blocked

BATCHES: dict[str, list[Progress]] = {
    "plain": [entry("r", 1), entry("s", 1)],
    "effects": [entry("r", 1, sends=(send_to("s"),)), entry("s", 1)],
    "start": [start("new", claimed=True)],
    "end": [end("r"), entry("s", 1, sends=(send_to("s"),))],
    "end alone": [end("r"), entry("s", 1)],
}

every_batch = pytest.mark.parametrize("batch", BATCHES.values(), ids=BATCHES.keys())


@pytest.fixture
async def proxy(url: str, make_store) -> AsyncIterator[tuple[Proxy, PostgresStore]]:
    """A store whose way to the server can fail, and what makes it fail."""
    async with proxy_to(url) as (proxy, through):
        far = await make_store(through)
        yield proxy, far
        await far.close()


async def commit_through(far: PostgresStore, worker: str, batch: list[Progress]) -> list[Verdict]:
    return [outcome.verdict for outcome in await far.commit(worker, batch)]


def needle_of(batch: list[Progress]) -> bytes:
    """What is in the request that makes the batch last: COMMIT, or the statement alone, with its values."""
    is_one_statement = not any(each.effects is not None and each.effects.sends for each in batch)
    return batch[0].uid.encode() if is_one_statement else b"commit\0"


async def warm_up(far: PostgresStore, worker: str, batch: list[Progress]) -> None:
    """Have every statement prepared, so that a request is one message."""
    shadow = {"r": "r0", "s": "s0", "new": "new0"}
    await own(far, worker, "r0", "s0")
    for each in batch:
        if each.uid == "new":
            await land(far, worker, start(shadow[each.uid], claimed=True))
    await land(far, worker, entry("r0", 1), entry("s0", 1))
    await land(far, worker, end("r0", 2), entry("s0", 2))


# SPEC D3; PROTOCOL F7
@every_batch
async def test_a_commit_whose_answer_is_lost_is_recognised(store: PostgresStore, worker: str, proxy, batch):
    """The server commits, the answer never comes: sent again, the same batch is known as landed, and happened once."""
    broken, far = proxy
    await own(store, worker, "r", "s")
    await warm_up(far, worker, batch)
    broken.cut_after = needle_of(batch)
    with pytest.raises(StoreUnavailable):
        await commit_through(far, worker, batch)
    assert broken.cuts == 1
    before = {uid: await marks_of(store, uid) for uid in ("r", "s", "new")}
    assert all(before[each.uid][-1] == each.mark for each in batch), "it did not land; the test did not cut in time"
    assert await commit_through(far, worker, batch) == [Verdict.LANDED] * len(batch)
    assert {uid: await marks_of(store, uid) for uid in ("r", "s", "new")} == before
    sent = sum(len(each.effects.sends) for each in batch if each.effects is not None)
    assert len(await inbox_of(store, "s")) == sent


# SPEC D3
@every_batch
async def test_a_commit_that_does_not_arrive_has_not_happened(store: PostgresStore, worker: str, proxy, batch):
    """Cut before the server has it, nothing of the batch is there; sent again, all of it is."""
    broken, far = proxy
    await own(store, worker, "r", "s")
    await warm_up(far, worker, batch)
    broken.cut_before = needle_of(batch)
    with pytest.raises(StoreUnavailable):
        await commit_through(far, worker, batch)
    assert broken.cuts == 1
    assert [len(await marks_of(store, uid)) for uid in ("r", "s", "new")] == [1, 1, 0]
    assert await inbox_of(store, "s") == []
    assert await commit_through(far, worker, batch) == [Verdict.LANDED] * len(batch)


# PROTOCOL F4
async def test_a_claim_whose_answer_is_lost_can_be_asked_for(store: PostgresStore, worker: str, proxy):
    """The worker owns runs it does not know of; it asks which, and adopts them."""
    broken, far = proxy
    assert await claim(far, worker) == []
    await queue(store, "r")
    broken.cut_after = worker.encode()
    with pytest.raises(StoreUnavailable):
        await far.claim(claiming(worker))
    [owned] = await far.list_owned(worker)
    assert owned.uid == "r"
    adopted = await far.adopt(worker, "r", owned.epoch)
    assert adopted is not None
    assert adopted.epoch == owned.epoch + 1


# PROTOCOL F18
async def test_a_message_whose_answer_is_lost_is_sent_once(store: PostgresStore, worker: str, proxy):
    """The store itself sends it again, and finds it there."""
    broken, far = proxy
    await own(store, worker, "r")
    await far.send("r", message("warm-up"))
    broken.cut_after = b"m1"
    assert (await far.send("r", message("m1"))).verdict == "duplicate"
    assert [found.id for found in await inbox_of(store, "r")] == ["warm-up", "m1"]


# PROTOCOL F1
async def test_a_reaper_dies_half_way(store: PostgresStore, proxy, connect):
    """What it did is undone; the next one reaps the same worker, and a recovery is counted once."""
    broken, far = proxy
    await register(store, "zombie", HOUR)
    await own(store, "zombie", "r")
    session = await connect()
    await session.execute("update workers set expires_at = 0")
    broken.cut_before = b"commit\0"
    broken.is_down = True
    with pytest.raises(StoreUnavailable):
        await far.reap()
    assert (await row_of(store, "r")).owner == "zombie"
    reaped = await store.reap()
    assert reaped is not None
    assert (reaped.worker, reaped.runs, reaped.done) == ("zombie", 1, True)
    row = await row_of(store, "r")
    assert (row.owner, row.recoveries) == (None, 1)


async def test_a_session_that_the_server_ends_in_a_commit(store: PostgresStore, worker: str, connect):
    """An operator ends the session while a commit waits for a lock: nothing of it happened; sent again, it does."""
    await own(store, worker, "r", "s")
    holder = await connect()
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute("select 1 from runs where uid = $1 for update", "s")
    batch = [entry("r", 1, sends=(send_to("s"),))]
    committing = asyncio.create_task(store.commit(worker, batch))
    [waiting] = await wait_until_blocked(holder)
    await holder.fetch("select pg_terminate_backend($1)", waiting)
    with pytest.raises(StoreUnavailable):
        await committing
    await transaction.rollback()
    assert await marks_of(store, "r") == [start("r").mark]
    assert await commit(store, worker, *batch) == [Verdict.LANDED]


async def test_a_connection_given_up_as_the_answer_arrives_is_lost(url: str, store: PostgresStore):
    """A process that was frozen finds the answer and the end of its patience at once. Then the driver is in the middle
    of a request without a connection; what it stumbles over is told as any other loss."""
    link = await connect(parse_url(url), Role.WORK)
    link._patience_s = 0.05
    asking = asyncio.create_task(link.fetch_text("select $1::int[]", [1]))
    await asyncio.sleep(0)
    time.sleep(0.2)  # noqa: ASYNC251 - frozen: the server answers meanwhile
    with pytest.raises(StoreUnavailable, match=r"did not answer within 0\.05 s"):
        await asking
    assert not link.is_usable


@pytest.mark.slow
async def test_a_request_that_is_not_answered_is_given_up(url: str):
    """Its patience counts from when it was sent, whatever was asked on the connection before; then that is dropped."""
    loop = asyncio.get_running_loop()
    async with proxy_to(url) as (broken, through):
        settings = replace(parse_url(through), lease_us=3_600_000)
        link = await connect(settings, Role.WORK)
        for _ in range(3):
            await link.fetch_text("select pg_sleep(0.45)")
        broken.is_silent = True
        began = loop.time()
        with pytest.raises(StoreUnavailable, match=r"did not answer within 1\.2 s"):
            await link.fetch_text("select 1")
        assert loop.time() - began > settings.patience_of(Role.WORK) - 0.01
        assert not link.is_usable
