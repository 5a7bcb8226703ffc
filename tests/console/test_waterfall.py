"""The waterfall of a run: any length of it, at any size, in a real browser (CONSOLE.md)."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.async_api import expect

pytestmark = [pytest.mark.process, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="package")]


SCROLL = """async () => {
    const rows = document.querySelector(".rows");
    const frames = [];
    for (let before = performance.now(), n = 0; n < 60; n += 1) {
        rows.scrollTop += 150;
        const now = await new Promise(requestAnimationFrame);
        frames.push(now - before);
        before = now;
    }
    return frames.sort((one, other) => one - other)[30];
}"""
OPEN = """async () => {
    const began = performance.now();
    document.querySelector("a.row-link").click();
    while (document.querySelectorAll("[role=option]").length < 10) await new Promise((done) => setTimeout(done, 2));
    return performance.now() - began;
}"""
CLICK = """async () => {
    const began = performance.now();
    document.querySelectorAll("[role=option]")[5].click();
    while (!document.querySelector("[aria-label=Details]").textContent.includes("Result")) {
        await new Promise((done) => setTimeout(done, 2));
    }
    return performance.now() - began;
}"""


async def test_five_thousand_steps_are_drawn_where_they_are_seen(app, page):
    """A run of 5,000 steps is open at once and scrolls smoothly: no more bars are drawn than fit the pane. The last
    step's details are all there, too."""
    run = await app.start("wide", 5200, id="w")  # with over 10,300 events: read in two pieces, and the rest streamed
    await run.result(timeout=100)
    await page.goto("runs")
    await page.get_by_role("link", name="w", exact=True).wait_for()
    opened_ms = await page.evaluate(OPEN)
    await expect(page.locator(".run-head .status")).to_contain_text("completed")
    await expect(page.locator(".all")).to_have_css("height", f"{5200 * 30}px", timeout=60_000)
    drawn = await page.get_by_role("option").count()
    assert 10 < drawn < 120
    clicked_ms, frame_ms = await page.evaluate(CLICK), await page.evaluate(SCROLL)
    # many times what was seen on two busy cores (173, 12 and 17): others may be busier here
    assert (opened_ms < 6000, clicked_ms < 3000, frame_ms < 250) == (True, True, True), (
        opened_ms,
        clicked_ms,
        frame_ms,
    )
    await page.get_by_label("Zoom of the waterfall").press("End")
    await expect(page.locator(".ruler")).to_contain_text(" to ")
    assert await width_of(page) > 1_000_000  # a 5,200th of the run is wider than the names
    zoomed_ms = await page.evaluate(SCROLL)
    assert zoomed_ms < 250, zoomed_ms
    last = (await run.status()).steps[-1].key
    await page.goto(f"run/w?step={quote(last)}")
    await expect(page.locator(".attempts tbody tr")).to_have_count(1)


MOMENT_AT = """([x]) => {
    const rows = document.querySelector(".rows"), names = document.querySelector(".rows .what").offsetWidth;
    const lanes = document.querySelector(".all").offsetWidth - names;
    return (rows.scrollLeft + x - rows.getBoundingClientRect().left - names) / lanes;
}"""


async def moment_at(page, x: float) -> float:
    """Which share of the run lies at this place of the page."""
    return float(await page.evaluate(MOMENT_AT, [x]))


async def width_of(page) -> float:
    return float(await page.locator(".all").evaluate("all => all.offsetWidth"))


async def test_a_waterfall_is_zoomed_about_what_is_pointed_at_and_dragged(app, page):
    """The wheel keeps the moment under the pointer, keys keep the middle; a drag pans and selects nothing, a click
    does; a double click shows the step at large."""
    run = await app.start("wide", 400, id="w")
    await run.result(timeout=60)
    await page.goto("run/w")
    await expect(page.locator(".run-head .status")).to_contain_text("completed")
    await expect(page.locator(".all")).to_have_css("height", f"{400 * 30}px")
    box = await page.locator(".rows").bounding_box()
    lane = await page.locator(".row .lane").nth(4).bounding_box()
    before, x, y = await width_of(page), lane["x"] + 0.7 * lane["width"], lane["y"] + 10
    pointed_at = await moment_at(page, x)
    await page.mouse.move(x, y)
    await page.keyboard.down("Control")
    for _ in range(4):
        await page.mouse.wheel(0, -60)
    await page.keyboard.up("Control")
    await expect(page.locator(".ruler")).to_contain_text(" to ")
    assert await width_of(page) > 5 * before
    assert abs(await moment_at(page, x) - pointed_at) < 0.005
    left = await page.locator(".rows").evaluate("rows => rows.scrollLeft")
    await page.mouse.down()
    await page.mouse.move(x - 120, y, steps=4)
    await page.mouse.up()
    assert abs(await page.locator(".rows").evaluate("rows => rows.scrollLeft") - left - 120) < 2
    await expect(page.locator(".row.selected")).to_have_count(0)
    await page.mouse.click(x, y)
    await expect(page.locator(".row.selected")).to_have_count(1)
    middle = box["x"] + (lane["x"] - box["x"] + box["width"]) / 2
    pointed_at, wide = await moment_at(page, middle), await width_of(page)
    await page.locator(".rows").focus()
    await page.keyboard.press("+")
    assert await width_of(page) > 1.5 * wide
    assert abs(await moment_at(page, middle) - pointed_at) < 0.005
    await page.keyboard.press("0")
    await expect(page.locator(".ruler")).to_contain_text("in all")
    assert await width_of(page) == before
    await page.locator(".row .what").nth(3).dblclick()
    bar = await page.locator(".row.selected .bar").first.bounding_box()
    seen = box["width"] - (lane["x"] - box["x"])
    assert 0.6 * seen < bar["width"] < 0.8 * seen
    assert lane["x"] < bar["x"] + bar["width"] / 2 < box["x"] + box["width"]
