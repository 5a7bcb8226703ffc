"""A store that takes nothing: who asks is told, and what was done is kept until there is room."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from outlast import Context, Outlast
from outlast.errors import StoreFull
from outlast.stores.memory import MemoryStore
from outlast.stores.store import Outcome, Progress


class FillableStore(MemoryStore):
    """A memory store that can be full."""

    is_full = False

    async def commit(self, worker_id: str | None, batch: Sequence[Progress]) -> list[Outcome]:
        """As the store's own, but for a full disk."""
        if self.is_full:
            raise StoreFull(self.url, "the disk has no room")
        return await super().commit(worker_id, batch)


async def test_a_start_on_a_full_disk_fails_at_once_and_running_work_waits_for_room() -> None:
    """The caller gets StoreFull; a run under way loses nothing, and goes on when there is room again."""
    app = Outlast("memory://")
    store = app._store = FillableStore("memory://")
    reached, go_on = asyncio.Event(), asyncio.Event()
    runs = 0

    @app.step(name="work")
    async def work() -> int:
        nonlocal runs
        runs += 1
        reached.set()
        await go_on.wait()
        return 7

    @app.workflow(name="waiting")
    async def waiting(ctx: Context) -> int:
        return await work()

    async with app.worker():
        run = await app.start(waiting)
        await reached.wait()
        store.is_full = True
        go_on.set()
        with pytest.raises(StoreFull, match="no room"):
            await app.start(waiting, id="refused")
        store.is_full = False
        assert await run.result(timeout=20) == 7
        assert await (await app.start(waiting, id="refused")).result(timeout=20) == 7
    assert runs == 2
