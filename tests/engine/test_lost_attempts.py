"""Attempts that are lost with their worker count as attempts (SPEC S2, L5); `tests/crash` kills real processes."""

from __future__ import annotations

import asyncio

import pytest

from outlast import Context, Outlast, RunFailed, current_step
from outlast.core.events import AttemptStarted, StepLost, StepStarted, decode_events
from outlast.testing.clock import SkippingClock
from outlast.testing.crashes import in_memory
from outlast.testing.lab import enter_lab
from outlast.testing.ledger import Ledger


# SPEC L5, S2
@pytest.mark.parametrize("retries", [0, 1, 2])
async def test_a_step_loses_as_many_attempts_as_it_may_have_and_then_fails(retries: int):
    """Each of its workers dies in it; the one after the last does not try it again, and says why."""
    app, entered = Outlast("memory://"), asyncio.Queue[int]()

    @app.step(name="brittle", retries=retries)
    async def brittle() -> None:
        entered.put_nowait(current_step().attempt)
        await asyncio.Event().wait()

    @app.workflow(name="order")
    async def order(ctx: Context) -> None:
        await brittle()

    clock, ledger = SkippingClock(), Ledger()
    async with in_memory(clock) as make_store:
        for attempt in range(1, retries + 2):
            store = make_store()
            async with enter_lab(app, store, clock, ledger) as lab:
                await lab.app.start(order, id="r")
                assert await asyncio.wait_for(entered.get(), 10) == attempt
                assert lab.worker.home is not None
                lab.worker.home.abandon_all()  # as if its process were gone, and its lease over
                await asyncio.to_thread(store.renew, lab.worker.id, 0)
        async with enter_lab(app, make_store(), clock, ledger) as lab:
            run = await lab.app.get_run("r")
            with pytest.raises(RunFailed, match="StepLeaseExpired"):
                await asyncio.wait_for(lab.result(run), 10)
            entries = await lab.app._store.read_journal(run.uid)
        assert entered.empty()
    events = [event for entry in entries for event in decode_events(entry.events)]
    begun = [event.attempt for event in events if isinstance(event, StepStarted | AttemptStarted)]
    assert begun == list(range(1, retries + 2))
    assert [event.attempt for event in events if isinstance(event, StepLost)] == begun
