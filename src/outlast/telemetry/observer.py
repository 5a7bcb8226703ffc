"""Who is told of every commit that landed: traces, metrics, mirrors. Layer: telemetry.

The engine calls an observer in its event loop, after the commit has landed and everybody who waited for it was told.
What always holds: an observer that raises costs a log line, and no run (invariant 11); without one, the engine makes
none of these records. An observer that has work to do puts what it is given aside, and does it in a thread of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from outlast.telemetry.logs import unfailing

__all__ = ["Commit", "Landed", "Observer", "Observers"]

_log = unfailing("outlast.telemetry")


class Landed(msgspec.Struct, frozen=True, gc=False):
    """One entry of a run's journal, as it was stored. `(uid, seq)` tells it from all others, for good."""

    uid: str
    """The run's own UUID."""
    seq: int
    """Its position in the run's journal, from 0, without gaps."""
    at: int
    """When it was written, in µs since the Unix epoch, on the store's clock."""
    writer: str
    """Id of the worker that wrote it, or `client`."""
    events: bytes
    """A JSON array, as it lies in the store (`core.events`)."""


class Commit(msgspec.Struct, frozen=True, gc=False):
    """What one transaction of this process put on record."""

    entries: tuple[Landed, ...]
    took_us: int
    """How long the store took."""


class Observer(Protocol):
    """Told what this process has put on record, and what it read back. Both are called in the engine's event loop: be
    quick. Entries of a run come in their order, those of other processes do not come."""

    def landed(self, commit: Commit) -> None:
        """These entries have landed."""
        ...

    def recalled(self, uid: str, entries: Sequence[Landed]) -> None:
        """The run's whole journal so far: this process has taken it into memory, and goes on from there."""
        ...


class Observers:
    """Those of one app. Empty at first, and then it is falsy: the engine asks before it makes a record."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []
        self._broken: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._observers)

    def add(self, observer: Observer) -> None:
        """It is told from now on."""
        self._observers.append(observer)

    def remove(self, observer: Observer) -> None:
        """It is told no more."""
        if observer in self._observers:
            self._observers.remove(observer)

    def landed(self, commit: Commit) -> None:
        """Tell all."""
        for observer in tuple(self._observers):
            self._tell(observer, partial(observer.landed, commit))

    def recalled(self, uid: str, entries: Sequence[Landed]) -> None:
        """Tell all."""
        for observer in tuple(self._observers):
            self._tell(observer, partial(observer.recalled, uid, entries))

    def _tell(self, observer: Observer, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - whatever it does, the run has moved
            level = logging.DEBUG if id(observer) in self._broken else logging.ERROR
            self._broken.add(id(observer))
            _log.log(level, "%s failed to take note of what has landed", type(observer).__name__, exc_info=error)
