"""Keeping the lease: from a thread of its own, and never longer than the store counts it (SPEC L2)."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from outlast.engine.clock import StoreClock, boottime_us
from outlast.engine.heartbeat import Heartbeat
from outlast.errors import StoreUnavailable
from outlast.stores.memory import MemoryStore
from outlast.stores.store import Renewed, WorkerRow
from tests.engine.ticking import BootClock
from tests.simulation.network import immediately

LEASE_US = 9_000_000
EVERY_US = LEASE_US // 3
AHEAD_US = 1_700_000_000_000_000
"""How far the store's clock is ahead of this machine's."""
UNAVAILABLE = StoreUnavailable("memory://", "the line is cut")


class RenewingStore(MemoryStore):
    """Its clock goes with the machine's. `renew` takes as long, and fails as often, as a test says."""

    def __init__(self, boot: BootClock) -> None:
        super().__init__("memory://", lambda: boot.now_us + AHEAD_US)
        self._boot = boot
        self.renewed_at: list[int] = []
        self.errors: deque[Exception] = deque()
        self.takes_us = 0

    def renew(self, worker_id: str, lease_us: int) -> Renewed | None:
        self.renewed_at.append(self._boot.now_us)
        if self.errors:
            raise self.errors.popleft()
        renewed = super().renew(worker_id, lease_us)
        self._boot.advance(self.takes_us)
        return renewed


class Waits(threading.Event):
    """Waiting moves the machine's clock instead; what a test wants done at that moment is done before."""

    def __init__(self, boot: BootClock, most: int) -> None:
        super().__init__()
        self._boot = boot
        self._left = most
        self.waited_us: list[int] = []
        self.before: dict[int, Callable[[], object]] = {}
        """By the number of the wait."""

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.before.get(len(self.waited_us), lambda: None)()
        self.waited_us.append(round(timeout * 1e6))
        self._boot.advance(self.waited_us[-1])
        if len(self.waited_us) > self._left:
            self.set()
        return self.is_set()


class Beating:
    """A heartbeat that runs in the thread of the test, for so many beats at most."""

    def __init__(self, store: RenewingStore, boot: BootClock, beats: int) -> None:
        self.store, self.boot = store, boot
        self.fenced: list[str] = []
        self.asked: list[str] = []
        self.stalled_us = 0
        self.clock = StoreClock()
        self.heartbeat = Heartbeat(
            store, "w1", LEASE_US, self.clock, boottime_us(),
            stalled_us=lambda: self.stalled_us, on_fenced=self.fenced.append,
            on_drain_asked=self.asked.append,
        )  # fmt: skip
        self.waits = self.heartbeat._stop_now = Waits(boot, beats)
        self.run = self.heartbeat.run


@pytest.fixture
async def beating(boot) -> Any:
    store = RenewingStore(boot)
    await store.open()
    await store.register(WorkerRow("w1", "host", 1), LEASE_US)
    yield lambda beats: Beating(store, boot, beats)
    await store.close()


# SPEC L2
async def test_the_lease_is_renewed_every_third_of_it(beating) -> None:
    """Two renewals may be lost before it lapses; each answer sets the estimate of the store's time."""
    one = beating(10)
    began = one.boot.now_us
    one.run()
    assert one.store.renewed_at == [began + beat * EVERY_US for beat in range(1, 11)]
    assert one.fenced == []
    assert one.heartbeat.holds_lease()
    assert one.clock.now_us() == one.boot.now_us + AHEAD_US


async def test_the_lease_counts_from_before_the_renewal_was_sent(beating) -> None:
    """The store may have counted from any moment of the call: only the earliest is safe."""
    one = beating(1)
    one.store.takes_us = 2_000_000
    one.run()
    sent_at = one.store.renewed_at[0]
    one.boot.now_us = sent_at + LEASE_US - 1
    assert one.heartbeat.holds_lease()
    one.boot.advance(1)
    assert not one.heartbeat.holds_lease()


async def test_the_first_lease_counts_from_before_the_registration(beating) -> None:
    """Before any renewal: what the worker noted when it sent its registration."""
    one = beating(0)
    one.boot.advance(LEASE_US - 1)
    assert one.heartbeat.holds_lease()
    one.boot.advance(1)
    assert not one.heartbeat.holds_lease()


