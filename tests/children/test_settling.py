"""An unwind does not wait for ever for what the body gave up (SPEC X3; LOOP §4)."""

from __future__ import annotations

import asyncio
import threading

import pytest

from outlast import Context, Outlast
from outlast.engine import thinking
from tests.children.shop import Shop, fails


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


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level("WARNING")
