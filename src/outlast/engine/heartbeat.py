"""Keeping the worker's lease, from a thread that no body can block. Layer: engine.

With the answer comes whether somebody asked the worker to drain, so that hearing of it costs no statement. What always
holds: `holds_lease` is true only while the store, whatever became of our last message, still counts the lease as held:
it ends by this machine's boot clock, counted from before the renewal was sent (PROTOCOL F6). A lease that lapsed never
revives: the worker comes back under a new id (F5).
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from outlast.engine.clock import StoreClock, boottime_us
from outlast.stores.store import Store
from outlast.telemetry.logs import unfailing

__all__ = ["Heartbeat"]

_log = unfailing("outlast.lease")


class Heartbeat(threading.Thread):
    """Renews one incarnation's lease every third of its length, until stopped or fenced."""

    def __init__(
        self,
        store: Store,
        worker_id: str,
        lease_us: int,
        clock: StoreClock,
        registered_at_us: int,
        *,
        stalled_us: Callable[[], int],
        on_fenced: Callable[[str], object],
        on_drain_asked: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`registered_at_us` is the boot time before the registration was sent; `stalled_us` says for how long the
        event loop has not ticked; `on_fenced` and `on_drain_asked` are called from this thread, once."""
        super().__init__(name=f"outlast-heartbeat-{worker_id[-6:]}", daemon=True)
        self._store = store
        self._worker_id = worker_id
        self._lease_us = lease_us
        self._clock = clock
        self._until_us = registered_at_us + lease_us
        self._stalled_us = stalled_us
        self._on_fenced = on_fenced
        self._on_drain_asked = on_drain_asked
        self._is_told_to_drain = False
        self._stop_now = threading.Event()

    def holds_lease(self) -> bool:
        """Whether the lease, for all that is known here, still holds now."""
        return boottime_us() < self._until_us

    @property
    def age_us(self) -> int:
        """Since it was last renewed, by this machine's clock."""
        return boottime_us() - (self._until_us - self._lease_us)

    def stop(self) -> None:
        """End the thread; the lease runs out unless the worker retires."""
        self._stop_now.set()

    def run(self) -> None:
        """Renew until stopped; then, or once it is fenced, the thread ends."""
        wait_s: float | None = self._lease_us / 3e6
        while wait_s is not None and not self._stop_now.wait(wait_s):
            wait_s = self.beat()

    def beat(self) -> float | None:
        """Renew once; answers how long to wait for the next time. None: fenced, and whoever asked for that was told."""
        wait_s = self._renew(self._lease_us / 3e6)
        if wait_s >= 0:
            return wait_s
        self._until_us = 0
        if not self._stop_now.is_set():
            self._on_fenced(self._worker_id)
        return None

    def _renew(self, every_s: float) -> float:
        """How long to wait for the next time, or -1: fenced."""
        if not self.holds_lease():
            return -1  # it never revives, though the store might still renew it: steps may have been held back for that
        sent_at = boottime_us()
        if self._stalled_us() > self._lease_us // 2:
            return every_s / 4  # a loop that does not move must not keep its runs for ever (PROTOCOL F38)
        try:
            renewed = self._store.renew(self._worker_id, self._lease_us)
        except Exception as error:  # noqa: BLE001 - a lease must not lapse for a fault that passes
            _log.warning("the lease of worker %s could not be renewed: %s", self._worker_id, error)
            return every_s / 4 if self.holds_lease() else -1
        if renewed is None:
            return -1
        self._clock.set(renewed.now)
        self._until_us = sent_at + self._lease_us
        if renewed.drain_asked_at is not None and not self._is_told_to_drain and not self._stop_now.is_set():
            self._is_told_to_drain = True
            self._on_drain_asked(self._worker_id)
        return every_s
