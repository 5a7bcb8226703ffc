"""A signal sent at every moment around a wait: before the run begins, while it loads, parks and wakes, and after.

A moment is one side of one call that the run's owner makes to its store for it. Each run of a test has its signal sent
at another one; those that never come to theirs show that no moment was left out.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from outlast import Outlast
from outlast.stores.records import RunQuery
from tests.waits.place import Place, until

MOMENTS = 50
"""More than a run has."""
FEWEST = 20


class Moments:
    """Counts, by run, the sides of the calls of a store; at its own moment a run has something done."""

    def __init__(self, store: Any, do: Callable[[str], Awaitable[None]]) -> None:
        self.own: dict[str, int] = {}
        self.reached: set[str] = set()
        self._passed: Counter[str] = Counter()
        self._do = do
        self._commit, self._claim = store.commit, store.claim
        store.commit, store.claim = self.commit, self.claim
        for name in ("read_journal", "read_inbox"):
            setattr(store, name, self._wrap(getattr(store, name)))

    async def _pass(self, *uids: str) -> None:
        for uid in uids:
            self._passed[uid] += 1
            if self._passed[uid] == self.own.get(uid):
                self.reached.add(uid)
                await self._do(uid)

    def _wrap(self, read: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def reading(uid: str, **options: Any) -> Any:
            await self._pass(uid)
            answer = await read(uid, **options)
            await self._pass(uid)
            return answer

        return reading

    async def commit(self, worker: Any, batch: Any) -> Any:
        uids = [progress.uid for progress in batch]
        await self._pass(*uids)
        outcomes = await self._commit(worker, batch)
        await self._pass(*uids)
        return outcomes

    async def claim(self, claiming: Any, sharing: Any = None) -> Any:
        claimed = await self._claim(claiming, sharing)
        await self._pass(*(one.uid for one in claimed))
        return claimed


async def at_rest(app: Outlast) -> None:
    """Wait until every run is parked and has read all that was sent to it, or has ended."""

    async def are_at_rest() -> bool:
        rows = await app._store.list_runs(RunQuery(limit=MOMENTS))
        return all(not row.live or (row.owner is None and row.wake_at is None) for row in rows)

    await until(are_at_rest, "rest")


# SPEC W3
@pytest.mark.parametrize(
    "url", ["memory", *(pytest.param(store, marks=pytest.mark.soak) for store in ("sqlite", "postgres"))], indirect=True
)
async def test_a_signal_is_delivered_once_whenever_it_is_sent(place: Place, parks_at_once) -> None:
    """In every run all three arrive, each once, and those that were sent one after the other in this order."""
    asks, works = place.make_app(), place.make_app()
    async with asks:
        runs = [await asks.start("paid", 3) for _ in range(MOMENTS)]
        by_uid = {run.uid: run for run in runs}
        moments = Moments(works._store, lambda uid: by_uid[uid].signal("paid", 9))
        moments.own = {run.uid: number for number, run in enumerate(runs)}
        await runs[0].signal("paid", 9)
        moments.reached.add(runs[0].uid)
        async with works.worker():
            for value in (1, 2):
                await at_rest(asks)
                await asyncio.gather(*(run.signal("paid", value) for run in runs))
            await at_rest(asks)
            await asyncio.gather(*(run.signal("paid", 9) for run in runs if run.uid not in moments.reached))
            results = await asyncio.gather(*(run.result(timeout=20) for run in runs))
    assert FEWEST < len(moments.reached) < MOMENTS
    for number, result in enumerate(results):
        assert (number, sorted(result)) == (number, [1, 2, 9])
        assert result.index(1) < result.index(2), number
