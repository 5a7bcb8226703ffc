"""Hints: a word that something may have changed, so that nobody has to poll fast (Q3)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from outlast.stores.store import Store, TaskOutcome
from outlast.testing.stores.clocks import Clock, MakeStore
from outlast.testing.stores.writing import (
    HOUR,
    claiming,
    complete,
    end,
    entry,
    land,
    message,
    own,
    park,
    queue,
    register,
    release,
    send_to,
    start,
    task,
)

PATIENCE = 5  # seconds; a hint takes milliseconds
REST = 0.06


class Listener:
    """Somebody who wants hints."""

    def __init__(self, store: Store) -> None:
        self.told = asyncio.Event()
        self.stop: Callable[[], None] = store.subscribe(self.told.set)

    async def rests(self) -> None:
        """Until no hint has come for a while: a store may give some of nothing, as it begins to watch."""
        while True:
            self.told.clear()
            try:
                await asyncio.wait_for(self.told.wait(), REST)
            except TimeoutError:
                return

    async def is_told(self) -> bool:
        """Whether a hint comes; then the next one can be waited for."""
        try:
            await asyncio.wait_for(self.told.wait(), PATIENCE)
        except TimeoutError:
            return False
        self.told.clear()
        return True


async def _start(store: Store) -> None:
    await queue(store, "new")


async def _start_child(store: Store) -> None:
    await land(store, "worker-1", entry("owned", 1, children=(start("child"),)))


async def _send_to_parked(store: Store) -> None:
    await store.send("parked", message())


async def _send_to_owned(store: Store) -> None:
    await store.send("owned", message())


async def _send_as_effect(store: Store) -> None:
    await land(store, "worker-1", entry("owned", 1, sends=(send_to("parked"),)))


async def _park_until_now(store: Store) -> None:
    await land(store, "worker-1", entry("owned", 1, row=release(wake_at=0)))


async def _queue_a_task(store: Store) -> None:
    await land(store, "worker-1", entry("owned", 1, tasks=(task(),)))


async def _end(store: Store) -> None:
    await land(store, "worker-1", end("owned"))


async def _retire(store: Store) -> None:
    await store.retire("worker-1")


Change = Callable[[Store], Awaitable[None]]
CHANGES: tuple[Change, ...] = (
    *(_start, _start_child, _send_to_parked, _send_to_owned, _send_as_effect, _park_until_now),
    *(_queue_a_task, _end, _retire),
)


# SPEC Q3
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
async def test_who_listens_is_told_of_a_change(store: Store, worker: str, change: Change) -> None:
    """Whatever makes a run or a task due, brings mail or ends a run is hinted at."""
    await own(store, worker, "owned", "parked")
    await land(store, worker, park("parked"))
    listener = Listener(store)
    await listener.rests()
    await change(store)
    assert await listener.is_told()


async def test_who_listens_elsewhere_is_told(store: Store, worker: str, make_store: MakeStore) -> None:
    """A change made through one handle is hinted at on another."""
    listener = Listener(await make_store())
    await queue(store, "r")
    assert await listener.is_told()
    await listener.rests()
    await queue(store, "s")
    assert await listener.is_told()


async def test_a_reap_is_hinted_at(store: Store, clock: Clock) -> None:
    """What a dead worker held is due: its peers want to know."""
    await register(store, "zombie", clock.lease_us)
    await own(store, "zombie", "r")
    await clock.advance(store, clock.lease_us)
    listener = Listener(store)
    await listener.rests()
    await store.reap()
    assert await listener.is_told()


async def test_an_outcome_is_hinted_at(store: Store, worker: str) -> None:
    """The run's worker waits for it."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, tasks=(task(),)))
    await store.claim_tasks(claiming(worker), ["charge"], HOUR)
    listener = Listener(store)
    await listener.rests()
    await complete(store, worker, TaskOutcome("r", "charge", 1, b"1"))
    assert await listener.is_told()


async def test_a_hint_comes_again_and_again(store: Store) -> None:
    """One hint does not use a subscription up."""
    listener = Listener(store)
    await listener.rests()
    for n in range(3):
        await queue(store, f"r{n}")
        assert await listener.is_told()


async def test_who_has_left_is_not_told(store: Store, worker: str) -> None:
    """After unsubscribing no hint comes any more; unsubscribing twice is fine, and others still listen."""
    calls: list[int] = []
    stop = store.subscribe(lambda: calls.append(1))
    listener = Listener(store)
    stop()
    stop()
    await queue(store, "r")
    assert await listener.is_told()
    assert calls == []


async def test_a_listener_may_call_the_store(store: Store) -> None:
    """A hint is called from the event loop, outside of any call of the store."""
    seen: list[str] = []

    async def read() -> None:
        row = await store.find_uid("r")
        if row is not None:  # a hint may come for nothing
            seen.append(row.uid)
            done.set()

    done = asyncio.Event()
    reads: list[asyncio.Future[None]] = []
    stop = store.subscribe(lambda: reads.append(asyncio.ensure_future(read())))
    await queue(store, "r")
    await asyncio.wait_for(done.wait(), PATIENCE)
    stop()
    await asyncio.sleep(0)
    assert set(seen) == {"r"}
