"""Which steps of a run are open, at which attempt, and when they are next due. Layer: core.

The engine's book beside the machine: it outlives an evicted body, and a journal builds it anew. What always holds: an
attempt's number is used once in a run's life, also over a `retry()`; only the budget begins anew then (PROTOCOL F26).
"""

from __future__ import annotations

from collections.abc import Iterable

from outlast.core.events import (
    AttemptStarted,
    Event,
    StepCancelled,
    StepFailed,
    StepLost,
    StepSettled,
    StepStarted,
    StepSucceeded,
)
from outlast.core.reopening import Reopening

__all__ = ["OpenStep", "OpenSteps"]


class OpenStep:
    """A step without an outcome."""

    __slots__ = ("attempt", "base", "is_elsewhere", "is_waiting", "kind", "queue", "retry_at")

    def __init__(
        self, attempt: int, base: int, kind: str = "step", queue: str = "", *, is_elsewhere: bool = False
    ) -> None:
        self.attempt = attempt
        """Number of the latest attempt on record; `base`: none yet in this budget, it waits for a place."""
        self.base = base
        """Attempts of earlier budgets: attempt `base + 1` is the first of this one."""
        self.retry_at: int | None = None
        """It failed, and is due again then."""
        self.is_waiting = False
        """Its latest attempt is over (lost, or failed and due again), and the next one waits for a place."""
        self.kind = kind
        self.is_elsewhere = is_elsewhere
        """Its outcome comes as a message: it needs no place here, and keeps no run in memory."""
        self.queue = queue
        """Its attempts are tasks of this queue; "": they are not."""

    @property
    def is_begun(self) -> bool:
        """An attempt is on record and has no outcome."""
        return self.attempt > self.base and self.retry_at is None and not self.is_waiting

    @property
    def used(self) -> int:
        """Attempts used of this budget."""
        return self.attempt - self.base


class OpenSteps(dict[str, OpenStep]):
    """Open steps by key."""

    __slots__ = ("elsewhere", "highest", "queued", "unsettled")

    def __init__(self) -> None:
        super().__init__()
        self.highest: dict[str, int] = {}
        """Attempts of steps that a `retry()` dropped: numbers go on from there."""
        self.unsettled: dict[str, int] = {}
        """Attempts that the body gave up and that may still end in the world, by key."""
        self.elsewhere: dict[str, None] = {}
        """Keys of those whose end will come as a message."""
        self.queued: dict[str, None] = {}
        """Keys of those among them that are tasks: one that nobody had claimed is gone without a word."""

    def start(
        self, key: str, attempt: int, *, kind: str = "step", is_elsewhere: bool = False, queue: str = ""
    ) -> OpenStep:
        """The body called the step. `attempt` 0: it waits for a place."""
        base = self.highest.get(key, 0) if self.highest else 0
        is_begun = attempt > base
        step = self[key] = OpenStep(
            attempt if is_begun else base, attempt - 1 if is_begun else base, kind, queue, is_elsewhere=is_elsewhere
        )
        return step

    def give_up(self, key: str, *, is_left: bool = False) -> None:
        """The body does not wait for it any more. `is_left`: nor does anybody else."""
        step = self.pop(key, None)
        if step is not None and step.is_begun and not is_left:
            self.unsettled[key] = step.attempt
            if step.is_elsewhere:
                self.elsewhere[key] = None
            if step.queue:
                self.queued[key] = None

    def base_of(self, key: str) -> int:
        """Attempts of this key that earlier budgets used."""
        return self.highest.get(key, 0)

    def apply(self, event: Event | Reopening) -> None:
        """Fold one event of a journal."""
        if type(event) is StepStarted:
            self.start(event.key, event.attempt, kind=event.kind, is_elsewhere=event.is_elsewhere, queue=event.queue)
        elif type(event) is StepSucceeded:
            self.pop(event.key, None)
        elif type(event) is StepCancelled:
            self.give_up(event.key, is_left=event.is_left)
        elif type(event) is StepSettled:
            self.unsettled.pop(event.key, None)
        elif type(event) is StepFailed:
            self._apply_failed(event)
        elif type(event) is AttemptStarted:
            step = self.get(event.key)
            if step is not None:
                step.attempt, step.retry_at, step.is_waiting = event.attempt, None, False
        elif type(event) is StepLost:
            step = self.get(event.key)
            if step is not None:
                step.is_waiting = True
        elif type(event) is Reopening:
            self._apply_reopening(event)

    def _apply_failed(self, event: StepFailed) -> None:
        if event.retry_at is None:
            self.pop(event.key, None)
        elif (step := self.get(event.key)) is not None:
            step.retry_at = event.retry_at

    def _apply_reopening(self, reopening: Reopening) -> None:
        self.unsettled.clear()  # whatever they came to, the end before this has swept it
        self.elsewhere.clear()
        for key in reopening.facts:
            self.pop(key, None)
        for key, step in self.items():
            step.attempt = step.base = max(self.highest.get(key, 0), step.attempt)
            step.retry_at, step.is_waiting = None, False

    def note_highest(self, events: Iterable[Event]) -> None:
        """Before folding a spliced journal: the highest attempt of every key before its last `RunReopened`, also where
        it was dropped. A key that the present budget uses starts above it."""
        for event in events:
            if isinstance(event, StepStarted | AttemptStarted):
                self.highest[event.key] = max(self.highest.get(event.key, 0), event.attempt)
