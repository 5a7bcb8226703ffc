"""A run that had ended and is reopened after a deploy: it is left, taken back and undone like one in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from outlast import Context, ExpectedError, Outlast, RunFailed
from outlast.stores.store import WorkerRow
from tests import postgres_schemas
from tests.versions.deploying import PATIENCE_S

OLD_CHILD = "child#1"


class Lost(ExpectedError):
    pass


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """Of a store of each kind."""
    if request.param == "postgres":
        yield postgres_schemas.shared_url()
        await postgres_schemas.empty_schema()
    else:
        yield f"memory://{tmp_path}" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"


def make_app(url: str, done: list[str], *, release: int) -> Any:
    app: Any = Outlast(url)

    @app.step(name="charge", retries=0)
    async def charge(order: str) -> str:
        done.append(f"charge {order}")
        return order

    @charge.compensation
    async def refund(order: str, receipt: str) -> None:
        done.append(f"refund {receipt}")

    @app.step(name="pack", retries=0)
    async def pack(order: str) -> str:
        done.append(f"pack {order}")
        return order

    if release == 1:

        @app.workflow(name="child", version="1")
        async def child(ctx: Context, order: str) -> str:
            return await charge(order)

    else:

        @app.workflow(name="child", version="2")
        async def otherwise(ctx: Context, order: str) -> str:
            return await pack(order)

    @app.workflow(name="parent", version="1")
    async def parent(ctx: Context, order: str) -> None:
        await ctx.call("child", {"order": order})
        await ctx.wait_for("next")
        raise Lost(order)

    return app


async def test_a_completed_child_that_was_left_is_taken_back_and_undone(url: str, monkeypatch: Any) -> None:
    """The last worker of its version leaves before it took the child: the stored plan undoes it."""  # SPEC V4, C5
    monkeypatch.setattr("outlast.engine.sweeper.CARE_EVERY", 2)
    done: list[str] = []
    old, new = make_app(url, done, release=1), make_app(url, done, release=2)
    async with old.worker():
        run = await old.start("parent", "A-17", id="A-17")
        async with asyncio.timeout(PATIENCE_S):
            while (await run.status()).waiting_on != "signal next":
                await asyncio.sleep(0.01)
    left: list[str] = []
    monkeypatch.setattr("outlast.engine.hot.HotRun.leave", _noting(left))
    async with new:
        gone = WorkerRow("gone", "host", 1, functions=("child",), deploy="other", versions=(OLD_CHILD,))
        await new._store.register(gone, 60_000_000)
    async with new.worker():
        run = await new.get_run("A-17")
        await run.signal("next")
        async with asyncio.timeout(PATIENCE_S):
            while not left:
                await asyncio.sleep(0.01)
        await new._store.retire("gone")
        with pytest.raises(RunFailed, match="A-17"):
            await run.result(timeout=PATIENCE_S)
        assert (await run.status()).status == "compensated"
        (child,) = (await new.runs(parent=run.uid)).runs
        timeline = await (await new.get_run(child.id)).timeline()
    assert left == [child.uid]
    assert child.status == "compensated"
    assert [item.detail for item in timeline if item.kind == "version"] == ["plan"]
    assert done == ["charge A-17", "refund A-17"]


def _noting(left: list[str]) -> Any:
    from outlast.engine.hot import HotRun

    leave = HotRun.leave

    def noting(run: Any, draft: Any, unfit: str) -> None:
        left.append(run.uid)
        leave(run, draft, unfit)

    return noting
