"""A reconcile asks about what memory does not know, and about nothing that it knew when it asked (PROTOCOL F4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest

from outlast import Context, Outlast
from outlast.engine.sweeper import RECONCILE_EVERY, Sweeper
from outlast.stores.memory import MemoryStore
from outlast.stores.store import ClaimedRun, Claiming, Outcome, OwnedRun, Progress, RowChange, RunRow, RunSharing


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


class SlowStore(MemoryStore):
    """A store whose answer to a claim is long under way."""

    def __init__(self) -> None:
        super().__init__("memory://")
        self.claimed, self.arrives = asyncio.Event(), asyncio.Event()

    async def claim(self, claiming: Claiming, sharing: RunSharing | None = None) -> list[ClaimedRun]:
        """They are the worker's, and it does not know."""
        claims = await super().claim(claiming, sharing)
        if claims:
            self.claimed.set()
            await self.arrives.wait()
        return claims


class QuickClaimStore(MemoryStore):
    """A store that answers to an adoption when the claim that came before it is heard of, and the run has moved."""

    def __init__(self) -> None:
        super().__init__("memory://")
        self.claimed, self.arrives, self.adopted, self.is_told = (asyncio.Event() for _ in range(4))

    async def claim(self, claiming: Claiming, sharing: RunSharing | None = None) -> list[ClaimedRun]:
        """They are the worker's, and it does not know."""
        claims = await super().claim(claiming, sharing)
        if claims:
            self.claimed.set()
            await self.arrives.wait()
        return claims

    async def adopt(self, worker_id: str, uid: str, epoch: int) -> ClaimedRun | None:
        """It has happened, and the worker does not know."""
        claim = await super().adopt(worker_id, uid, epoch)
        self.adopted.set()
        await self.is_told.wait()
        return claim

    async def commit(self, worker_id: str | None, batch: Sequence[Progress]) -> list[Outcome]:
        """A step's start is long under way: the answer to the adoption comes first."""
        if self.adopted.is_set() and not self.is_told.is_set():
            self.is_told.set()
            await asyncio.sleep(0.05)
        return await super().commit(worker_id, batch)


async def test_a_run_that_is_adopted_while_its_claim_is_heard_of_is_not_loaded_beside_itself() -> None:
    """The second load would read a journal of before the first one's entry, and give the run up for what it waited for
    then: nobody would ever wake it. Found by seed 20261207/5080r of the simulation."""
    app = Outlast("memory://", dev=False)
    store = app._store = QuickClaimStore()
    begun: list[int] = []

    @app.step(name="act")
    async def act() -> int:
        begun.append(1)
        return len(begun)

    @app.workflow(name="acting")
    async def acting(ctx: Context) -> int:
        return await act() + await act()

    async with app:
        run = await app.start(acting)
        async with app.worker() as worker:
            home = worker.home
            assert home is not None
            await store.claimed.wait()
            adopting = asyncio.create_task(home.reconcile(await store.list_owned(worker.id), worker.id))
            await store.adopted.wait()
            store.arrives.set()
            hot = None
            async with asyncio.timeout(10):
                while (hot := home.find(run.uid)) is None:
                    await asyncio.sleep(0)
            await adopting
            assert home.find(run.uid) is hot
            assert hot.epoch == 2
            assert await run.result(timeout=10) == 3
    assert begun == [1, 1]


async def test_a_claim_that_is_answered_when_the_run_was_adopted_and_given_up_since_gives_nothing() -> None:
    """Else the worker would move a run that nobody owns, while others may claim it: two writers, and steps twice."""
    app = Outlast("memory://", dev=False)
    store = app._store = SlowStore()

    @app.workflow(name="asleep")
    async def asleep(ctx: Context) -> None:
        await ctx.sleep("1h")

    async with app:
        uid = (await app.start(asleep)).uid
        async with app.worker() as worker:
            home = worker.home
            assert home is not None
            await store.claimed.wait()
            await home.reconcile(await store.list_owned(worker.id), worker.id)
            async with asyncio.timeout(10):
                while (run := home.find(uid)) is None or not run.is_at_rest:
                    await asyncio.sleep(0)
            run.release(None, RowChange(waiting_on=""))
            async with asyncio.timeout(10):
                while home.on_their_way:
                    await asyncio.sleep(0)
            store.arrives.set()
            await asyncio.sleep(0.05)
            assert home.find(uid) is None
            row = await store.find_uid(uid)
            assert row is not None
            assert row.owner is None


class LateRowStore(SlowStore):
    """A store that is slow to say what run that is, each time it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[asyncio.Event] = []

    async def find_uid(self, uid: str) -> RunRow | None:
        """As it is when the answer comes."""
        self.asked.append(asyncio.Event())
        await self.asked[-1].wait()
        return await super().find_uid(uid)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0)


async def test_a_claim_that_is_looked_at_when_the_run_was_adopted_and_given_up_since_gives_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same of a run that left its pool, since it is to be cancelled, and is looked at before it is taken in.
    Found by seed 20261210/17608l of the simulation."""
    app = Outlast("memory://", dev=False)
    store = app._store = LateRowStore()

    @app.workflow(name="limited", limit=1)
    async def limited(_: Context) -> None: ...

    async with app:
        run = await app.start(limited)
        await run.cancel("not any more")
        async with app.worker() as worker:
            home = worker.home
            assert home is not None
            await store.claimed.wait()
            monkeypatch.setattr(home.loader, "load", lambda _: None)
            await home.reconcile(await store.list_owned(worker.id), worker.id)
            store.arrives.set()
            await until(lambda: len(store.asked) == 2)
            store.asked[0].set()
            await until(lambda: home.find(run.uid) is not None)
            hot = home.find(run.uid)
            assert hot is not None
            assert hot.epoch == 2
            hot.release(None, RowChange(waiting_on=""))
            await until(lambda: home.find(run.uid) is None)
            store.asked[1].set()
            await asyncio.sleep(0.05)
            assert home.find(run.uid) is None
