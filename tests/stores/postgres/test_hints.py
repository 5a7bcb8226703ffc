"""Hints of other processes: how they come, how few they are, and that a listener notices when none comes any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from outlast.stores.postgres import PostgresStore, hints
from outlast.testing.stores.writing import end, entry, land, message, own, queue, start
from tests.stores.postgres.proxy import proxy_to
from tests.stores.postgres.sessions import Session

PATIENCE_S = 10


class Told:
    """Somebody who wants hints, and counts them."""

    def __init__(self, store: PostgresStore) -> None:
        self.event = asyncio.Event()
        self.stop: Callable[[], None] = store.subscribe(self.event.set)

    async def wait(self) -> None:
        await asyncio.wait_for(self.event.wait(), PATIENCE_S)
        self.event.clear()


async def listening(admin: Session, schema: str) -> list[int]:
    """Process ids of the sessions that listen for changes of this store."""
    rows = await admin.fetch(
        "select pid from pg_stat_activity where query ilike 'listen%' and query like $1", f"%{schema}%"
    )
    return [row["pid"] for row in rows]


async def wait_until_listening(admin: Session, schema: str, beside: list[int] | None = None) -> int:
    """Return when somebody listens, beside these."""
    async with asyncio.timeout(PATIENCE_S):
        while not (found := set(await listening(admin, schema)) - set(beside or [])):
            await asyncio.sleep(0.01)
    return found.pop()


async def test_a_listener_whose_session_ends_gets_another(store: PostgresStore, make_store, admin: Session):
    """The server ends its session: it listens again by itself, looks at once, and hears of what follows."""
    elsewhere = await make_store()
    told = Told(elsewhere)
    first = await wait_until_listening(admin, store.schema)
    await told.wait()  # for what came before it listened
    await admin.fetch("select pg_terminate_backend($1)", first)
    await told.wait()
    await wait_until_listening(admin, store.schema, [first])
    told.event.clear()
    await queue(store, "r")
    await told.wait()


async def test_a_listener_that_hears_nothing_asks_itself(store: PostgresStore, url: str, make_store, monkeypatch):
    """Its connection looks well and brings no notification any more: its own does not come back, so it is made anew."""
    monkeypatch.setattr(hints, "_PROBE_S", 0.05)
    monkeypatch.setattr(hints, "_ANSWER_S", 0.5)
    async with proxy_to(url) as (proxy, through):
        far = await make_store(through)
        told = Told(far)
        await told.wait()
        before = proxy.connections
        proxy.is_mute = True
        async with asyncio.timeout(PATIENCE_S):
            while proxy.connections == before:
                await asyncio.sleep(0.01)
        proxy.is_mute = False
        told.event.clear()
        await queue(store, "r")
        await told.wait()
        await far.close()


async def test_many_changes_are_few_notifications(store: PostgresStore, worker: str, holder: Session):
    """A notification takes a lock of the whole database at its commit: a process sends at most some fifty a second."""
    heard: list[int] = []
    await holder.add_listener(f"outlast in {store.schema}", lambda *_: heard.append(1))
    await own(store, worker, "r")
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.gather(*(store.send("r", message(f"m{n}")) for n in range(100)))
    await store.close()
    took_s = loop.time() - began
    await holder.fetch("select 1")  # what was sent before has come
    assert 1 <= len(heard) <= 2 + took_s / hints._GAP_S


async def test_what_nobody_waits_for_is_not_told(store: PostgresStore, worker: str, holder: Session):
    """Steps, and runs that start where they are worked, make work for nobody else."""
    heard: list[int] = []
    await holder.add_listener(f"outlast in {store.schema}", lambda *_: heard.append(1))
    await land(store, worker, start("r", claimed=True))
    await land(store, worker, entry("r", 1))
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()}, return_exceptions=True)
    await holder.fetch("select 1")
    assert heard == []
    await land(store, worker, end("r", 2))
    async with asyncio.timeout(PATIENCE_S):
        while not heard:
            await holder.fetch("select 1")


async def test_closing_tells_what_was_to_be_told(store: PostgresStore, make_store):
    """A script that starts a run and ends at once is heard all the same."""
    elsewhere = await make_store()
    told = Told(elsewhere)
    await told.wait()
    brief = await make_store()
    await queue(brief, "r")
    await brief.close()
    await told.wait()


@pytest.mark.parametrize("when", ["at once", "while it listens"])
async def test_leaving_ends_the_listener(store: PostgresStore, admin: Session, when: str):
    """Nobody listens for nobody."""
    told = Told(store)
    if when != "at once":
        await wait_until_listening(admin, store.schema)
    told.stop()
    async with asyncio.timeout(PATIENCE_S):
        while store._hints._ending or await listening(admin, store.schema):
            await asyncio.sleep(0.01)
