"""A cancel and the end of its run at the same instant: one of them happens, and who cancelled knows which (SPEC X1)."""

from __future__ import annotations

import asyncio
import random

import pytest

from outlast import Context, Outlast, RunCancelled

ROUNDS = 100


async def race(tmp_path, rounds: int) -> dict[str, int]:
    """Runs that end about when another app on the same file cancels them; counts of what came of it."""
    draw = random.Random(7)
    url = f"sqlite:///{tmp_path}/race.db"
    app, other = Outlast(url), Outlast(url)

    @app.step(name="act")
    async def act(seconds: float) -> int:
        await asyncio.sleep(seconds)
        return 1

    @app.workflow(name="work")
    async def work(ctx: Context, seconds: float) -> int:
        return await act(seconds)

    counts = {"completed": 0, "cancelled": 0, "told that it had ended": 0}
    async with app.worker(), other:
        for number in range(rounds):
            run = await app.start(work, draw.uniform(0, 0.1), id=f"r{number}")
            outside = await other.get_run(run.id)
            await asyncio.sleep(draw.uniform(0, 0.05))
            heard = await outside.cancel("enough")
            try:
                assert await run.result(timeout=20) == 1
                end = "completed"
            except RunCancelled:
                end = "cancelled"
            info = await outside.status()
            kinds = [str(item.kind) for item in await outside.timeline()]
            assert info.status == end
            assert kinds.count("completed") + kinds.count("cancelled") - ("cancelled" in kinds[:-1]) == 1
            if not heard:
                assert end == "completed", "it was told that the run had ended, and cancelled it"
                counts["told that it had ended"] += 1
            if "cancel_requested" in kinds:
                assert end == "cancelled", "a cancel that was read in time has no effect"
            counts[end] += 1
    return counts


# SPEC X1; PROTOCOL F21
@pytest.mark.slow
async def test_a_cancel_races_with_the_end(tmp_path):
    """The run is completed or cancelled, never both; a cancel that was refused never takes effect, one that was read
    always does."""
    counts = await race(tmp_path, ROUNDS)
    assert counts["completed"] > ROUNDS // 10, counts
    assert counts["cancelled"] > ROUNDS // 10, counts


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_a_cancel_races_with_the_end_a_thousand_times(tmp_path):
    """The same, ten times as often."""
    print(await race(tmp_path, 10 * ROUNDS))
