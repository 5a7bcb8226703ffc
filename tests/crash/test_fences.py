"""A worker that lost its lease, or its picture of a run, between two of its own steps."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from outlast.authoring.context import Context
from outlast.authoring.module import Module
from outlast.core.events import RunCompleted, StepSucceeded
from tests.crash.rig import has_event, process, until


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex


async def test_what_waits_for_the_writer_dies_with_the_lease(name) -> None:
    """What a worker had ready to write when it lost its lease is not written under its next id."""
    app = Module("")
    gates = {key: asyncio.Event() for key in ("first", "second")}

    @app.step(name="work")
    async def work(key: str) -> str:
        await gates[key].wait()
        return key

    @app.workflow(name="flow")
    async def flow(ctx: Context, key: str) -> str:
        return await work(key)

    async with process(name, app) as zombie:
        first, second = await zombie.start(flow, "first"), await zombie.start(flow, "second")
        old = zombie.worker.id
        hold = zombie.store.hold("commit", has_event(StepSucceeded), before=True)
        gates["first"].set()
        await hold.reached.wait()
        gates["second"].set()  # its outcome waits behind the first's
        await until(lambda: len(zombie.engine.writer._waiting) == 1)
        await zombie.store.lapse(old)
        hold.let_go()
        ends = [await zombie.end_of(first), await zombie.end_of(second)]
        assert [type(end) for end in ends] == [RunCompleted, RunCompleted]
        journal = await zombie.journal(second)
        assert [event.attempt for event in journal if isinstance(event, StepSucceeded)] == [2]
