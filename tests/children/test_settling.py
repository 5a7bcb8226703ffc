"""An unwind does not wait for ever for what the body gave up (SPEC X3; LOOP §4)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from outlast import Context, Outlast
from outlast.engine import thinking
from outlast.errors import StoreUnavailable
from outlast.stores.store import Inbox
from outlast.testing.faults import Faults, faulty
from tests.children.shop import Shop, fails
from tests.verifying.world import problems_of


async def test_a_step_that_does_not_end_is_not_waited_for_for_ever(
    app: Outlast, shop: Shop, diary, monkeypatch, caplog
):
    """After its timeout, else half a minute, it counts as failed, with a warning, and the unwind begins."""
    monkeypatch.setattr(thinking, "SETTLE_WITHIN_US", 50_000)
    began, gate = threading.Event(), threading.Event()

    @app.step(name="stuck")
    def stuck() -> None:
        began.set()
        gate.wait(20)

    @app.step(name="fail", retries=0)
    async def fail() -> None:
        await asyncio.to_thread(began.wait, 20)
        raise ValueError("now")

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        await shop.charge(1)
        async with asyncio.TaskGroup() as group:
            group.create_task(stuck())
            await fail()

    async with app.worker(grace=0.05):
        run = await app.start(order)
        assert (await fails(run)).status == "compensated"
        assert diary == ["charge 1", "refund 1 receipt 1 for charge"]
        assert "stuck was given up and does not end" in caplog.text
        gate.set()


async def test_a_body_that_fails_before_anything_began_waits_for_nothing(app: Outlast, shop: Shop, diary):
    """What it called and gave up in one breath never began, so no outcome of it will come."""

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(shop.charge(1))
            await asyncio.sleep(0)
            raise ValueError("at once")

    async with app.worker():
        run = await app.start(order)
        assert (await fails(run)).status == "failed"
        assert diary == []


# SPEC X6
async def test_an_unwind_asks_again_what_became_of_a_queued_step(app: Outlast, shop: Shop, diary, monkeypatch):
    """Nobody had the step when it was given up, so nobody tells of it; and the store gave no answer the first time."""
    ask, asked = app._store.lost_attempts, []

    async def lost_attempts(uid: str, attempts: list[tuple[str, int]]) -> list[tuple[str, int]]:
        asked.append(uid)
        if len(asked) == 1:
            raise StoreUnavailable(app.url, "the line is cut")
        return await ask(uid, attempts)

    monkeypatch.setattr(app._store, "lost_attempts", lost_attempts)

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(shop.charge.options(queue="nobody's")(1))
            await ctx.sleep(0.01)
            raise ValueError("no")

    async with app.worker():
        run = await app.start(order)
        assert (await fails(run)).status == "failed"
        assert len(asked) >= 2  # a run that is loaded in between asks for itself
        assert diary == []


# SPEC R10
async def test_a_retry_hears_how_a_child_ended_that_can_not_be_reopened(app: Outlast, shop: Shop, diary):
    """It was undone, and tells nothing any more: its parent asks, and is not parked before there is an answer."""
    app._store = faulty(app._store, Faults(1, lost=0, untold=0, slow=1.0, slow_s=0.01))

    @app.workflow(name="child")
    async def child(ctx: Context) -> None:
        await shop.charge(1)
        await shop.boom()

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> None:
        await child()

    async with app.worker(max_hot=0):
        run = await app.start(parent)
        await fails(run)
        await run.retry()
        assert (await fails(run)).status == "failed"
        assert diary == ["charge 1", "refund 1 receipt 1 for charge"]


# SPEC R10
async def test_an_end_that_was_asked_for_is_not_heard_a_second_time(app: Outlast, shop: Shop, diary, monkeypatch):
    """A retried run asks how its child ended, and the child's own message comes when another load has begun. Found by
    seed 20261212/16257r of the simulation."""
    is_held, is_mended = True, False

    @app.step(name="mend", retries=0)
    async def mend() -> None:
        if not is_mended:
            raise ValueError("not yet")

    @app.workflow(name="child")
    async def child(ctx: Context) -> None:
        await mend()

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> str:
        await child()
        await shop.charge(1)
        return str(await ctx.wait_for("word", str))

    async with app.worker(max_hot=0) as worker:
        run = await app.start(parent)
        await fails(run)
        store = worker.engine.store
        read_inbox = store.read_inbox

        async def read(uid: str, **options: Any) -> Inbox:
            inbox = await read_inbox(uid, **options)
            if uid != run.uid or not is_held:
                return inbox
            messages = tuple(message for message in inbox.messages if message.kind != "child")
            return Inbox(inbox.mail - len(inbox.messages) + len(messages), messages)

        monkeypatch.setattr(store, "read_inbox", read)
        is_mended = True
        await run.retry()
        async with asyncio.timeout(20):
            while "charge 1" not in diary:
                await asyncio.sleep(0.01)
        is_held = False
        await run.signal("word", "on")
        assert await run.result(timeout=20) == "on"
    async with app:
        assert await problems_of(app._store) == []


# SPEC R10, X8
async def test_an_unwind_waits_for_no_child_that_a_retry_asked_for_and_gave_up(app: Outlast, shop: Shop, diary):
    """It was undone before, and will not tell how it ends a second time. Found by the simulation, 20261207/46596r."""

    @app.workflow(name="child")
    async def child(ctx: Context) -> None:
        await shop.charge(1)
        await shop.boom()

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await child()
        await shop.charge(2)
        await shop.boom()

    async with app.worker(max_hot=0):
        run = await app.start(parent)
        await fails(run)
        await asyncio.sleep(1)  # when it is retried, the time for the child is up
        await run.retry()
        assert (await fails(run)).status == "compensated"
        assert diary[-2:] == ["charge 2", "refund 2 receipt 2 for charge"]


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level("WARNING")
