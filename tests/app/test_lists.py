"""Lists of runs, and getting rid of old ones (SPEC R9)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from outlast import Context, RunFailed


# SPEC R9
async def test_runs_are_listed_newest_first_in_pages(app, twice):
    """Every run once, whatever the size of the page."""
    async with app:
        ids = [(await app.start(twice, n)).id for n in range(7)]
        for limit in (1, 3, 7, 50):
            seen, after = [], None
            while True:
                page = await app.runs(limit=limit, after=after)
                assert len(page.runs) <= limit
                seen += [run.id for run in page.runs]
                after = page.next
                if after is None:
                    break
            assert seen == ids[::-1]


# SPEC R9
async def test_runs_are_filtered(app, twice):
    """By workflow, status, user, attributes and time; filters join."""

    @app.step(name="fail", retries=0)
    async def fail() -> None:
        raise ValueError("no")

    @app.workflow(name="failing")
    async def failing(ctx: Context) -> None:
        await fail()

    async with app.worker():
        good = await app.start(twice, 1, user="ada", attributes={"region": "eu", "n": 1})
        await good.result(timeout=10)
        bad = await app.start(failing, user="bob", attributes={"region": "eu"})
        with pytest.raises(RunFailed):
            await bad.result(timeout=10)

        async def ids(**filters):
            return [run.id for run in (await app.runs(**filters)).runs]

        assert await ids(workflow="twice") == await ids(workflow=twice) == [good.id]
        assert await ids(status="failed") == [bad.id]
        assert await ids(status=["failed", "completed"], attributes={"region": "eu"}) == [bad.id, good.id]
        assert await ids(user="ada", status="failed") == []
        assert await ids(attributes={"n": 1}) == [good.id]
        assert await ids(attributes={"n": True}) == []
        now = datetime.now(UTC)
        assert await ids(created_from=now - timedelta(minutes=1), created_until=now) == [bad.id, good.id]
        assert await ids(created_from=now + timedelta(minutes=1)) == []
        (failed,) = (await app.runs(status="failed")).runs
        assert failed.error == "ValueError: no"


# SPEC R9
async def test_old_runs_are_pruned(app, twice):
    """Those that ended before, of the statuses asked for; what goes on stays, however old."""

    @app.workflow(name="sleeper")
    async def sleeper(ctx: Context) -> None:
        await ctx.sleep("1d")

    async with app.worker():
        for n in range(3):
            await (await app.start(twice, n)).result(timeout=10)
        going = await app.start(sleeper)
        assert await app.prune(older_than="1h") == 0
        assert await app.prune(older_than=0, statuses="failed") == 0
        await asyncio.sleep(0.002)  # the clock has to move past the last end
        assert await app.prune(older_than=0) == 3
        assert [run.id for run in (await app.runs()).runs] == [going.id]
