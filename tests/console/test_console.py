"""The console in a real browser: what people see of runs, and what they do with them (SPEC U1, U2)."""

from __future__ import annotations

import asyncio
import json
import re
from urllib.parse import quote

import pytest
from playwright.async_api import expect

from outlast import Context, Outlast, RunCancelled, RunFailed

pytestmark = [pytest.mark.process, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="package")]


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


# SPEC U1
async def test_children_open_in_place(app: Outlast, page) -> None:
    """The steps of a child stand below its parent's bar once it is opened, and those of its own child below that; each
    shows its details, and what happens meanwhile comes by itself."""
    may_end = asyncio.Event()

    @app.step(name="leaf")
    async def leaf(number: int) -> int:
        await may_end.wait()
        return number * 7

    @app.workflow(name="inner")
    async def inner(ctx: Context, number: int) -> int:
        return await leaf(number)

    @app.workflow(name="middle")
    async def middle(ctx: Context, number: int) -> int:
        return await inner(number)

    @app.workflow(name="outer")
    async def outer(ctx: Context) -> int:
        return await middle(6)

    run = await app.start("outer", id="o")
    await page.goto("run/o")
    rows = page.get_by_role("option")
    await page.get_by_role("button", name="Open the run of middle").click()
    await expect(rows).to_have_count(2)
    await rows.nth(1).click()
    await page.keyboard.press("ArrowRight")
    await expect(rows).to_have_count(3)
    await rows.nth(2).click()
    details = page.get_by_role("complementary", name="Details")
    await expect(details).to_contain_text("leaf")
    await expect(rows.nth(2)).to_have_attribute("aria-label", re.compile("leaf, started"))
    may_end.set()
    assert await run.result(timeout=20) == 42
    await expect(rows.nth(2)).to_have_attribute("aria-label", re.compile("leaf, succeeded"))
    await expect(details).to_contain_text("42")
    ids = {
        attempt.invocation_id
        for child in (await app.runs(workflow="inner")).runs
        for attempt in await (await app.get_run(child.id)).history()
    }
    await expect(details.get_by_title(f"Copy {ids.pop()}")).to_be_visible()
    await page.get_by_role("button", name="Close the run of middle").click()
    await expect(rows).to_have_count(1)


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


# SPEC U1, D4
async def test_script_in_names_and_values_is_text(app, page):
    """In ids, users, inputs, results, questions, names of workflows and steps: shown as it is, in every view."""
    script = "<img src=x onerror='window.hacked=1'><b>b</b>'\"&"

    @app.step(name=f"step {script}", retries=0)
    async def step(text: str) -> str:
        return text

    @app.workflow(name=f"flow {script}")
    async def flow(ctx: Context, text: str) -> None:
        """<b>Its description.</b>"""
        await step(text)
        await ctx.set_state(script, text)
        await ctx.milestone(script)
        await ctx.approval(script)

    await app.start(flow, script, id=f"id {script}", user=script, attributes={script: script})
    places = {
        "runs": f"flow {script}",
        f"run/{quote(f'id {script}', safe='')}": f"step {script}",
        "waits": script,
        "workflows": "<b>Its description.</b>",
        f"workflow/{quote(f'flow {script}', safe='')}": f"flow {script}",
    }
    for place, shown in places.items():
        await page.goto(place)
        await expect(page.locator("main")).to_contain_text(shown)
        assert await page.locator("main img, main b b").count() == 0
        assert await page.evaluate("window.hacked") is None
    await page.goto(f"run/{quote(f'id {script}', safe='')}?step={quote(f'step {script}')}")
    await expect(page.get_by_role("complementary", name="Details")).to_contain_text("onerror")
    await page.get_by_role("button", name="Answer").click()
    await expect(page.get_by_role("dialog")).to_contain_text(script)
    assert await page.locator("main img").count() == 0
    assert await page.evaluate("window.hacked") is None


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


# SPEC U1
async def test_each_place_of_a_plan_shows_its_own_steps(app, page):
    """A step that stands in a plan several times is counted where it was called; a graph is drawn with its arrows."""
    await (await app.start("twice", 3, id="t")).result(timeout=20)
    await (await app.start("sorted", {"amount": 1, "items": [5, 6]}, id="g")).result(timeout=20)
    await page.goto("run/t")
    plan = page.get_by_role("group", name="Plan")
    await expect(plan.get_by_role("button")).to_have_count(5)
    shown = [await each.get_attribute("aria-label") for each in await plan.get_by_role("button").all()]
    assert shown == [
        "Check: succeeded",
        "Check: succeeded, 3 times",
        "Check: planned",
        "Charge: succeeded",
        "Charge: succeeded",
    ]
    await page.goto("run/g")
    await expect(plan.get_by_role("button", name="Each: succeeded, 2 times")).to_be_visible()
    await expect(plan.get_by_role("button", name="Other: planned")).to_be_disabled()
    assert await plan.locator(".arrow").count() == 5
    assert "1" in await plan.locator(".arrow text").all_text_contents()


