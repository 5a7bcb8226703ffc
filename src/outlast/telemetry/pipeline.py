"""From commits to metrics and traces, beside the engine. Layer: telemetry.

An observer that puts what it is told into a backlog, whose thread reads it and tells the subscribers. What always
holds: none of this runs in the event loop; what is behind is dropped and counted, never waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeAlias

from outlast.core.events import Event, decode_events
from outlast.telemetry.backlog import Backlog
from outlast.telemetry.observer import Commit, Landed
from outlast.telemetry.spans import Span, Tracker

__all__ = ["Pipeline", "Subscriber"]

LIMIT = 10_000
"""Commits, and journals read back, that may wait."""

Item: TypeAlias = "Commit | tuple[str, Sequence[Landed]] | Callable[[], object]"


class Subscriber(Protocol):
    """Told, in the pipeline's thread, of what landed."""

    def take_commit(self, commit: Commit) -> None:
        """One transaction."""
        ...

    def take_entry(self, events: Sequence[Event], spans: Sequence[Span]) -> None:
        """One entry of it: what happened, and what is over with it."""
        ...


class Pipeline:
    """An observer for metrics and traces."""

    def __init__(self) -> None:
        self.backlog: Backlog[Item] = Backlog("outlast-telemetry", self._handle, LIMIT)
        self._tracker = Tracker()
        self._subscribers: list[Subscriber] = []

    def subscribe(self, subscriber: Subscriber) -> None:
        """Tell it from now on."""
        self._subscribers.append(subscriber)

    def landed(self, commit: Commit) -> None:
        """See `Observer`."""
        self.backlog.put(commit)

    def recalled(self, uid: str, entries: Sequence[Landed]) -> None:
        """See `Observer`."""
        self.backlog.put((uid, entries))

    def later(self, work: Callable[[], object]) -> None:
        """Do this in the pipeline's thread: what an exporter may hang in."""
        self.backlog.put(work)

    def close(self, timeout_s: float) -> bool:
        """Finish what waits; False: not within that time."""
        return self.backlog.close(timeout_s)

    def _handle(self, item: Item) -> None:
        if isinstance(item, tuple):
            uid, entries = item
            self._tracker.recall(uid, entries)
        elif isinstance(item, Commit):
            for subscriber in self._subscribers:
                self.backlog.attempt(partial(subscriber.take_commit, item))
            for entry in item.entries:
                self.backlog.attempt(partial(self._take, entry))
        else:
            item()

    def _take(self, entry: Landed) -> None:
        events = decode_events(entry.events)
        spans = self._tracker.take(entry, events)
        for subscriber in self._subscribers:
            self.backlog.attempt(partial(subscriber.take_entry, events, spans))
