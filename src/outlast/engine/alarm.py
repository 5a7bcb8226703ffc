"""When a run is next due: the earliest of its body's timers and of its steps' retries. Layer: engine.

What always holds: while a run is hot, its alarm is set for what is next due, or nothing is; when it is evicted or
parked, `due_us` says what its row and its next load must know.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from outlast.core.attempts import OpenSteps
    from outlast.core.machine import Machine

__all__ = ["Alarm"]

LONGEST_S = 3600.0
"""The host's timers are not trusted for longer: it looks, and sets the alarm anew."""


class Alarm:
    """One run's."""

    __slots__ = ("_handle", "_retries", "_steps", "deadline_us", "due_us")

    def __init__(self, steps: OpenSteps) -> None:
        self._steps = steps
        self._retries: list[tuple[int, str]] = []
        """A heap; entries of steps that moved on since are skipped."""
        self._handle: asyncio.TimerHandle | None = None
        self.due_us: int | None = None
        """What it is set for; of an evicted run, when it is next due."""
        self.deadline_us: int | None = None
        """When the run is to be cancelled; None: never, or it was."""

    def add_retry(self, retry_at: int, key: str) -> None:
        """The step is due for its next attempt then, unless it moves on before."""
        heapq.heappush(self._retries, (retry_at, key))

    def take_retry(self) -> str:
        """Key of the step that is due first for its next attempt."""
        return heapq.heappop(self._retries)[1]

    def next_due_us(self, machine: Machine | None) -> int | None:
        """When a timer or a retry is next due, or the run's deadline; None: none of them is."""
        if machine is None:
            return self.due_us
        timers = machine.loop.timers
        if not (timers.heap or self._retries):
            return self.deadline_us
        timer = timers.next()
        due = None if timer is None else timer.due_us
        if self.deadline_us is not None and (due is None or self.deadline_us < due):
            due = self.deadline_us
        retries = self._retries
        while retries:
            retry_at, key = retries[0]
            step = self._steps.get(key)
            if step is not None and step.retry_at == retry_at:
                return retry_at if due is None or retry_at < due else due
            heapq.heappop(retries)
        return due

    def set(
        self, loop: asyncio.AbstractEventLoop, due_us: int | None, now_us: Callable[[], int], ring: Callable[[], None]
    ) -> None:
        """Ring then, and no other time."""
        if due_us == self.due_us and (self._handle is not None or due_us is None):
            return
        self.clear()
        self.due_us = due_us
        if due_us is not None:
            delay_s = max(0, due_us - now_us()) / 1_000_000
            self._handle = loop.call_later(min(delay_s, LONGEST_S), ring)

    @property
    def is_set(self) -> bool:
        """It will ring."""
        return self._handle is not None

    def rang(self) -> None:
        """It must be set again to ring again."""
        self._handle = None

    def clear(self) -> None:
        """Do not ring. What is next due stays known."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
