"""An API on an app with a worker, and a client for it that needs no network."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import httpx
import pytest

from outlast import Context, ExpectedError, Outlast


class Declined(ExpectedError):
    """What the card says."""


@pytest.fixture
def url():
    """Of the store."""
    return "memory://"


@pytest.fixture
async def mended():
    """Set: charging works."""
    return asyncio.Event()


@pytest.fixture
async def app(url, mended):
    """An app that works what it starts: `double`, which ends, `hold`, which waits for a cancel, and `fail`."""
    app = Outlast(url)

    @app.step(name="twice")
    async def twice(n: int) -> int:
        return n * 2

    @app.step(name="charge", retries=0)
    async def charge(fails: bool) -> str:
        if fails and not mended.is_set():
            raise Declined("no money")
        return "paid"

    @app.step(name="wait")
    async def wait() -> None:
        await asyncio.Event().wait()

    @app.workflow(name="double")
    async def double(ctx: Context, n: int) -> int:
        """Twice as much."""
        return await twice(n)

    @app.workflow(name="hold")
    async def hold(ctx: Context) -> None:
        await wait()

    @app.workflow(name="buy")
    async def buy(ctx: Context, fails: bool = False, note: str = "") -> str:
        await twice(1)
        return await charge(fails)

    async with app.worker(grace=0.01):
        yield app


@asynccontextmanager
async def client_of(api, **options):
    """Speaks to an ASGI app directly."""
    transport = httpx.ASGITransport(app=api, raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="http://test", **options) as client:
        yield client


@pytest.fixture
async def client(app):
    """Of an API that asks nobody who they are."""
    async with client_of(app.asgi(no_auth=True)) as client:
        yield client
