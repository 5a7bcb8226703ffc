"""Workers and queues in the console: what they hold, and how one is asked to leave (SPEC U1, U2, Q4)."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import expect

from outlast import Context, Outlast

pytestmark = [pytest.mark.process, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="package")]


@pytest.fixture
def may_end(app: Outlast) -> asyncio.Event:
    """Set: what was loaded is hauled. Until then a step of each `haul`, and one of the queue `far`, goes on."""
    may_end = asyncio.Event()

    @app.step(name="load")
    async def load(number: int) -> int:
        await may_end.wait()
        return number

    @app.step(name="ship", queue="far")
    async def ship(number: int) -> int:
        await may_end.wait()
        return number

    @app.workflow(name="haul")
    async def haul(ctx: Context, number: int) -> int:
        return await load(number)

    @app.workflow(name="export")
    async def export(ctx: Context, number: int) -> int:
        return await ship(number)

    app.queue("far", limit=3)
    return may_end


async def until(condition) -> None:
    async with asyncio.timeout(20):
        while not await condition():
            await asyncio.sleep(0.02)


# SPEC U1
async def test_what_a_worker_holds_is_shown_on_demand(app: Outlast, may_end, page) -> None:
    """How many runs and queued steps, then which, each a link; its last heartbeat, version and state."""
    twin = Outlast(app.url)
    twin.include(app)
    async with twin.worker(queues=("far",)) as far:
        for number in range(3):
            await app.start("haul", number, id=f"h{number}")
        await app.start("export", 1, id="x")

        async def holds() -> bool:
            return {one.held_runs: one.held_steps for one in await app.workers()} == {
                3: 0,
                0: 1,
            }  # x is parked while its step is carried out

        await until(holds)
        await page.goto("workers")
        mine = page.get_by_role("row").filter(has_text="3 runs, 0 queued steps")
        await expect(mine).to_contain_text("serving")
        await expect(mine).to_contain_text("lease ends in")
        await expect(mine).to_contain_text("Python 3.")
        await mine.get_by_role("button", name="3 runs").click()
        runs = page.get_by_role("region", name="Runs it holds")
        await expect(runs.get_by_role("link")).to_have_count(3)
        theirs = page.get_by_role("row").filter(has_text="0 runs, 1 queued step")
        await theirs.get_by_role("button", name="0 runs").click()
        steps = page.get_by_role("region", name="Queued steps it carries out")
        await expect(steps).to_contain_text("of x, attempt 1")
        await steps.get_by_role("link", name="ship").click()
        await expect(page.get_by_role("complementary", name="Details")).to_contain_text("ship")
        worker = next(one for one in await app.workers() if one.id != far.id)
        await page.goto(f"runs?worker={worker.id}")
        await expect(page.get_by_role("link", name="h1")).to_be_visible()
        await page.get_by_role("button", name="held by").click()
        assert "worker=" not in page.url
        await page.goto("queues")
        row = page.get_by_role("row").filter(has=page.get_by_role("cell", name="far"))
        await expect(row.get_by_role("cell")).to_have_text(["far", "0", "0", "0", "1", "3", "0 µs", "1"])
        may_end.set()


# SPEC Q4, U2
async def test_a_worker_is_drained_from_the_page(app: Outlast, may_end, page) -> None:
    """Nothing happens before the dialog is answered; then the page shows it draining, and gone, by itself."""
    twin = Outlast(app.url)
    twin.include(app)
    async with twin.worker(queues=("far",), lease="1s") as far:
        await app.start("export", 1, id="x")

        async def holds() -> bool:
            return any(one.held_steps for one in await app.workers())

        await until(holds)
        await page.goto("workers")
        row = page.get_by_role("row").filter(has_text="1 queued step")
        await row.get_by_role("button", name="Drain").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text(far.id)
        await expect(dialog).to_contain_text("0 runs and 1 queued step")
        await dialog.get_by_role("button", name="Back").click()
        assert not far.is_draining
        await row.get_by_role("button", name="Drain").click()
        await dialog.get_by_role("button", name="Drain it").click()
        await expect(page.get_by_text("It was asked to drain")).to_be_visible()
        await expect(row).to_contain_text("draining")
        await expect(row.get_by_role("button", name="Drain")).to_have_count(0)
        may_end.set()
        await expect(page.get_by_role("cell", name="serving")).to_have_count(1)
        await expect(row).to_have_count(0)
        assert await (await app.get_run("x")).result(timeout=20) == 1
