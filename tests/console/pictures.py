"""The pictures of the console in docs/images, taken anew: python -m tests.console.pictures

It serves the shop beside it from a temporary folder, and looks at it with the Chromium that the console's tests use.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

import uvicorn
from playwright.async_api import Page, async_playwright

from outlast import Outlast, RunFailed
from tests.console.browser import FLAGS, find_chromium

HERE = Path(__file__).resolve().parent
IMAGES = HERE.parents[1] / "docs" / "images"
DESK, PHONE = {"width": 1360, "height": 820}, {"width": 390, "height": 844}


def load_shop() -> ModuleType:
    """The shop under a short name: tracebacks in the pictures are of `shop.py`, wherever this tree lies."""
    os.chdir(HERE)
    shop = sys.modules["shop"] = ModuleType("shop")
    exec(compile(Path("shop.py").read_text(), "shop.py", "exec"), vars(shop))
    return shop


async def start_all(app: Outlast, shop: ModuleType) -> None:
    """Runs in every state."""
    items = ["book", "lamp", "pen"]
    for number in (12, 31, 48, 64, 77, 95):
        order = shop.Order(f"A-{number}", items, number)
        await app.start("fulfil", order, id=order.id, user="ada", attributes={"region": "eu"})
    for number in (12, 31, 48):
        await (await app.get_run(f"A-{number}")).result(timeout=30)
    try:
        await (await app.get_run("A-95")).result(timeout=30)
    except RunFailed:
        pass
    given_back = {"id": "A-12", "items": items, "amount": 95}
    await (await app.start("take_back", {"order": given_back}, id="back-A-12", user="ada")).result(timeout=30)
    await app.draft(shop.DRAFT, by="a program")
    async with asyncio.timeout(30):
        while len((await app.waits()).waits) < 2:
            await asyncio.sleep(0.05)


async def hold_all(app: Outlast) -> None:
    """A worker of the cold store carries out its steps, and was asked to drain."""
    for number in range(3):
        await app.start("store_cold", f"box {number}", id=f"cold-{number}")
    async with asyncio.timeout(30):
        while not (busy := [one for one in await app.workers() if one.held_steps == 3]):
            await asyncio.sleep(0.05)
    await app.drain(busy[0].id)


async def shoot(page: Page, name: str) -> None:
    """One picture, when nothing moves any more."""
    await page.wait_for_timeout(1500)
    await page.screenshot(path=str(IMAGES / f"{name}.png"))


async def shoot_all(browser: Any, base: str) -> None:
    """All of them."""
    for scheme, size, suffix in (("light", DESK, "light"), ("dark", PHONE, "phone-dark")):
        context = await browser.new_context(viewport=size, color_scheme=scheme, base_url=base)
        page = await context.new_page()
        await page.goto("runs")
        await shoot(page, f"runs-{suffix}")
        await page.goto("run/A-31?step=charge")
        await shoot(page, f"run-{suffix}")
        await page.goto("run/A-95")
        await shoot(page, f"failed-{suffix}")
        await page.goto("workflows")
        await shoot(page, f"workflows-{suffix}")
        await page.goto("workers")
        await page.get_by_role("button", name="3 queued steps").click()
        await shoot(page, f"workers-{suffix}")
        await context.close()
    context = await browser.new_context(viewport=DESK, color_scheme="dark", base_url=base)
    page = await context.new_page()
    await page.goto("run/back-A-12?step=refurbish%5B1%5D")
    await shoot(page, "graph-dark")
    await page.goto("run/A-31")
    await page.get_by_role("button", name="Open the run of deliver").click()
    await page.get_by_role("option", name="drive").click()
    await shoot(page, "children-dark")
    await page.goto("run/A-31")
    await page.get_by_label("Moment of the run").fill("9")
    await shoot(page, "past-dark")
    await page.goto("run/A-64")
    await page.get_by_role("button", name="Answer").click()
    await shoot(page, "approval-dark")
    await page.goto("run/A-95")
    await page.get_by_role("button", name="Fork").click()
    await shoot(page, "fork-dark")
    await context.close()


async def main() -> None:
    """Serve, start, look."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        shop = load_shop()
        app = shop.make_app(f"sqlite:///{folder}/shop.db")
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            server = uvicorn.Server(
                uvicorn.Config(app.asgi(no_auth=True), log_level="error", timeout_graceful_shutdown=1)
            )
            cold = shop.make_app(app.url).worker(queues=("cold",), grace=600)
            async with app.worker(), cold as others, async_playwright() as playwright:
                serving = asyncio.create_task(server.serve(sockets=[sock]))
                await start_all(app, shop)
                await hold_all(app)
                browser = await playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
                await shoot_all(browser, f"http://127.0.0.1:{sock.getsockname()[1]}/console/")
                await browser.close()
                server.should_exit = True
                await serving
                await others.drain(0)


if __name__ == "__main__":
    asyncio.run(main())
