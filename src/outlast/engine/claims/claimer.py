"""When a worker looks for what is due, and how much of it it takes. Layer: engine.

What always holds: a worker without a free place does not ask for what it could not take, and hears of the next place.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from outlast.errors import Fenced, StoreError
from outlast.stores.store import Claiming

if TYPE_CHECKING:
    from outlast.engine.hotruns import HotRuns
    from outlast.engine.worker import Worker
    from outlast.stores.store import Look

__all__ = ["FLOOR_S", "Claimer"]

FLOOR_S = 1.0
"""How often an idle worker looks without a hint (SPEC Q3)."""
HINT_GAP_S = 0.01
"""Looks that hints ask for are at least this far apart; the first after a pause is at once."""
PLACE_GAP_S = 0.001
"""The same of looks that places ask for, which came free in a full worker: so that one look fills several."""
CLAIM_AT_MOST = 500


class Claimer:
    """Of one worker, all its incarnations."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._engine = worker.engine
        self._wake = asyncio.Event()
        self._claims = 0
        self._pools_first = False
        self.last_look: Look | None = None

    def wake(self) -> None:
        """Something may be due, or a place is free: look soon."""
        self._wake.set()

    def claiming(self, limit: int, queues: tuple[str, ...] | None = None) -> Claiming:
        """Who asks for work, and for what. Every eighth time the oldest is asked for, whatever its priority (F34)."""
        self._claims += 1
        wanted = self._worker.settings.queues if queues is None else queues
        return Claiming(self._worker.id, wanted, self._engine.deploy, limit, oldest_first=self._claims % 8 == 0)

    def looking(self) -> Claiming:
        """What the worker looks for."""
        home = self._worker.home
        lanes = () if home is None else home.pools.lanes
        return msgspec.structs.replace(self.claiming(1), lanes=lanes)

    async def run(self) -> None:
        """Until the worker drains."""
        loop = asyncio.get_running_loop()
        while not self._worker.is_draining:
            wait_s = FLOOR_S
            try:
                if self._worker.is_working:
                    wait_s = await self._look_and_claim()
            except Fenced as error:
                self._worker.on_fenced(error.worker)
            except StoreError as error:
                self._engine.log.warning("the store could not be asked for work: %s", error)
                self._engine.trouble()
            except Exception:
                self._engine.log.exception("worker %s failed to claim work; it tries again", self._worker.id)
                self._engine.trouble()
            if wait_s > 0:
                looked_at = loop.time()
                try:
                    async with asyncio.timeout(wait_s):  # wait_for may swallow a cancel, before Python 3.12
                        await self._wake.wait()
                    gap_s = self._gap_s() if wait_s > HINT_GAP_S else 0
                    await asyncio.sleep(looked_at + gap_s - loop.time())
                except TimeoutError:
                    pass
            self._wake.clear()

    def _gap_s(self) -> float:
        """How long after a look another may follow."""
        home = self._worker.home
        if home is None or home.pools.has_freed:
            return 0
        return PLACE_GAP_S if home.is_short and home.free > 0 else HINT_GAP_S

    async def _look_and_claim(self) -> float:
        """One look, and what it led to; answers how long to wait for the next, in seconds."""
        home, store = self._worker.home, self._engine.store
        assert home is not None
        look = self.last_look = await store.look(self.looking())
        self._engine.clock.catch_up(look.now)
        if look.mail:
            await home.read_mail(look.mail)
        home.tasks.looked(look)
        home.pools.looked(look.lanes)
        has_taken = False
        if home.free > 0:
            self._pools_first = not self._pools_first  # so that neither has only what the other leaves
        if look.lanes and self._pools_first:
            has_taken = await home.pools.claim(look.lanes)
        places = min(home.free, CLAIM_AT_MOST - home.pools.moving)
        if look.due and places > 0 and self._worker.is_working:
            await self._claim(home, places)
            has_taken = True
        if look.lanes and not has_taken:
            has_taken = await home.pools.claim(look.lanes)
        wants_more = bool(has_taken or look.due or look.lanes)
        home.is_short = wants_more and home.free <= 0  # then the next free place wakes this worker
        if has_taken or home.is_short:
            return FLOOR_S if home.is_short else 0.0
        if look.next_at is None:
            return FLOOR_S
        return min(FLOOR_S, max(0.001, (look.next_at - look.now) / 1e6))

    async def _claim(self, home: HotRuns, places: int) -> None:
        """As many of the runs that are due."""
        claiming = self.claiming(places)
        with home.asking():
            for claim in await self._engine.store.claim(claiming):
                home.pools.given(claim, claiming.worker)
