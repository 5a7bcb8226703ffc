"""A writer on a faulty store, and what it told whom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from outlast.engine.writer import Answer, Writer
from outlast.stores.store import Progress, WorkerRow
from tests.engine.faulty import FaultyStore

LEASE_US = 10_000_000


class Writing:
    """Submits parts, and keeps the answers in the order in which they were told."""

    def __init__(self, store: FaultyStore) -> None:
        self.store = store
        self.fenced: list[str] = []
        self.troubles = 0
        self.told: list[tuple[str, Answer]] = []
        self.writer = Writer(store, self.fenced.append, self._on_trouble)

    def submit(self, *parts: Progress, by: str | None = None) -> list[Answer]:
        """All at once. The list that is given grows as they are answered."""
        answers: list[Answer] = []
        for part in parts:
            self.writer.submit(part, self._listener(part.uid, answers), by=by)
        return answers

    async def write(self, *parts: Progress, by: str | None = None) -> list[Answer]:
        """Submit all at once, and wait until all are answered."""
        answers = self.submit(*parts, by=by)
        await self.until(lambda: len(answers) == len(parts))
        return answers

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not holds():
                await asyncio.sleep(0.001)

    async def register(self, worker_id: str) -> None:
        """From now on this process writes as that incarnation of its worker."""
        await self.store.register(WorkerRow(worker_id, "host", 1), LEASE_US)
        self.writer.worker_id = worker_id

    def _listener(self, uid: str, answers: list[Answer]) -> Callable[[Answer], None]:
        def hear(answer: Answer) -> None:
            self.told.append((uid, answer))
            answers.append(answer)

        return hear

    def _on_trouble(self) -> None:
        self.troubles += 1
