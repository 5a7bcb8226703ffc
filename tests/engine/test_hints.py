"""Hints are never needed (invariant 11)."""

from __future__ import annotations

from collections.abc import Callable

from outlast import Context, Outlast
from outlast.stores.memory import MemoryStore


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