async def test_a_worker_that_was_marked_dead_is_told_once(beating) -> None:
    """The store says so at the next renewal, and the thread ends: the worker comes back under a new id."""
    one = beating(100)
    await one.store.retire("w1")
    one.run()
    assert one.fenced == ["w1"]
    assert not one.heartbeat.holds_lease()
    assert len(one.store.renewed_at) == 1


async def test_a_renewal_that_fails_is_tried_again_soon(beating, caplog) -> None:
    """Four times as often as one that works, with a warning each; the lease goes on from the first that works."""
    one = beating(4)
    one.store.errors += [UNAVAILABLE, OSError("a driver's own")]
    one.run()
    assert one.waits.waited_us == [EVERY_US, EVERY_US // 4, EVERY_US // 4, EVERY_US, EVERY_US]
    assert one.fenced == []
    assert one.heartbeat.holds_lease()
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


async def test_a_store_that_stays_away_costs_the_lease(beating) -> None:
    """The worker fences itself when the lease is over by its own clock: nobody else could tell it."""
    one = beating(1000)
    began = one.boot.now_us
    one.store.errors += [UNAVAILABLE] * 1000
    one.run()
    assert one.fenced == ["w1"]
    assert began + LEASE_US <= one.boot.now_us < began + LEASE_US + EVERY_US


async def test_a_lease_that_lapsed_here_is_not_renewed(beating) -> None:
    """The store might still do so; but steps may have been held back meanwhile, and would be forgotten (F5)."""
    one = beating(100)

    def close_the_lid() -> None:
        MemoryStore.renew(one.store, "w1", 100 * LEASE_US)
        one.boot.advance(LEASE_US)

    one.waits.before[1] = close_the_lid
    one.run()
    assert one.fenced == ["w1"]
    assert len(one.store.renewed_at) == 1
    assert one.store.renew("w1", LEASE_US) is not None, "it would have been"


async def test_a_loop_that_does_not_move_does_not_keep_its_runs(beating) -> None:
    """Blocked for over half a lease, it is not renewed, and lapses; peers can take over what it holds (F38)."""
    one = beating(100)
    one.stalled_us = LEASE_US // 2 + 1
    one.run()
    assert one.fenced == ["w1"]
    assert one.store.renewed_at == []


async def test_a_loop_that_moves_again_in_time_keeps_its_lease(beating) -> None:
    """A step that blocks for a while delays the renewal, no more."""
    one = beating(6)
    one.stalled_us = LEASE_US // 2 + 1

    def move_again() -> None:
        one.stalled_us = 0

    one.waits.before[3] = move_again
    one.run()
    assert one.fenced == []
    assert len(one.store.renewed_at) == 3
    assert one.heartbeat.holds_lease()


async def test_one_that_was_stopped_says_nothing(beating) -> None:
    """A worker that leaves in good order stops it first, and is not told of what follows from that."""
    one = beating(100)
    await one.store.retire("w1")
    renew = one.store.renew

    def stopped_meanwhile(worker_id: str, lease_us: int) -> Renewed | None:
        one.heartbeat.stop()
        return renew(worker_id, lease_us)

    one.store.renew = stopped_meanwhile
    one.run()
    assert one.fenced == []
    assert not one.heartbeat.holds_lease()


# SPEC Q4
async def test_being_asked_to_drain_comes_with_the_answer_and_is_told_once(beating) -> None:
    """The lease is renewed until the worker has left, whatever is asked; an answer that is lost is no loss."""
    one = beating(6)

    def ask() -> None:
        immediately(one.store.ask_drain("w1"))
        one.store.errors.append(UNAVAILABLE)

    one.waits.before[2] = ask
    one.run()
    assert one.asked == ["w1"]
    assert one.fenced == []
    assert one.heartbeat.holds_lease()


def test_the_real_thread_ends_when_it_is_stopped() -> None:
    """It sleeps for seconds between two renewals, and is woken from that."""
    store = MemoryStore()
    heartbeat = Heartbeat(
        store, "w1", 60_000_000, StoreClock(), boottime_us(), stalled_us=lambda: 0, on_fenced=pytest.fail
    )
    heartbeat.start()
    assert heartbeat.daemon, "it keeps no process from ending"
    assert heartbeat.holds_lease()
    heartbeat.stop()
    heartbeat.join(20)
    assert not heartbeat.is_alive()
