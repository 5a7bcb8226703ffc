"""Runs that are started for later, and what reaches them before."""

from __future__ import annotations

import asyncio

import pytest

from outlast import Context, Outlast
from outlast.errors import RunCancelled

begun: list[str] = []


def make_app() -> Outlast:
    app = Outlast("memory://")

    @app.workflow(name="later")
    async def later(ctx: Context) -> str:
        begun.append(ctx.run_id)
        return ctx.now().isoformat()

    return app


# SPEC R4 X1
async def test_a_cancel_before_its_time_ends_a_run_without_its_body() -> None:
    """Nothing of the body runs, and nobody waits for the delay to be over."""
    app = make_app()
    async with app.worker():
        run = await app.start("later", id="never", delay="1h")
        assert await run.cancel("not needed")
        with pytest.raises(RunCancelled, match="not needed"):
            await run.result(timeout=10)
    assert "never" not in begun


# SPEC R4
async def test_a_message_before_its_time_does_not_begin_a_run() -> None:
    """Woken early, a run goes on waiting until it is due; its body's time is not before that."""
    app = make_app()
    async with app.worker():
        run = await app.start("later", id="patient", delay="700ms")
        assert app._engine is not None
        engine = app._engine
        assert engine is not None
        await engine.send(run.uid, "resume", b"{}")  # a stray one: nothing is suspended
        for _ in range(20):
            await asyncio.sleep(0.01)
            assert "patient" not in begun
        said = await run.result(timeout=10)
        started = (await app.runs()).runs[0]
    assert begun.count("patient") == 1
    assert said >= started.created_at.isoformat()
