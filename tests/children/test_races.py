"""A cancel and the end of its run at the same instant: one of them happens, and who cancelled knows which (SPEC X1)."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from outlast import Context, Outlast, Run, RunCancelled
from tests.homes import between_processes

ROUNDS = 100
LANES = 5
"""Races at a time."""


async def race(url: str, rounds: int) -> Counter[str]:
    """Runs that end about when another app on the same store cancels them; counts of what came of it."""
    draw = random.Random(7)
    app, other = Outlast(url), Outlast(url)

    @app.step(name="act")
    async def act(seconds: float) -> int:
        await asyncio.sleep(seconds)
        return 1

    @app.workflow(name="work")
    async def work(ctx: Context, seconds: float) -> int:
        return await act(seconds)

    counts: Counter[str] = Counter()
    turns = iter(range(rounds))

    async def go_on() -> None:
        for number in turns:
            run = await app.start(work, draw.uniform(0, 0.1), id=f"r{number}")
            outside = await other.get_run(run.id)
            await asyncio.sleep(draw.uniform(0, 0.05))
            heard = await outside.cancel("enough")
            counts[await judge(run, outside, heard)] += 1
            counts["told that it had ended"] += not heard

    async with app.worker(), other, asyncio.TaskGroup() as group:
        for _ in range(LANES):
            group.create_task(go_on())
    return counts


async def judge(run: Run[int], outside: Run[Any], heard: bool) -> str:
    """How it ended, if everybody was told so."""
    try:
        assert await run.result(timeout=20) == 1
        end = "completed"
    except RunCancelled:
        end = "cancelled"
    info = await outside.status()
    kinds = [str(item.kind) for item in await outside.timeline()]
    assert info.status == end
    assert kinds.count("completed") + kinds.count("cancelled") - ("cancelled" in kinds[:-1]) == 1
    assert heard or end == "completed", "it was told that the run had ended, and cancelled it"
    assert "cancel_requested" not in kinds or end == "cancelled", "a cancel that was read in time has no effect"
    return end


# SPEC X1; PROTOCOL F21
@between_processes
@pytest.mark.slow
async def test_a_cancel_races_with_the_end(url: str):
    """The run is completed or cancelled, never both; a cancel that was refused never takes effect, one that was read
    always does."""
    counts = await race(url, ROUNDS)
    assert counts["completed"] > ROUNDS // 10, counts
    assert counts["cancelled"] > ROUNDS // 10, counts


@between_processes
@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_a_cancel_races_with_the_end_a_thousand_times(url: str):
    """The same, ten times as often."""
    counts = await race(url, 10 * ROUNDS)
    assert counts["completed"] + counts["cancelled"] == 10 * ROUNDS
    print(dict(counts))