# SPEC U2, R10
async def test_a_retry_says_what_runs_again_and_is_followed(app, page, mended):
    """What is kept and what runs again stands in the dialog; then the page shows the run going on, by itself."""
    run = await app.start("twice", 95, id="r")
    with pytest.raises(RunFailed):
        await run.result(timeout=20)
    await page.goto("run/r?step=check%234")
    await expect(page.get_by_role("complementary", name="Details")).to_contain_text("too much")
    await page.get_by_role("button", name="Fork from here").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Kept (4)")
    await expect(dialog).to_contain_text("Runs again (1)")
    await dialog.get_by_role("button", name="Back").click()
    mended.set()
    await page.get_by_role("button", name="Retry").click()
    await expect(dialog).to_contain_text("Kept (4)")
    await expect(dialog.locator(".keys-of").last).to_have_text("check#4")
    await dialog.get_by_role("button", name="Retry").click()
    await expect(page.locator(".run-head .status")).to_contain_text("completed")
    await expect(page.get_by_role("option")).to_have_count(6)


# SPEC V6, U2
async def test_a_draft_is_stored_looked_at_and_activated(app, page):
    """Pasted in, it waits to be decided; its plan is drawn before anybody starts it; who activated it stands there."""
    await page.goto("workflows")
    await page.get_by_role("button", name="New draft").click()
    dialog = page.get_by_role("dialog")
    definition = {"name": "later", "nodes": {"first": {"function": "charge", "input": "$input"}}}
    await dialog.get_by_label("Its definition").fill(json.dumps(definition))
    await dialog.get_by_label("Who you are").fill("a program")
    await dialog.get_by_role("button", name="Store it").click()
    await expect(page.get_by_role("region", name="Plan").get_by_role("button", name="First")).to_be_visible()
    await expect(page.get_by_role("button", name="Start")).to_have_count(0)
    await page.goto("workflows")
    await page.get_by_role("region", name="Drafts").get_by_role("link", name="later").click()
    await page.get_by_role("button", name="Activate").click()
    await dialog.get_by_label("Who you are").fill("ada")
    await dialog.get_by_role("button", name="Activate it").click()
    await expect(page.locator(".versions")).to_contain_text("by ada")
    (version,) = await app.versions("later")
    assert (version.status, version.created_by, version.decided_by) == ("active", "a program", "ada")
    await page.goto("workflow/later")
    await page.get_by_role("button", name="Start").click()
    await dialog.get_by_label("value").fill("7")
    await dialog.get_by_role("button", name="Start").click()
    await expect(page.locator(".run-head .status")).to_contain_text("completed")
    await page.goto("workflow/later")
    await page.get_by_role("button", name="Decline").click()
    await dialog.get_by_label("Who you are").fill("bob")
    await dialog.get_by_role("button", name="Decline it").click()
    await expect(page.locator(".versions")).to_contain_text("declined")


# SPEC U1
async def test_a_long_list_is_read_as_it_is_scrolled(app, page):
    """The next page comes before its end is in sight; pages far out of sight are not drawn; new runs appear on top."""
    started = (app.start("pay", number, id=f"n-{number:03}", delay="1h") for number in range(600))
    await asyncio.gather(*started)
    ids = [run.id for run in (await app.runs(limit=1000)).runs]
    newest, edge, oldest = ids[0], ids[99], ids[-1]  # the console asks for a hundred at once
    await page.goto("runs")
    await expect(page.get_by_role("link", name=newest)).to_be_visible()
    await page.evaluate(
        """async () => {
            const main = document.getElementById("main");
            while (document.querySelectorAll("tbody").length < 6) {
                main.scrollTop = main.scrollHeight;
                await new Promise((done) => setTimeout(done, 20));
            }
        }"""
    )
    await page.get_by_role("link", name=oldest).scroll_into_view_if_needed()
    assert await page.locator("tbody tr").count() < 400
    await page.evaluate("document.getElementById('main').scrollTop = 0")
    await (await app.get_run(newest)).cancel("enough")
    await app.start("pay", 1, id="newest", delay="1h")
    await expect(page.get_by_role("link", name="newest")).to_be_visible()
    await expect(page.get_by_role("row", name=newest)).to_contain_text("cancelled")
    await expect(page.get_by_role("link", name=edge)).to_have_count(1)
