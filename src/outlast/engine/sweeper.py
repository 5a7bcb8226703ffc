"""What a worker does now and then: park, reap the dead, reconcile, look after suspended runs. Layer: engine.

Recovery needs no other service: every worker does all of it (SPEC L9). What always holds: one run or worker that cannot
be swept never stops the sweep.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from outlast.engine.books import park
from outlast.engine.versions.serving import CONFLICTS
from outlast.errors import Fenced, KeyNotFound, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.engine.hotruns import HotRuns
    from outlast.engine.worker import Worker
    from outlast.stores.store import WorkerRow

__all__ = ["PARK_AFTER_US", "PARK_SOON_US", "Sweeper", "park_rested"]

TICK_S = 0.25
PARK_SOON_US = 200_000
LONG_US = 60_000_000
"""A run that waits for nothing but time, and for so long or longer, need not stay for a second."""
PARK_AFTER_US = 1_000_000
"""A run whose next timer is nearer than this stays hot; one with nothing to do stays for this long, or for a hundred
times what its replay cost (PROTOCOL F39)."""
REAP_EVERY = 8
"""Ticks: every 2 s, and at start."""
RECONCILE_EVERY = 20
CARE_EVERY = 80
"""Peers, orphans, and suspended runs this worker may be able to go on with: every 20 s."""


class Sweeper:
    """One worker's; it counts in ticks of a quarter of a second."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._deploys: set[str] | None = None
        """Of the peers, as of the last look."""
        self._take_backs = 0
        self._tick = -1

    async def run(self) -> None:
        """For ever."""
        while True:
            self._tick += 1
            try:
                await self._sweep()
            except Fenced as error:
                self._worker.on_fenced(error.worker)
            except StoreError as error:
                self._worker.engine.log.warning("a sweep could not be finished: %s", error)
            except Exception:
                self._worker.engine.log.exception("a sweep failed; the next one is due as ever")
            await asyncio.sleep(TICK_S)

    async def _sweep(self) -> None:
        worker, tick = self._worker, self._tick
        home, store = worker.home, worker.engine.store
        if home is None or not worker.is_working:
            return
        park_rested(home)
        if tick % CARE_EVERY == 0:
            await self._care()
        look = worker.claims.last_look
        if tick % REAP_EVERY == 0 and (tick == 0 or (look is not None and (look.dead or look.lapsed))):
            await self._reap()
            await self._lapse()
        if tick % RECONCILE_EVERY == RECONCILE_EVERY - 1 or worker.engine.take_trouble():
            known = home.known()  # before asking: thousands may be parked by the time the answer is here
            owned = [mine for mine in await store.list_owned(worker.id) if mine.uid not in known]
            await home.reconcile(owned, worker.id)

    async def _reap(self) -> None:
        """Make the runs of dead workers due, some at a time."""
        while (reaped := await self._worker.engine.store.reap()) is not None:
            level = logging.WARNING if reaped.runs else logging.INFO
            self._worker.engine.log.log(
                level, "worker %s is gone: %d of its runs are due again", reaped.worker, reaped.runs
            )
            self._worker.claims.wake()

    async def _lapse(self) -> None:
        """Tell runs that queued steps of theirs are lost: with their workers, or their own leases are over."""
        while lost := await self._worker.engine.store.lapse_tasks():
            self._worker.engine.log.warning("%d queued steps are lost: their workers are gone", lost)
            self._worker.claims.wake()

    async def _take_back(self, peers: Sequence[WorkerRow]) -> None:
        """When a deploy is gone, what was left to it is anybody's again. Twice: a run may just be on its way there.

        It may have gone while none of this deploy was up: so the first worker of a deploy takes back too."""
        worker, deploys = self._worker, {peer.deploy for peer in peers}
        mine = worker.engine.deploy
        if self._deploys is None:  # ids are in the order of time: of several that start at once one is the first
            self._take_backs = int(not any(peer.deploy == mine and peer.id < worker.id for peer in peers))
        elif self._deploys - deploys:
            self._take_backs = 2
        self._deploys = deploys
        if self._take_backs:
            if await worker.engine.store.refit(mine):
                worker.claims.wake()
            self._take_backs -= 1

    async def _care(self) -> None:
        worker = self._worker
        home, store = worker.home, worker.engine.store
        assert home is not None
        peers = await store.list_workers()
        await home.tasks.look_after_sent([peer for peer in peers if peer.dead_at is None])
        alive = [peer for peer in peers if peer.id != worker.id and peer.dead_at is None]
        home.peers = [peer for peer in alive if {*worker.settings.queues} <= {*peer.queues}]
        await self._take_back(alive)
        await home.pools.discover(alive)
        if self._tick:
            await store.reap(orphans=True)
            await self._lapse()
        waiting = [f"FUNCTION_NOT_FOUND {name}" for name in worker.engine.registry.functions()]
        waiting += CONFLICTS
        waiting += [f"{KeyNotFound.code} {needs}" for needs in worker.engine.payloads.readable]
        if waiting and await store.redue(waiting, worker.engine.deploy):
            worker.claims.wake()


def park_rested(home: HotRuns) -> None:
    """Park runs that have rested long enough. Called a few times a second."""
    now = home.clock.now_us()
    for run in home.runs_at_rest():
        if now - run.rested_at < max(PARK_SOON_US, 100 * run.replay_us):
            continue
        due = run.next_due_us()
        if due is not None and due <= now:
            run.advance()  # its alarm counts by another clock than the store's, which was set forward
            continue
        sleeps = due is not None and due - now >= LONG_US and not (run.steps or run.waits)
        is_soon = due is not None and due - now <= PARK_AFTER_US
        if (sleeps or now - run.rested_at >= PARK_AFTER_US) and not is_soon and run.may_park():
            park(run, due)
