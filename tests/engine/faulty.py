"""A memory store whose commits fail on demand, whose clock a test moves, and which counts what it was sent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence

from outlast.errors import StoreRefused, StoreUnavailable
from outlast.stores.memory import MemoryStore
from outlast.stores.store import Outcome, Progress

START_US = 1_700_000_000_000_000
UNAVAILABLE = StoreUnavailable("memory://", "the line is cut")


class FaultyStore(MemoryStore):
    """`fail` makes the next commits fail, before they land or after; what is `refused` or `poison` is never taken."""

    def __init__(self) -> None:
        self.now_us = START_US
        super().__init__("memory://", lambda: self.now_us)
        self.sent: list[tuple[Progress, ...]] = []
        """Every batch as it came, in order, those that failed too."""
        self.refused: set[str] = set()
        """Runs of which no entry is taken."""
        self.poison = b""
        """Bytes that no entry may have."""
        self.open_gate = asyncio.Event()
        """Commits wait while it is not set."""
        self.open_gate.set()
        self._faults: deque[tuple[Exception, bool]] = deque()

    def fail(self, *errors: Exception, landed: bool = False) -> None:
        """The next commits raise these. With `landed`, what they carried is in the store all the same."""
        self._faults += [(error, landed) for error in errors]

    async def commit(self, worker_id: str | None, batch: Sequence[Progress]) -> list[Outcome]:
        """As the memory store's, with the faults that were asked for."""
        self.sent.append(tuple(batch))
        await self.open_gate.wait()
        error, landed = self._faults.popleft() if self._faults else (None, False)
        if error is not None and not landed:
            raise error
        for progress in batch:
            if progress.uid in self.refused or (self.poison and self.poison in progress.events):
                raise StoreRefused(self.url, progress.uid, "a value is too odd")
        outcomes = await super().commit(worker_id, batch)
        if error is not None:
            raise error
        return outcomes

    @property
    def batches(self) -> list[list[str]]:
        """The uids of each batch as it came."""
        return [uids_of(batch) for batch in self.sent]


def uids_of(batch: Iterable[Progress]) -> list[str]:
    return [progress.uid for progress in batch]
