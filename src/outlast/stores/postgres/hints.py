"""Who wants to know that something may have changed. Layer: stores (postgres).

What this process writes is told to its own subscribers at once, and to others by NOTIFY: after the commit, on another
connection, many changes as one. (Inside the transaction it would take a lock that all of a database share until the
commit is on disk.) What others write comes by LISTEN, on a connection that is there while somebody is subscribed. It
notifies itself now and then: when nothing comes back it is made anew, for a connection may die without a word. What
always holds: a subscriber is called on the event loop, once for all that happened since it was called last; and nothing
is wrong when it never is.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from outlast.errors import OutlastError, StoreUnavailable
from outlast.stores.postgres.link import connect
from outlast.stores.postgres.settings import Role
from outlast.stores.postgres.statements import load_statements
from outlast.telemetry.logs import unfailing

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.stores.postgres.link import Link
    from outlast.stores.postgres.pool import Pool

__all__ = ["Hints"]

_GAP_S = 0.02
"""Between two notifications of one process."""
_PROBE_S = 15.0
"""How long a listener may hear nothing of itself before it asks."""
_ANSWER_S = 5.0
_FIRST_PAUSE_S = 0.1
_LAST_PAUSE_S = 5.0
_CLOSE_S = 1.0

_sql = load_statements("workers")

_log = unfailing("outlast.stores.postgres")


class Hints:
    """Of one open store; all of it is for the event loop."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._callbacks: dict[object, Callable[[], None]] = {}
        self._is_told = False
        self._has_news = False
        self._notifying: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()
        """Listeners that were told to end, and have not yet."""
        self._heard = asyncio.Event()
        """The listener heard itself."""

    def add(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Subscribe; answers the unsubscribing call, which may be made twice."""
        subscription = object()
        self._callbacks[subscription] = callback
        if self._listening is None and not self._pool.settings.pooler:
            self._listening = self._loop.create_task(self._listen_for_ever(), name="outlast-postgres-hints")

        def remove() -> None:
            self._callbacks.pop(subscription, None)
            if not self._callbacks:
                self._stop_listening()

        return remove

    def tell(self) -> None:
        """This process changed something."""
        self._call_soon()
        self._has_news = True
        if self._notifying is None:
            self._notifying = self._loop.create_task(self._notify(), name="outlast-postgres-notify")

    async def close(self) -> None:
        """Tell what is to be told, then nobody any more."""
        self._callbacks.clear()
        self._stop_listening()
        notifying = self._notifying
        if notifying is not None:
            await asyncio.wait([notifying], timeout=_CLOSE_S)
            notifying.cancel()
        await asyncio.gather(*filter(None, [notifying, *self._ending]), return_exceptions=True)

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self._ending.add(self._listening)
            self._listening.add_done_callback(self._ending.discard)
            self._listening.cancel()
            self._listening = None

    # --- to this process ---

    def _call_soon(self) -> None:
        if self._callbacks and not self._is_told:
            self._is_told = True
            self._loop.call_soon(self._call)

    def _call(self) -> None:
        self._is_told = False
        for callback in tuple(self._callbacks.values()):
            callback()

    # --- to others ---

    async def _notify(self) -> None:
        """Tell the others at once, and then as often as there is news, with a gap between."""
        try:
            while self._has_news:
                self._has_news = False
                with contextlib.suppress(OutlastError):
                    async with self._pool.link() as link:
                        await link.find(_sql["notify"], channel=self._channel)
                if not self._has_news:
                    break
                await asyncio.sleep(_GAP_S)
        finally:
            self._notifying = None

    @property
    def _channel(self) -> str:
        return f"outlast in {self._pool.settings.schema}"

    # --- from others ---

    async def _listen_for_ever(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                link = await connect(self._pool.settings, Role.WORK)
            except OutlastError as error:
                _log.warning("cannot listen for changes, trying again: %s", error)
            else:
                try:
                    await self._listen(link)
                    pause_s = _FIRST_PAUSE_S
                except OutlastError as error:
                    _log.info("the connection that listens for changes was lost, and is made anew: %s", error)
                finally:
                    link.drop()
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, _LAST_PAUSE_S)

    async def _listen(self, link: Link) -> None:
        """Until it breaks, or does not hear itself."""
        own, ended = link.pid, asyncio.Event()
        link.call_at_end(ended.set)
        await link.listen(self._channel, lambda pid: self._heard.set() if pid == own else self._call_soon())
        self._call_soon()  # for what came before
        while not await _is_set(ended, _PROBE_S):
            self._heard.clear()
            await link.find(_sql["notify"], channel=self._channel)
            if not await _is_set(self._heard, _ANSWER_S):
                raise StoreUnavailable(link.settings.url, "a listener did not hear itself")
        raise StoreUnavailable(link.settings.url, "the server closed the connection")


async def _is_set(event: asyncio.Event, within_s: float) -> bool:
    """Wait for it, but no longer."""
    try:
        async with asyncio.timeout(within_s):
            await event.wait()
    except TimeoutError:
        return False
    return True
