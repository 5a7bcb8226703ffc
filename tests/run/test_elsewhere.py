"""A run seen and steered by another process than the one that works it (SPEC R6, O3)."""

from __future__ import annotations

import asyncio

import pytest

from outlast import Outlast, RunCancelled
from tests.run.gates import declare_steady


@pytest.fixture(params=["memory", "sqlite"])
async def pair(request, tmp_path):
    """Two apps on one store: one works, one only asks. They share nothing else."""
    url = f"memory://{tmp_path}" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"
    works, asks = Outlast(url), Outlast(url)
    async with works.worker(), asks:
        yield works, asks


# SPEC R6
async def test_who_only_asks_gets_the_result(pair):
    """Started here, worked there: the result arrives here."""
    works, asks = pair
    gate, _ = declare_steady(works)
    _, steady = declare_steady(asks)
    run = await asks.start(steady, 4, id="far")
    await asyncio.wait_for(gate.entered.wait(), 10)
    assert (await run.status()).status == "running"
    gate.is_open.set()
    assert await run.result(timeout=10) == 8


# SPEC R6
async def test_who_does_not_know_the_workflow_gets_plain_json(pair):
    """A dashboard needs none of the code to see how a run ended."""
    works, asks = pair
    gate, steady = declare_steady(works)
    gate.is_open.set()
    await works.start(steady, 4, id="far")
    run = await asks.get_run("far")
    assert await run.result(timeout=10) == 8
    assert [step.key for step in (await run.status()).steps] == ["work"]
    assert len((await asks.runs(workflow="steady")).runs) == 1


# SPEC O3
async def test_events_reach_who_only_watches(pair):
    """Live, and to the end, without a worker of one's own."""
    works, asks = pair
    gate, steady = declare_steady(works)
    await works.start(steady, 4, id="far")
    run = await asks.get_run("far")
    kinds = []
    async with asyncio.timeout(10):
        async for item in run.events():
            kinds.append(item.kind)
            if item.kind == "started":
                gate.is_open.set()
    assert kinds == ["queued", "started", "succeeded", "completed"]


# SPEC X1
async def test_a_cancel_reaches_the_worker(pair):
    """Sent here, heard there."""
    works, asks = pair
    gate, steady = declare_steady(works)
    await works.start(steady, 4, id="far")
    await asyncio.wait_for(gate.entered.wait(), 10)
    run = await asks.get_run("far")
    assert await run.cancel("enough") is True
    with pytest.raises(RunCancelled, match="enough"):
        await run.result(timeout=10)
