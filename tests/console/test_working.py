"""What an operator does all day in the console: find, read, choose many, start again, look back (SPEC U1, U2)."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import expect

from outlast import Context, Outlast, RunFailed

pytestmark = [pytest.mark.process, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="package")]


# SPEC U1
async def test_a_value_is_searched_and_read_in_portions(app: Outlast, page) -> None:
    """A name or what it holds is found wherever it stands, with its path; a long list is shown further on demand."""

    @app.workflow(name="big")
    async def big(ctx: Context, items: list[dict[str, str]]) -> int:
        return len(items)

    items = [{"sku": f"lamp-{number}", "note": "<b>x</b>" if number == 240 else ""} for number in range(250)]
    await (await app.start("big", items, id="v")).result(timeout=20)
    await page.goto("run/v")
    box = page.get_by_role("region", name="Input")
    await box.get_by_label("Search in Input").fill("LAMP-240")
    await expect(box.get_by_role("status")).to_contain_text('items[240].sku: "lamp-240"')
    await box.get_by_label("Search in Input").fill("<b>")
    await expect(box.get_by_role("status")).to_contain_text('items[240].note: "<b>x</b>"')
    await box.get_by_label("Search in Input").fill("nothing like it")
    await expect(box).to_contain_text("Not in here.")
    await box.get_by_label("Search in Input").fill("")
    await expect(box).not_to_contain_text("120: ")
    await box.get_by_role("button", name="100 more of 150").click()
    await expect(box).to_contain_text("120: ")
    await box.get_by_role("button", name="50 more of 50").click()
    await expect(box).to_contain_text("249: ")


# SPEC U2
async def test_many_runs_are_cancelled_at_once(app: Outlast, page) -> None:
    """All that are shown, or all that fit; how many it will be is said before, and how many it was after."""
    await asyncio.gather(*(app.start("pay", number, id=f"n-{number:03}", delay="1h") for number in range(130)))
    await app.start("pay", 1, id="other", user="ada", delay="1h")
    await (await app.start("broken", id="failed")).status()
    await page.goto("runs?workflow=pay")
    await expect(page.get_by_role("link", name="other")).to_be_visible()
    await page.get_by_label("Choose all that are shown").check()
    await expect(page.locator(".bulk")).to_contain_text("100 chosen")
    await page.get_by_role("button", name="Choose all that fit").click()
    await expect(page.locator(".bulk")).to_contain_text("131 chosen")
    await page.get_by_label("Choose other").uncheck()
    await page.get_by_role("button", name="Cancel them").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("heading")).to_have_text("cancel 130 of 130 runs?")
    await expect(dialog).to_contain_text("and 110 more")
    await dialog.get_by_role("button", name="Cancel them").click()
    await expect(page.get_by_text("130 were asked to stop")).to_be_visible(timeout=60_000)
    left = [run.id for run in (await app.runs(workflow="pay", status="queued", limit=200)).runs]
    assert left == ["other"]


# SPEC U2, R10
async def test_a_bulk_retry_leaves_alone_what_has_not_failed(app: Outlast, page, mended) -> None:
    """What does not fit is counted, and nothing is asked of it."""
    for number in (95, 96):
        with pytest.raises(RunFailed):
            await (await app.start("twice", number, id=f"t-{number}")).result(timeout=20)
    await (await app.start("twice", 3, id="t-3")).result(timeout=20)
    mended.set()
    await page.goto("runs?workflow=twice")
    await expect(page.get_by_role("link", name="t-3")).to_be_visible()
    await page.get_by_label("Choose all that are shown").check()
    await page.get_by_role("button", name="Retry them").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("heading")).to_have_text("retry 2 of 3 runs?")
    await expect(dialog).to_contain_text("1 are left alone")
    await dialog.get_by_role("button", name="Retry them").click()
    await expect(page.get_by_text("2 go on")).to_be_visible(timeout=20_000)
    await expect(page.get_by_role("cell", name="completed")).to_have_count(3)


# SPEC U1, W4
async def test_what_a_run_waits_for_is_said_in_words(app: Outlast, page) -> None:
    """Who may do what, and until when; at the head of the run."""

    @app.workflow(name="careful")
    async def careful(ctx: Context) -> None:
        await ctx.approval("ship it?", bool, key="ship", expires="3d", approvers="not-initiator", scope="shipping")

    await app.start("careful", id="c", user="ada")
    await page.goto("run/c")
    why = page.locator(".run-head .why")
    words = "waits for anybody but ada, who started it, with the scope shipping to answer “ship it?” until"
    await expect(why).to_contain_text(words)


async def test_lists_are_walked_from_the_keyboard(app: Outlast, page) -> None:
    """j and k from anywhere on a page with a list; on a run into its steps. Letters typed into a field stay letters."""
    for name in ("a", "b"):
        await (await app.start("pay", 1, id=f"run-{name}")).result(timeout=20)
    await page.goto("runs")
    await expect(page.get_by_role("link", name="run-a", exact=True)).to_be_visible()
    await page.keyboard.press("j")
    await expect(page.get_by_role("link", name="run-b", exact=True)).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("link", name="run-a", exact=True)).to_be_focused()
    await page.keyboard.press("k")
    await page.get_by_label("User", exact=True).press("j")
    await expect(page.get_by_label("User", exact=True)).to_have_value("j")
    await page.goto("run/run-a")
    await expect(page.get_by_role("option")).to_have_count(2)
    await page.keyboard.press("j")
    await expect(page.get_by_role("option").nth(0)).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("j")
    await expect(page.get_by_role("option").nth(1)).to_have_attribute("aria-selected", "true")
    await page.keyboard.press("k")
    await expect(page.get_by_role("option").nth(0)).to_have_attribute("aria-selected", "true")
    await page.goto("workflows")
    await expect(page.get_by_role("heading", name="Workflows")).to_be_visible()
    await page.keyboard.press("j")
    assert await page.evaluate("document.activeElement.closest('article') !== null")


# SPEC U2
async def test_a_start_begins_with_an_input_used_before(app: Outlast, page) -> None:
    """The last one by itself; the ones before, and an empty form, by choice."""
    dialog = page.get_by_role("dialog")
    for amount in ("5", "6"):
        await page.goto("workflow/pay")
        await page.get_by_role("button", name="Start").click()
        await dialog.get_by_label("amount").fill(amount)
        await dialog.get_by_label("Id: the same again").fill(f"F-{amount}")
        await dialog.get_by_role("button", name="Start").click()
        await expect(page.locator(".run-head .status")).to_contain_text("completed")
    await page.goto("workflow/pay")
    await page.get_by_role("button", name="Start").click()
    await expect(dialog.get_by_label("amount")).to_have_value("6")
    await dialog.get_by_label("Begin with").select_option(index=2)
    await expect(dialog.get_by_label("amount")).to_have_value("5")
    await dialog.get_by_label("Begin with").select_option(index=0)
    await expect(dialog.get_by_label("amount")).to_have_value("0")
    await dialog.get_by_label("Begin with").select_option(index=2)
    await dialog.get_by_label("Id: the same again").fill("F-again")
    await dialog.get_by_role("button", name="Start").click()
    await expect(page.locator(".run-head h2")).to_contain_text("F-again")
    assert await (await app.get_run("F-again")).result(timeout=20) == ["receipt 5", "receipt 6"]


# SPEC U1, O2
async def test_the_past_shows_state_and_attempts_as_they_were(app: Outlast, page) -> None:
    """The moment stands in the address: opened there the run is as it was, its state and the attempts of a step too."""
    tries: list[int] = []

    @app.step(name="flaky", retries=2, backoff="10ms")
    async def flaky() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("not yet")
        return "there"

    @app.workflow(name="moody")
    async def moody(ctx: Context) -> None:
        await ctx.set_state("phase", "before")
        await flaky()
        await ctx.set_state("phase", "after")

    run = await app.start("moody", id="m")
    await run.result(timeout=20)
    items = await run.timeline()
    begun = next(item.seq for item in items if str(item.kind) == "started")
    await page.goto("run/m")
    state = page.get_by_role("region", name="State")
    await expect(state).to_contain_text("after")
    await page.get_by_label("Moment of the run").fill(str(begun))
    await expect(state).to_contain_text("before")
    await expect(page).to_have_url(re.compile(rf"at={begun}\b"))
    await page.get_by_role("option", name=re.compile("flaky")).click()
    await expect(page.locator(".attempts tbody tr")).to_have_count(1)
    await expect(page.locator(".attempts")).to_contain_text("started")
    await page.goto(f"run/m?at={begun}&step=flaky")
    await expect(page.locator(".why")).to_contain_text("as it was at")
    await expect(page.locator(".attempts tbody tr")).to_have_count(1)
    await page.get_by_role("button", name="Now").click()
    await expect(page.get_by_role("complementary", name="Details")).to_contain_text("there")
    await expect(page.locator(".attempts")).to_contain_text("succeeded")
    assert "at=" not in page.url


# SPEC U1
async def test_workflows_show_how_their_last_runs_went(app: Outlast, page) -> None:
    """The share that completed, and how long they took, as a line; where one did not complete there is a mark."""
    for number in range(3):
        await (await app.start("pay", number)).result(timeout=20)
    with pytest.raises(RunFailed):
        await (await app.start("broken")).result(timeout=20)
    await page.goto("workflows")
    pay = page.get_by_role("article").filter(has=page.get_by_role("link", name="pay", exact=True))
    await expect(pay).to_contain_text("100 % of 3 completed")
    await expect(pay.get_by_role("img")).to_have_attribute("aria-label", re.compile("last 3 runs"))
    broken = page.get_by_role("article").filter(has=page.get_by_role("link", name="broken", exact=True))
    await expect(broken).to_contain_text("0 % of 1 completed")


# SPEC U1
async def test_an_id_is_copied_and_an_attribute_followed(app: Outlast, page) -> None:
    """A mark beside a link copies the whole id, however short it is shown; an attribute leads to its runs."""
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    long_id = "order-" + "7" * 60
    await app.start("long", id=long_id, attributes={"region": "eu", "n": 3})
    await app.start("long", id="elsewhere", attributes={"region": "us"})
    await page.goto("runs")
    row = page.get_by_role("row").filter(has_text="eu")
    await row.hover()
    await row.get_by_label(f"Copy {long_id}").click()
    assert await page.evaluate("navigator.clipboard.readText()") == long_id
    await row.get_by_role("link", name="n=3").click()
    await expect(page.get_by_role("link", name="elsewhere")).to_have_count(0)
    await expect(row).to_be_visible()
    await page.goto("runs")
    await page.get_by_role("link", name="region=us").click()
    await expect(page.get_by_role("link", name="elsewhere")).to_be_visible()
    await expect(row).to_have_count(0)
