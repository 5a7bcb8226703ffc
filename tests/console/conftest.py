"""An app that is served and worked by this process, and a page of a real browser that looks at it."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import dataclass

import pytest
import pytest_asyncio
import uvicorn
from playwright.async_api import async_playwright

from outlast import Context, Graph, Outlast, ref
from tests.console.browser import FLAGS, find_chromium


@dataclass
class Decision:
    ok: bool
    note: str | None = None


@pytest.fixture
def mended() -> asyncio.Event:
    """Set: checking works."""
    return asyncio.Event()


@pytest.fixture
def app(tmp_path, mended) -> Outlast:
    """Workflows of every kind that the console has to show."""
    app = Outlast(f"sqlite:///{tmp_path}/console.db")

    @app.step(name="charge", retries=2, backoff="10ms")
    async def charge(amount: int) -> str:
        return f"receipt {amount}"

    @charge.compensation(name="refund")
    async def refund(amount: int, receipt: str) -> None: ...

    @app.step(name="fail", retries=0)
    async def fail() -> None:
        raise LookupError("<img src=x onerror=\"document.title='hacked'\"><script>document.title='hacked'</script>")

    @app.workflow(name="pay")
    async def pay(ctx: Context, amount: int, note: str = "") -> list[str]:
        """Pay twice."""
        return [await charge(amount), await charge(amount + 1)]

    @app.workflow(name="ask")
    async def ask(ctx: Context) -> bool:
        answer = await ctx.approval("ship it?", Decision)
        return answer.value.ok

    @app.workflow(name="broken")
    async def broken(ctx: Context) -> None:
        await charge(1)
        await fail()

    @app.workflow(name="long")
    async def long(ctx: Context) -> None:
        await charge(1)
        await ctx.sleep("1h")

    @app.workflow(name="wide")
    async def wide(ctx: Context, count: int) -> None:
        await ctx.map(charge, range(count), limit=200)

    add_places(app, mended)
    return app


def add_places(app: Outlast, mended: asyncio.Event) -> None:
    """Plans with several places for one step; a check that fails before it is mended."""
    charge = app.find_step("charge")
    assert charge is not None

    @app.step(name="check", retries=0)
    async def check(amount: int) -> int:
        if amount > 90 and not mended.is_set():
            raise ValueError("too much")
        return amount

    @app.workflow(name="twice")
    async def twice(ctx: Context, amount: int) -> str:
        """The same step in several places."""
        await check(1)
        for number in range(3):
            await check(number)
        if amount > 50:
            await check(amount)
        else:
            await charge(amount)
        return await charge(2)

    app.graph(
        Graph("sorted")
        .node("look", check, input={"amount": ref.input.amount}, next={"1": "each", "*": "other"})
        .node("each", check, for_each=ref.input.items, input={"amount": ref.item})
        .node("other", charge, input={"amount": 1})
    )


@pytest_asyncio.fixture(loop_scope="package")
async def site(app):
    """Where the console is, with a worker beside it."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app.asgi(no_auth=True), log_level="warning", timeout_graceful_shutdown=1))
    async with app.worker():
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        async with asyncio.timeout(20):
            while not server.started:
                await asyncio.sleep(0.01)
        yield f"http://127.0.0.1:{sock.getsockname()[1]}/console/"
        server.should_exit = True
        await serving
        sock.close()


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def browser():
    """A Chromium, without a window: one for all tests, each of which has a context of its own."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="package")
async def page(browser, site):
    """A page on a desk. What its scripts stumble over fails the test."""
    context = await browser.new_context(viewport={"width": 1360, "height": 860}, base_url=site)
    page = await context.new_page()
    page.set_default_timeout(15_000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if "Content Security" in message.text else None)
    yield page
    assert not errors, errors
    await context.close()
