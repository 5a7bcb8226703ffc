"""Leases of the queued steps that a worker holds. Layer: engine.

All are renewed in one call, every third of the shortest, and sooner when one of them has something to say or is to
stop. What always holds: `lease_until_us` counts from before the call that got the lease was sent; past it a step is
given up, for somebody else may have it.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from outlast.engine.clock import boottime_us
from outlast.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from outlast.engine.hotruns import HotRuns
    from outlast.engine.tasks.held import HeldTask

__all__ = ["TaskLeases"]

GAP_US = 250_000
"""Renewals are at least this far apart, however much there is to say."""


class TaskLeases:
    """One worker's."""

    def __init__(
        self, home: HotRuns, held: Callable[[], Iterable[HeldTask]], on_lost: Callable[[HeldTask], None]
    ) -> None:
        self._home = home
        self._held = held
        self._on_lost = on_lost
        self._due_us: int | None = None
        self._last_us = 0
        self._changed = asyncio.Event()

    def renew_soon(self, within_us: int) -> None:
        """Renew all at this distance from now at the latest."""
        due_us = max(boottime_us() + within_us, self._last_us + GAP_US)
        if self._due_us is None or due_us < self._due_us:
            self._due_us = due_us
            self._changed.set()

    async def run(self) -> None:
        """Renew when it is time, for ever."""
        while True:
            await self._wait()
            self._due_us, self._last_us = None, boottime_us()
            try:
                await self.renew()
            except StoreError as error:
                self._home.log.warning("leases of queued steps could not be renewed: %s", error)
            except Exception:
                self._home.log.exception("leases of queued steps could not be renewed; it is tried again")
            shortest_us = min((held.lease_us for held in self._held()), default=None)
            if shortest_us is not None:
                self.renew_soon(shortest_us // 3)

    async def _wait(self) -> None:
        while True:
            self._changed.clear()
            due_us = self._due_us
            if due_us is None:
                await self._changed.wait()
                continue
            left_s = (due_us - boottime_us()) / 1e6
            if left_s <= 0:
                return
            try:
                async with asyncio.timeout(left_s):
                    await self._changed.wait()
            except TimeoutError:
                return

    async def renew(self) -> None:
        """One renewal of all that are held. Those that are to be given up are told to stop."""
        held = sorted(self._held(), key=_by_lease)
        for lease_us, tasks in itertools.groupby(held, key=_by_lease):
            await self._renew(lease_us, list(tasks))

    async def _renew(self, lease_us: int, tasks: Sequence[HeldTask]) -> None:
        sent_at_us, worker_id = boottime_us(), self._home.worker_id
        leases = [held.lease for held in tasks if held.worker_id == worker_id and not held.is_dropped]
        if not leases:
            return
        given_up = set(await self._home.store.renew_tasks(worker_id, leases, lease_us))
        for held in tasks:
            held.lease_until_us = max(held.lease_until_us, sent_at_us + lease_us)
            if (held.uid, held.key, held.attempt) in given_up and not held.is_over:
                held.taker.stop(held)

    # --- the clock of this machine ------------------------------------------------------------------------------------

    def expect(self, held: HeldTask) -> None:
        """It was claimed: watch that it does not outlive its lease, also while the store gives no answer."""
        left_us = held.lease_until_us - boottime_us()
        held.alarm = self._home.loop.call_later(max(left_us, 0) / 1e6, self._ring, held)

    def _ring(self, held: HeldTask) -> None:
        if held.is_over or held.is_dropped:
            return  # what is reported, the store judges
        if boottime_us() < held.lease_until_us:
            self.expect(held)
        else:
            self._on_lost(held)


def _by_lease(held: HeldTask) -> int:
    return held.lease_us
