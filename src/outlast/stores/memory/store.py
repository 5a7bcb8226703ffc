"""`MemoryStore`: the store's methods, put together. Layer: stores (memory).

Each method's promise stands in `outlast.stores.store`; its subject says where it is: commits, mail, runs, tasks,
workers.
"""

# ruff: noqa: D102 - a method's promise stands in stores/store.py, once for all backends

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING

from outlast.errors import InvalidSetting
from outlast.stores.memory.commits import Commits
from outlast.stores.memory.runs import Runs
from outlast.stores.memory.tables import Tables
from outlast.stores.memory.tasks import Tasks
from outlast.stores.memory.versions import Versions
from outlast.stores.memory.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.stores.memory.hints import Subscription
    from outlast.stores.store import Store

__all__ = ["MemoryStore"]

_SCHEME = "memory://"

_named: dict[str, Tables] = {}
"""What the names of this process stand for. For good: a test that stops an app and starts another under the same name
wants to find its runs again."""


class MemoryStore(Commits, Tasks, Runs, Workers, Versions):
    """A store in this process's memory.

    `memory://` is the object's own; all objects made from `memory://name` in a process are handles on the same data,
    also from several threads. `clock` answers µs since the Unix epoch, and makes the store's time a test's own; given
    for a name that exists, it is the clock of all its handles from then on.

    What it refuses is in `Fences`: override a method of it to see what that rule is for.
    """

    def __init__(self, url: str = _SCHEME, clock: Callable[[], int] | None = None) -> None:
        if not url.startswith(_SCHEME):
            raise InvalidSetting("store URL", url, f"{_SCHEME} or {_SCHEME}name")
        name = url.removeprefix(_SCHEME)
        fresh = Tables(clock or _wall_clock)
        tables = _named.setdefault(name, fresh) if name else fresh
        if clock is not None:
            tables.clock = clock
        super().__init__(url, tables)
        self._subscriptions: list[Subscription] = []

    def again(self) -> MemoryStore:
        """Another handle on the same data, not opened: what another process would have."""
        other = copy.copy(self)
        other._is_open, other._subscriptions = False, []  # noqa: SLF001 - a copy of our own
        return other

    async def open(self) -> None:
        self._is_open = True

    async def close(self) -> None:
        self._is_open = False
        for subscription in self._subscriptions:
            self._tables.hints.remove(subscription)
        self._subscriptions.clear()

    async def now(self) -> int:
        return self._opened().clock()

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        hints = self._opened().hints
        subscription = hints.add(callback)
        self._subscriptions.append(subscription)

        def unsubscribe() -> None:
            hints.remove(subscription)
            if subscription in self._subscriptions:
                self._subscriptions.remove(subscription)

        return unsubscribe


def _wall_clock() -> int:
    return time.time_ns() // 1000


if TYPE_CHECKING:
    _: type[Store] = MemoryStore  # the checker's word that nothing of the protocol is missing
