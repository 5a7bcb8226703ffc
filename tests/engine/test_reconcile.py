"""A reconcile asks about what memory does not know, and about nothing that it knew when it asked (PROTOCOL F4)."""

from __future__ import annotations

from outlast import Context, Outlast
from outlast.engine.sweeper import RECONCILE_EVERY, Sweeper
from outlast.stores.memory import MemoryStore
from outlast.stores.store import ClaimedRun, OwnedRun


class ParkingStore(MemoryStore):
    """A store whose answer about ownership is old when it comes: the worker has let go of everything meanwhile."""

    app: Outlast
    adopts = 0

    async def list_owned(self, worker_id: str) -> list[OwnedRun]:
        """What was owned; by now it is not."""
        owned = await super().list_owned(worker_id)
        engine = self.app._engine
        assert engine is not None
        assert engine.worker is not None
        assert engine.worker.home is not None
        await engine.worker.home.hand_back()
        assert owned
        return owned

    async def adopt(self, worker_id: str, uid: str, epoch: int) -> ClaimedRun | None:
        """Count what is asked in vain."""
        self.adopts += 1
        return await super().adopt(worker_id, uid, epoch)


async def test_runs_that_parked_while_it_asked_are_not_asked_for_one_by_one() -> None:
    """Each would be a write for nothing, and thousands of them kept the sweeper from parking and reaping."""
    app = Outlast("memory://", dev=False)
    store = ParkingStore("memory://")
    store.app, app._store = app, store

    @app.workflow(name="asleep")
    async def asleep(ctx: Context) -> None:
        await ctx.sleep("1h")

    async with app.worker() as worker:
        for _ in range(3):
            await app.start(asleep)
        sweeper = Sweeper(worker)
        sweeper._tick = RECONCILE_EVERY - 1
        await sweeper._sweep()
    assert store.adopts == 0
