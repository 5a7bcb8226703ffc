"""A journal of another Python (invariant 8): asyncio itself differs between them."""

from __future__ import annotations

import asyncio
import sys

import pytest

from outlast import Context, Outlast
from outlast.engine import starting as starting_module


# SPEC S11
async def test_a_difference_on_another_python_is_a_version_conflict_that_names_both(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What would be called non-determinism is called what it may well be, with both versions."""
    first = Outlast("memory://moved")

    @first.step(name="old")
    async def old() -> int:
        return 1

    @first.workflow(name="moving")
    async def moving(ctx: Context) -> int:
        await old()
        await ctx.sleep("300ms")
        return 1

    monkeypatch.setattr(starting_module, "python_version", lambda: "2.7")
    async with first.worker():
        run = await first.start(moving, id="M-1")
        while not (await run.status()).waiting_on.startswith("sleep"):
            await asyncio.sleep(0.01)

    second = Outlast("memory://moved")

    @second.step(name="new")
    async def new() -> int:
        return 2

    @second.workflow(name="moving")
    async def moving_on(ctx: Context) -> int:
        await new()
        await ctx.sleep("300ms")
        return 2

    async with second.worker():
        again = await second.get_run("M-1")
        while not (told := await again.status()).waiting_on.startswith("VERSION_CONFLICT"):
            await asyncio.sleep(0.01)
        assert told.status == "suspended"
        said = str(await again.timeline())
    assert "recorded on Python 2.7" in said
    assert f"this is {sys.version_info.major}.{sys.version_info.minor}" in said
