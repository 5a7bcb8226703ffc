"""Who waits for a run to move, in this process. Layer: engine.

A run that moves here wakes its watchers at once; one that moves elsewhere, by the store's hint, else by polling from
10 ms, slower by 1.6 each time, up to 1 s (SPEC R6). What always holds: a watcher that looks after it was registered
misses nothing, since the floor of the polling needs no hint.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from outlast.core.events import RunOutcome
    from outlast.stores.store import Store

__all__ = ["Changes", "Watch"]

FIRST_POLL_S = 0.01
POLL_FACTOR = 1.6
LAST_POLL_S = 1.0
HINT_GAP_S = 0.01


class Watch:
    """One watcher of one run."""

    __slots__ = ("_changed", "_poll_s", "end", "only_end")

    def __init__(self, *, only_end: bool) -> None:
        self.only_end = only_end
        """Entries that do not end the run are of no interest."""
        self.end: RunOutcome | None = None
        """The run's outcome, if it ended in this process while watched."""
        self._changed = asyncio.Event()
        self._poll_s = FIRST_POLL_S

    def tell(self, end: RunOutcome | None, *, left: bool = False) -> None:
        """An entry landed, with the run's end or without; or the run `left` this process."""
        if end is not None:
            self.end = end
        elif self.only_end and not left:
            return
        self._poll_s = FIRST_POLL_S
        self._changed.set()

    def hint(self) -> None:
        """Something changed in the store; it may have been this run."""
        self._changed.set()

    async def wait(self, *, is_hot: bool = False) -> None:
        """Until the run may have moved. One that moves in this process tells of it: no need to poll."""
        if is_hot:
            await self._changed.wait()
            self._changed.clear()
            return
        try:
            async with asyncio.timeout(self._poll_s):
                await self._changed.wait()
        except TimeoutError:
            self._poll_s = min(self._poll_s * POLL_FACTOR, LAST_POLL_S)
        self._changed.clear()


class Changes:
    """All watchers of this process."""

    def __init__(self, store: Store, is_hot: Callable[[str], bool]) -> None:
        """`is_hot` says which runs move in this process: their watchers need no hints."""
        self._store = store
        self._is_hot = is_hot
        self._watches: dict[str, set[Watch]] = {}
        self.watched: set[str] = set()
        """uids of the runs of which somebody wants to know every entry."""
        self._unsubscribe: Callable[[], None] | None = None
        self._hinting: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """Ask the store for no more hints."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    def moved(self, uid: str, end: RunOutcome | None, *, left: bool = False) -> None:
        """An entry of the run landed here; or it `left`: what becomes of it now, another process may know first."""
        watches = self._watches.get(uid)
        if watches:
            for watch in watches:
                watch.tell(end, left=left)

    @contextmanager
    def watching(self, uid: str, *, only_end: bool = False) -> Generator[Watch, None, None]:
        """Register before looking, so that nothing falls between."""
        watch = Watch(only_end=only_end)
        self._watches.setdefault(uid, set()).add(watch)
        if not only_end:
            self.watched.add(uid)
        if self._unsubscribe is None:
            self._unsubscribe = self._store.subscribe(self._hinted)
        try:
            yield watch
        finally:
            watches = self._watches[uid]
            watches.discard(watch)
            if all(other.only_end for other in watches):
                self.watched.discard(uid)
            if not watches:
                del self._watches[uid]
            if not self._watches:
                self.close()

    def _hinted(self) -> None:
        """Something changed somewhere: pass it on, many hints as one."""
        if self._hinting is None:
            self._hinting = asyncio.get_running_loop().call_later(HINT_GAP_S, self._pass_on)

    def _pass_on(self) -> None:
        self._hinting = None
        for uid, watches in self._watches.items():
            if not self._is_hot(uid):
                for watch in watches:
                    watch.hint()
