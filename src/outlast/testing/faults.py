"""A store that has its bad days: calls that fail, come late, or landed and say that they failed. Layer: testing.

It is no double of a store: what it passes on is done by the real one, whichever that is. What always holds: a fault is
one that every store may have by its protocol, so an engine that survives none of them is at fault, not the test; the
same seed and the same calls give the same faults; and each is counted, so that a test can see that it met some.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import random
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from outlast.errors import StoreFull, StoreUnavailable

if TYPE_CHECKING:
    from outlast.stores.store import Renewed, Store

__all__ = ["Faults", "FaultyStore", "faulty"]

UNTOUCHED = frozenset({"open", "close"})
"""Opening and closing never fail: they are the process's own, and not a call of its engine's."""


class Faults:
    """What goes wrong, and how often: each a share of the calls, from 0 to 1. Drawn from `seed`.

    `lost`: the call never came to the store, and fails. `untold`: it was carried out, and fails all the same. `full`: a
    commit is refused, for there is no room; nothing of it landed. `slow`: call and answer take up to `slow_s` each.
    `hints_lost`, `hints_late` and `hints_doubled` are shares of the hints that something changed; a late one takes up
    to `slow_s`.
    """

    def __init__(
        self,
        seed: object,
        *,
        lost: float = 0.03,
        untold: float = 0.03,
        full: float = 0.0,
        slow: float = 0.1,
        slow_s: float = 0.05,
        hints_lost: float = 0.2,
        hints_late: float = 0.2,
        hints_doubled: float = 0.1,
    ) -> None:
        self.lost, self.untold, self.full = lost, untold, full
        self.slow, self.slow_s = slow, slow_s
        self.hints_lost, self.hints_late, self.hints_doubled = hints_lost, hints_late, hints_doubled
        self.is_calm = False
        """Nothing goes wrong any more."""
        self.met: Counter[str] = Counter()
        """How often each happened."""
        self._random = random.Random(str(seed))

    def strikes(self, fault: str) -> bool:
        """Whether this fault, by its name, happens to the call at hand."""
        if self.is_calm or self._random.random() >= getattr(self, fault):
            return False
        self.met[fault] += 1
        return True

    def delay_s(self) -> float:
        """How long the call at hand, or its answer, is under way."""
        return self._random.uniform(0, self.slow_s) if self.strikes("slow") else 0.0

    def hint_delays(self) -> list[float]:
        """When each copy of the hint at hand comes, in seconds from now: one, none or two of them."""
        if self.strikes("hints_lost"):
            return []
        delays = [self._random.uniform(0, self.slow_s) if self.strikes("hints_late") else 0.0]
        return delays * 2 if self.strikes("hints_doubled") else delays


class FaultyStore:
    """A store in front of another, with faults. `faulty` makes one; an app works on it by `app.on_store`."""

    def __init__(self, store: Store, faults: Faults) -> None:
        self.url = store.url
        self.faults = faults
        self._store = store

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name.startswith("_") or name in UNTOUCHED or not inspect.iscoroutinefunction(found):
            return found
        call = functools.partial(self._call, found, name == "commit")
        self.__dict__[name] = call  # looked up once
        return call

    async def _call(self, method: Callable[..., Any], is_commit: bool, *args: Any, **kwargs: Any) -> Any:
        faults = self.faults
        if faults.is_calm:
            return await method(*args, **kwargs)
        await self._travel()
        if faults.strikes("lost"):
            raise StoreUnavailable(self.url, "the call was lost")
        if is_commit and faults.strikes("full"):
            raise StoreFull(self.url, "so it is said")
        answer = await method(*args, **kwargs)
        await self._travel()
        if faults.strikes("untold"):
            raise StoreUnavailable(self.url, "the answer was lost")
        return answer

    async def _travel(self) -> None:
        delay = self.faults.delay_s()
        if delay:
            await asyncio.sleep(delay)

    def renew(self, worker_id: str, lease_us: int) -> Renewed | None:
        """As the store's. It is called from a thread of its own, and is never slow here."""
        if self.faults.strikes("lost"):
            raise StoreUnavailable(self.url, "the renewal was lost")
        renewed = self._store.renew(worker_id, lease_us)
        if self.faults.strikes("untold"):
            raise StoreUnavailable(self.url, "the answer to the renewal was lost")
        return renewed

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """As the store's, but that a hint may come late, twice or never."""
        loop = asyncio.get_running_loop()

        def pass_on() -> None:
            for delay in self.faults.hint_delays():
                loop.call_later(delay, callback)

        return self._store.subscribe(pass_on)


def faulty(store: Store, faults: Faults) -> Store:
    """This store, with these faults: `app.on_store(faulty(MemoryStore(), Faults(seed=1)))`."""
    return cast("Store", FaultyStore(store, faults))
