"""What followers cost the database: every statement counted, over the network, on the stores that have statements."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import asynccontextmanager
from typing import Any

import pytest

from outlast import Context, Outlast
from outlast.cli.serving.server import listen, run_server
from outlast.stores.postgres.link import Link
from outlast.stores.sqlite import reader
from tests import postgres_schemas

CLIENTS = 200
STEPS = 10


@pytest.fixture(params=["sqlite", "postgres"])
async def url(request, tmp_path):
    """Of a store that other processes could use too."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/x.db"
        return
    yield postgres_schemas.shared_url()
    await postgres_schemas.empty_schema()


@pytest.fixture
def asked(monkeypatch):
    """Every statement that readers of SQLite and connections to PostgreSQL send, with the store's settings."""
    sent: list[tuple[Any, str]] = []
    connect, ask = reader.connect, Link._ask

    def connect_and_tell(settings: Any) -> sqlite3.Connection:
        connection = connect(settings)
        connection.set_trace_callback(lambda text: sent.append((settings, text)))
        return connection

    async def tell(link: Link, call: Any, *arguments: Any) -> Any:
        sent.append((link.settings, str(arguments[0])))
        return await ask(link, call, *arguments)

    monkeypatch.setattr(reader, "connect", connect_and_tell)
    monkeypatch.setattr(Link, "_ask", tell)
    return sent


@asynccontextmanager
async def served(app):
    """A real server of the app's API: its port."""
    ready, stop = asyncio.Event(), asyncio.Event()
    with listen("127.0.0.1", 0) as listening:
        serving = asyncio.create_task(run_server(app.asgi(no_auth=True), listening, ready.set, stop))
        await ready.wait()
        yield listening.getsockname()[1]
        stop.set()
        await serving


async def follow(port, id, seen, ids):
    """The ids of a run's events to their end; `seen` is told of each. By hand: a client would cost more."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /api/v1/runs/{id}/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    while line := await reader.readline():
        if line.startswith(b"id: "):
            ids.append(line[4:].decode().strip())
            seen.release()
    writer.close()
    await writer.wait_closed()


@pytest.mark.slow
async def test_two_hundred_clients_ask_the_database_no_more_than_one(url, asked):
    """Each is looked up once when it comes; what follows is read once for all of them. # SPEC O3"""
    release = asyncio.Event()

    def make_app() -> Outlast:
        app = Outlast(url)

        @app.step(name="held")
        async def held(n: int) -> int:
            await release.wait()
            return n

        @app.workflow(name="long")
        async def long(ctx: Context) -> None:
            for number in range(STEPS):
                await held(number)

        return app

    worked, shown = make_app(), make_app()
    shown_settings = shown._store._settings  # type: ignore[attr-defined]
    costs = []
    async with worked.worker(), shown, served(shown) as port:
        for clients in (1, CLIENTS):
            release.clear()
            await worked.start("long", id=f"L-{clients}")
            seen = asyncio.Semaphore(0)
            followed: list[list[str]] = [[] for _ in range(clients)]
            asked.clear()
            following = [asyncio.create_task(follow(port, f"L-{clients}", seen, ids)) for ids in followed]
            for _ in range(2 * clients):  # each has been told that the run began
                await seen.acquire()
            coming = sum(settings is shown_settings for settings, _ in asked)
            asked.clear()
            release.set()
            await asyncio.gather(*following)
            costs.append((coming, sum(settings is shown_settings for settings, _ in asked)))
            assert {tuple(ids) for ids in followed} == {(*map(str, range(2 * STEPS + 2)), f"{2 * STEPS + 1}.end")}
    (_, one), (coming, many) = costs
    # each look at the journal tells all: a busy machine takes more of them, at most a few for each entry
    assert 0 < many <= max(one, 4 * STEPS) < CLIENTS, costs
    assert coming <= 2 * CLIENTS, costs
