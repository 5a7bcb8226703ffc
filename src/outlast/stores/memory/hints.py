"""Who wants to know that something may have changed. Layer: stores (memory).

What always holds: a subscriber is called on its own event loop, never inside the call that told it, and once for all
that happened since it was called last.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

__all__ = ["Hints", "Subscription"]


class Subscription:
    """One subscriber, and the loop it lives on."""

    __slots__ = ("_callback", "_loop", "_pending", "_thread")

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._pending = False

    def tell(self) -> None:
        """Have the callback called soon. Raises `RuntimeError` when its loop is closed."""
        if self._pending:
            return
        self._pending = True
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self._call)
        else:
            self._loop.call_soon_threadsafe(self._call)

    def _call(self) -> None:
        self._pending = False
        self._callback()


class Hints:
    """The subscribers of one store."""

    __slots__ = ("_subscriptions",)

    def __init__(self) -> None:
        self._subscriptions: dict[Subscription, None] = {}

    def add(self, callback: Callable[[], None]) -> Subscription:
        """Have it called on the running event loop, until it is removed."""
        subscription = Subscription(callback)
        self._subscriptions[subscription] = None
        return subscription

    def remove(self, subscription: Subscription) -> None:
        """Removing twice is fine."""
        self._subscriptions.pop(subscription, None)

    def tell(self) -> None:
        """Something became due, got mail, or ended."""
        for subscription in tuple(self._subscriptions):
            try:
                subscription.tell()
            except RuntimeError:  # its loop was closed without unsubscribing
                self.remove(subscription)
