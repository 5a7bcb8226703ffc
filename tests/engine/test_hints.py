"""Hints are never needed (invariant 11)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from outlast import Context, Outlast
from outlast.engine.claims import claimer
from outlast.stores.memory import MemoryStore
from outlast.stores.store import Claiming, Look


class SilentStore(MemoryStore):
    """A store that never says that something changed."""

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Take the callback, and never call it."""
        del callback
        return lambda: None


def make_app(store_name: str) -> Outlast:
    app = Outlast(f"memory://{store_name}")
    app._store = SilentStore(f"memory://{store_name}")

    @app.step(name="double")
    async def double(n: int) -> int:
        return 2 * n

    @app.workflow(name="doubling")
    async def doubling(ctx: Context, n: int) -> int:
        await ctx.sleep("20ms")
        return await double(n)

    return app


# SPEC Q3 L9
async def test_a_worker_finds_what_another_process_started_without_any_hint() -> None:
    """With a store that never hints, a start elsewhere is picked up by polling, and its waiter hears of the end."""
    here, there = make_app("silent"), make_app("silent")
    async with here, there.worker():
        run = await here.start("doubling", 4)
        assert await run.result(timeout=20) == 8
        await run.cancel("too late")
        other = await here.start("doubling", 5, delay="50ms")
        assert await other.result(timeout=20) == 10


class WatchedStore(MemoryStore):
    """A store that notes when it was looked at."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.looks: asyncio.Queue[float] = asyncio.Queue()

    async def look(self, claiming: Claiming) -> Look:
        """Note the time."""
        self.looks.put_nowait(asyncio.get_running_loop().time())
        return await super().look(claiming)


# SPEC Q3
@pytest.mark.slow
async def test_a_hint_after_a_pause_leads_to_a_look_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only of hints that follow each other closely the later ones wait, and they wait together."""
    gap = 0.6
    monkeypatch.setattr(claimer, "FLOOR_S", 60.0)
    monkeypatch.setattr(claimer, "HINT_GAP_S", gap)
    app = Outlast("memory://watched")
    store = app._store = WatchedStore("memory://watched")
    async with app.worker() as worker:
        looks = [await store.looks.get()]
        while len(looks) < 2 or looks[-1] - looks[-2] < gap:  # until what beginning led to is over
            worker.claims.wake()
            looks.append(await store.looks.get())
        for _ in range(5):
            worker.claims.wake()
            await asyncio.sleep(0)
        looks.append(await store.looks.get())
        assert looks[-1] - looks[-2] >= gap
        assert store.looks.empty()
        await asyncio.sleep(gap)
        hinted = asyncio.get_running_loop().time()
        worker.claims.wake()
        assert await store.looks.get() - hinted < gap / 2
