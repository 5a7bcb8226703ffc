"""When a worker looks for runs, and when it leaves that."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from outlast import Context, Outlast
from outlast.engine.claims import claimer


def make_app(url: str) -> Outlast:
    app = Outlast(url)

    @app.step(name="step")
    async def step() -> None:
        await asyncio.sleep(0)

    @app.workflow(name="flow")
    async def flow(_: Context) -> str:
        await step()
        return "done"

    return app


# SPEC Q5
async def test_a_full_worker_asks_for_no_more_and_hears_of_the_next_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is due and finds no place costs no looks; a place that comes free is filled long before the next look."""
    monkeypatch.setattr(claimer, "FLOOR_S", 30.0)
    url = f"memory://{tmp_path}"
    may_write, looks = asyncio.Event(), 0
    async with make_app(url) as client, make_app(url).worker(max_hot=1) as worker:
        written, asked = worker.engine.writer._store, worker.engine.store
        commit, look = written.commit, asked.look

        async def commit_late(*arguments: Any) -> Any:
            await may_write.wait()
            return await commit(*arguments)

        async def count(*arguments: Any) -> Any:
            nonlocal looks
            looks += 1
            return await look(*arguments)

        monkeypatch.setattr(written, "commit", commit_late)
        monkeypatch.setattr(asked, "look", count)
        runs = [await client.start("flow") for _ in range(5)]
        await asyncio.sleep(0.3)  # one run is being written all the while, four are due
        assert 1 <= looks <= 8  # by the hints of the starts
        may_write.set()
        assert [await run.result(timeout=10) for run in runs] == ["done"] * 5


# SPEC Q2, Q3
@pytest.mark.parametrize("limits", [{}, {"limit": 3}])
async def test_a_run_that_comes_to_rest_gives_its_place_to_what_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: dict[str, Any]
) -> None:
    """Its step goes on, and needs no room: another run is begun at once, also one that has a limit."""
    monkeypatch.setattr(claimer, "FLOOR_S", 30.0)
    url = f"memory://{tmp_path}"
    may_write, may_end = asyncio.Event(), asyncio.Event()

    def make() -> Outlast:
        app = make_app(url)

        @app.step(name="long")
        async def long() -> None:
            await may_end.wait()

        @app.workflow(name="rests")
        async def rests(_: Context) -> None:
            await long()

        @app.workflow(name="due", **limits)
        async def due(_: Context) -> str:
            return "done"

        return app

    async with make() as client, make().worker(max_hot=1) as worker:
        written = worker.engine.writer._store
        commit = written.commit

        async def commit_late(*arguments: Any) -> Any:
            await may_write.wait()
            return await commit(*arguments)

        monkeypatch.setattr(written, "commit", commit_late)
        await client.start("rests")
        await asyncio.sleep(0.2)
        due = await client.start("due")
        await asyncio.sleep(0.2)
        may_write.set()
        assert await due.result(timeout=10) == "done"
        may_end.set()
