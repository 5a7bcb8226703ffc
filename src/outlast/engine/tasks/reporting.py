"""Outcomes of queued steps on their way into the store, many in one transaction. Layer: engine.

Sent at once when idle, collected while a call is under way. What always holds: an outcome is sent, unchanged, until
the store has answered, under the id of the incarnation that claimed its task; and the store alone decides whether it
counts.
"""

from __future__ import annotations

import asyncio
import collections
import logging
from typing import TYPE_CHECKING

import msgspec

from outlast.authoring.exceptions import encode_error
from outlast.engine.tasks.wire import encode_report, read_report
from outlast.errors import StoreError, StoreRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from outlast.engine.tasks.held import HeldTask
    from outlast.stores.store import Store, TaskOutcome

__all__ = ["Reports"]

MOST_OUTCOMES = 500
MOST_BYTES = 4 * 1024 * 1024
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 2.0

Report = tuple["HeldTask", "TaskOutcome"]


class Reports:
    """One worker's."""

    def __init__(
        self,
        store: Store,
        log: logging.Logger,
        on_answer: Callable[[list[tuple[HeldTask, bool, bool]]], Awaitable[None]],
    ) -> None:
        """`on_answer` is told of each task whether its outcome counted, and whether it was sent more than once: then
        "no" may mean that it counted the first time."""
        self._store = store
        self._log = log
        self._on_answer = on_answer
        self._waiting: collections.deque[Report] = collections.deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_idle(self) -> bool:
        """Nothing is on its way."""
        return self._idle.is_set()

    def add(self, held: HeldTask, outcome: TaskOutcome) -> None:
        """Send it."""
        self._waiting.append((held, outcome))
        self._idle.clear()
        self._wake.set()

    async def settle(self) -> None:
        """Until all that was added has its answer."""
        await self._idle.wait()

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                try:
                    await self._send(self._take())
                except Exception:  # noqa: BLE001 - a bug of ours must not end the reports of all others
                    self._log.exception("outlast failed to report outcomes of queued steps; their leases will lapse")
            self._idle.set()

    def _take(self) -> list[Report]:
        """A batch of one incarnation's."""
        waiting = self._waiting
        worker_id, size = waiting[0][0].worker_id, 0
        batch: list[Report] = []
        while waiting and len(batch) < MOST_OUTCOMES and waiting[0][0].worker_id == worker_id:
            size += len(waiting[0][1].payload)
            if batch and size > MOST_BYTES:
                break
            batch.append(waiting.popleft())
        return batch

    async def _send(self, batch: Sequence[Report]) -> None:
        """Until the store has answered; halved when it refuses the batch as a whole."""
        try:
            answers, is_repeat = await self._complete(batch)
        except StoreRefused as error:
            await self._send_apart(batch, error)
            return
        await self._on_answer([(held, counted, is_repeat) for (held, _), counted in zip(batch, answers, strict=True)])

    async def _complete(self, batch: Sequence[Report]) -> tuple[list[bool], bool]:
        """The store's answers, and whether it was asked more than once. Raises StoreRefused."""
        worker_id, outcomes = batch[0][0].worker_id, [outcome for _, outcome in batch]
        delay_s, is_repeat = FIRST_RETRY_S, False
        while True:
            try:
                # CRASH: the outcomes are with their runs and nobody was told; their tasks are gone, so nobody starts
                # them again. [test_killed_at[task-completed-and-not-told]]
                return await self._store.complete_tasks(worker_id, outcomes), is_repeat
            except StoreRefused:
                raise
            except StoreError as error:
                text = "%d outcomes of queued steps could not be reported, trying again in %.2f s: %s"
                self._log.warning(text, len(batch), delay_s, error)
                is_repeat = True
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, LAST_RETRY_S)

    async def _send_apart(self, batch: Sequence[Report], error: StoreRefused) -> None:
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._send(batch[:middle])
            await self._send(batch[middle:])
            return
        ((held, outcome),) = batch
        report = read_report(outcome.payload)
        if report.error is not None:
            raise error  # what says so is refused as well
        failed = msgspec.structs.replace(report, value=msgspec.Raw(b"null"), error=encode_error(error))
        await self._send([(held, msgspec.structs.replace(outcome, payload=encode_report(failed)))])
