"""The console in a real browser: what people see of runs, and what they do with them (SPEC U1, U2)."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from outlast import RunCancelled, RunFailed

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]


# SPEC U1
async def test_a_run_is_found_and_shown(app, page):
    """From the list to the run: its status, its plan with the status of each step on it, and each step's bar."""
    run = await app.start("pay", 3, id="A-17", attributes={"region": "eu"})
    await run.result(timeout=20)
    await page.goto("runs?workflow=pay")
    await page.get_by_role("link", name="A-17").click()
    await expect(page.locator(".run-head .status")).to_contain_text("completed")
    await expect(page.get_by_role("group", name="Plan").get_by_role("button", name="Charge").first).to_be_visible()
    rows = page.get_by_role("option")
    await expect(rows).to_have_count(2)
    await rows.nth(1).click()
    await expect(page.get_by_role("complementary", name="Details")).to_contain_text("receipt 4")
    assert "step=charge" in page.url


# SPEC U1, O2
async def test_the_slider_shows_the_past(app, page):
    """Dragged to an earlier event, status and steps are as the run knew them then; "now" comes back."""
    run = await app.start("pay", 3, id="p")
    await run.result(timeout=20)
    await page.goto("run/p")
    await expect(page.get_by_role("option")).to_have_count(2)
    await page.get_by_label("Moment of the run").fill("1")
    await expect(page.get_by_role("option")).to_have_count(1)
    await expect(page.locator(".run-head .status")).to_contain_text("running")
    await page.get_by_role("button", name="Now").click()
    await expect(page.get_by_role("option")).to_have_count(2)


# SPEC U2
async def test_a_run_is_started_from_a_form(app, page):
    """The form is drawn from the input's schema; the page of the new run opens by itself."""
    await page.goto("workflow/pay")
    await page.get_by_role("button", name="Start").click()
    await page.get_by_label("amount").fill("5")
    await page.get_by_label("Id: the same again").fill("F-1")
    await page.get_by_role("dialog").get_by_role("button", name="Start").click()
    await expect(page.locator(".run-head .status")).to_contain_text("completed")
    assert await (await app.get_run("F-1")).result() == ["receipt 5", "receipt 6"]


# SPEC U2, W4
async def test_an_approval_is_given(app, page):
    """The wait is listed; its form comes from the schema of the decision; the run goes on with it."""
    run = await app.start("ask", id="q", user="ada")
    await page.goto("waits")
    await page.get_by_role("button", name="Answer").click()
    await page.get_by_label("ok").check()
    await page.get_by_label("Who decides").fill("bob")
    await page.get_by_role("button", name="Send the answer").click()
    await expect(page.get_by_text("Your answer was accepted.")).to_be_visible()
    assert await run.result(timeout=20) is True


# SPEC U2
async def test_a_cancel_asks_first_and_says_what_is_undone(app, page):
    """Nothing happens before the dialog is answered; then the run ends, live, and its steps are undone."""
    run = await app.start("long", id="l")
    await page.goto("run/l")
    await expect(page.get_by_role("option", name="sleep")).to_be_visible()
    await page.get_by_role("button", name="Cancel", exact=True).click()
    await expect(page.get_by_role("dialog")).to_contain_text("charge")
    await page.get_by_label("Reason").fill("not needed")
    await page.get_by_role("button", name="Cancel the run").click()
    await expect(page.locator(".run-head .status")).to_contain_text("compensated")
    with pytest.raises(RunCancelled, match="not needed"):
        await run.result(timeout=20)


# SPEC U2, D4
async def test_script_in_an_error_is_text(app, page):
    """What a step failed with is shown as it is, and runs nothing; the failed run can be forked from the page."""
    run = await app.start("broken", id="b")
    with pytest.raises(RunFailed):
        await run.result(timeout=20)
    await page.goto("run/b")
    await expect(page.get_by_role("group", name="Error").first).to_contain_text("<script>")
    assert "hacked" not in await page.title()
    await page.get_by_role("button", name="Fork").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Before the step").select_option("fail")
    await dialog.get_by_label("Id (optional)").fill("b2")
    await dialog.get_by_role("button", name="Fork", exact=True).click()
    await expect(page.locator(".run-head h2")).to_contain_text("b2")


async def test_the_palette_finds_runs_by_the_keyboard(app, page):
    """`/`, some letters, Enter."""
    await (await app.start("pay", 1, id="needle")).result(timeout=20)
    await page.goto("workflows")
    await expect(page.get_by_role("heading", name="Workflows")).to_be_visible()
    await page.keyboard.press("/")
    await page.keyboard.type("needle")
    await expect(page.get_by_role("option", name="needle")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page.locator(".run-head h2")).to_contain_text("needle")


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_fits_a_phone(app, browser, site, scheme):
    """No view is wider than the screen, in light and in dark."""
    await (await app.start("pay", 1, id="p")).result(timeout=20)
    context = await browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme, base_url=site)
    page = await context.new_page()
    for place, shown in [("runs", "table"), ("run/p", ".run-head"), ("workflows", ".cards"), ("workers", "h2")]:
        await page.goto(place)
        await expect(page.locator(shown).first).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
    await context.close()


async def test_five_thousand_steps_are_drawn_where_they_are_seen(app, page):
    """A run of 5,000 steps shows its bars, and draws no more of them than fit the pane."""
    run = await app.start("wide", 5000, id="w")
    await run.result(timeout=100)
    await page.goto("run/w")
    await expect(page.locator(".run-head .status")).to_contain_text("completed")
    await expect(page.locator(".all")).to_have_css("height", f"{5000 * 30}px", timeout=60_000)
    drawn = await page.get_by_role("option").count()
    assert 10 < drawn < 120
