"""Queued steps that this worker was given and cannot read, for want of a key: it gives them back. Layer: engine.

What always holds: such an attempt has not begun, so it is no failure and costs no attempt; it waits in its queue for a
worker that has the key. Since a claim cannot tell, this worker comes upon it again and again, less and less often.
"""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING

from outlast.engine.clock import boottime_us
from outlast.errors import StoreError
from outlast.telemetry.logs import fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.engine.hotruns import HotRuns
    from outlast.stores.store import ClaimedTask

__all__ = ["UnreadTasks"]

FIRST_DELAY_US = 500_000
LAST_DELAY_US = 16_000_000
"""How long a task is left alone by everybody, once it was given back: whoever has the key waits for it as well."""
RETRY_S = 0.2
"""After a fault of the store."""
MOST_KNOWN = 10_000

Attempt = tuple[str, str, int]


class UnreadTasks:
    """Those of one worker."""

    def __init__(self, home: HotRuns) -> None:
        self._home = home
        self._times: dict[Attempt, int] = {}
        """How often each was given back, the latest last."""

    async def give_back(self, worker_id: str, tasks: Sequence[ClaimedTask], lease_until_us: int) -> None:
        """Have the store take them back; until it has, or until they lapse."""
        by_delay: dict[int, list[Attempt]] = collections.defaultdict(list)
        for task in tasks:
            by_delay[self._count(task)].append((task.run, task.key, task.attempt))
        for delay_us, held in by_delay.items():
            while boottime_us() < lease_until_us:
                try:
                    # CRASH: before it lands they are as any that were claimed and not begun: they lapse, and their
                    # runs are told that they are lost; behind it, they are due again for anybody.
                    # [test_killed_at[task-not-given-back]] [test_killed_at[task-given-back-and-not-told]]
                    await self._home.store.release_tasks(worker_id, held, delay_us)
                    break
                except StoreError as error:
                    self._home.log.warning("%d queued steps could not be given back: %s", len(held), error)
                    await asyncio.sleep(RETRY_S)

    def _count(self, task: ClaimedTask) -> int:
        """One more time; gives how long it is to be left alone."""
        attempt = (task.run, task.key, task.attempt)
        times = self._times.pop(attempt, 0)
        self._times[attempt] = times + 1
        if len(self._times) > MOST_KNOWN:
            del self._times[next(iter(self._times))]
        if not times:
            text = (
                "queued step %s of run %s cannot be read here without %s: it is left to one of queue %s that has it."
                " Give this one the key, with Outlast(codecs=…)"
            )
            extra = fields(None, task.key, task.attempt)
            self._home.log.warning(text, task.key, task.run, task.lacks, task.queue, extra=extra)
        return min(FIRST_DELAY_US << min(times, 10), LAST_DELAY_US)
