"""The history of a run's attempts: who ran what, when, with what, and how it ended. Layer: core.

What always holds: one entry for each attempt that was ever recorded (SPEC O1), also for those that a `retry()` dropped.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from outlast.core.events import (
    AttemptStarted,
    ErrorRecord,
    Event,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunReopened,
    StepCancelled,
    StepFailed,
    StepLost,
    StepSettled,
    StepStarted,
    StepSucceeded,
)
from outlast.core.fold import Fold, Journal, Written
from outlast.core.states import StepStatus

__all__ = ["Attempt", "AttemptStatus", "list_attempts"]


class AttemptStatus(enum.StrEnum):
    """Of one attempt of a step."""

    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    """Its worker is gone; whether it had its effect, nobody knows."""


class Attempt(msgspec.Struct):
    """One execution of a step, with all that is known of it. Instants are µs."""

    key: str
    attempt: int
    function: str
    kind: str
    arguments: msgspec.Raw
    after: str | None
    """Key of the step the body called before this one."""
    worker: str
    """Who ran it; of a queued one that has not ended, who recorded it."""
    began_at: int
    """When it began; while that is not known, when it was recorded."""
    status: AttemptStatus = AttemptStatus.STARTED
    ended_at: int | None = None
    value: msgspec.Raw | None = None
    error: ErrorRecord | None = None
    """Value and error of a cancelled attempt: how it ended in the world all the same."""
    retry_at: int | None = None
    is_current: bool = True
    """False: a `retry()` dropped it, and the run goes on as if it had not been."""


def list_attempts(journal: Journal, key: str | None = None) -> list[Attempt]:
    """Every attempt of every step, or of the one with that `key`, in the order in which they were recorded."""
    history = _History(key)
    for entry, events in journal:
        for event in events:
            history.apply(event, entry)
    return [known.attempt for known in history.attempts.values()]


class _Known:
    """An attempt, and the number of the event that ended it."""

    __slots__ = ("attempt", "ended")

    def __init__(self, attempt: Attempt) -> None:
        self.attempt = attempt
        self.ended: int | None = None

    def end(self, number: int, at: int, status: AttemptStatus, worker: str = "") -> None:
        self.ended, self.attempt.ended_at, self.attempt.status = number, at, status
        self.attempt.worker = worker or self.attempt.worker


class _History:
    def __init__(self, key: str | None) -> None:
        self.attempts: dict[tuple[str, int], _Known] = {}
        self._key = key
        """Of the only step that is asked about; None: all are."""
        self._latest: dict[str, _Known] = {}
        self._calls: dict[str, StepStarted] = {}
        self._fold = Fold()
        self._writer = ""

    def apply(self, event: Event, entry: Written) -> None:
        self._writer = entry.writer
        self._fold.apply(event, entry.at)
        take = self._TAKERS.get(type(event))
        if take is not None and (self._key is None or getattr(event, "key", self._key) == self._key):
            take(self, event)

    def _call(self, event: StepStarted) -> None:
        self._calls[event.key] = event
        if event.queue or self._fold.view.steps[event.key].status is StepStatus.STARTED:
            self._begin(event)

    def _begin(self, event: StepStarted | AttemptStarted) -> None:
        call, view = self._calls.get(event.key), self._fold.view
        if call is None:
            return
        attempt = Attempt(
            event.key, event.attempt, call.function, call.kind, call.arguments, call.after, self._writer, view.at
        )
        self.attempts[event.key, event.attempt] = self._latest[event.key] = _Known(attempt)

    def _succeed(self, event: StepSucceeded) -> None:
        known = self.attempts.get((event.key, event.attempt))
        if known is not None:
            known.end(self._fold.view.seq, event.at, AttemptStatus.SUCCEEDED, event.worker)
            known.attempt.value, known.attempt.began_at = event.value, event.began_at or known.attempt.began_at

    def _fail(self, event: StepFailed) -> None:
        """A lost attempt stays lost; that no other follows may be said with it."""
        known = self.attempts.get((event.key, event.attempt))
        if known is None:
            return
        was_lost = known.attempt.status is AttemptStatus.LOST
        status = AttemptStatus.LOST if was_lost else AttemptStatus.FAILED
        known.end(self._fold.view.seq, event.at, status, event.worker)
        known.attempt.began_at = event.began_at or known.attempt.began_at
        known.attempt.error, known.attempt.retry_at = event.error, event.retry_at

    def _lose(self, event: StepLost) -> None:
        known = self.attempts.get((event.key, event.attempt))
        if known is not None:
            known.end(self._fold.view.seq, event.at, AttemptStatus.LOST)

    def _settle(self, event: StepSettled) -> None:
        known = self.attempts.get((event.key, event.attempt))
        if known is not None:
            known.attempt.ended_at, known.attempt.error = event.at, event.error
            known.attempt.worker = event.worker or known.attempt.worker
            known.attempt.value = event.value if event.error is None else None

    def _cancel(self, event: StepCancelled) -> None:
        self._cancel_open([self._latest[event.key]] if event.key in self._latest else [])

    def _end_run(self, _event: Event) -> None:
        """A body that is cancelled by force gives its steps up without a word about each."""
        self._cancel_open(list(self._latest.values()))

    def _cancel_open(self, attempts: list[_Known]) -> None:
        for known in attempts:
            if known.attempt.status is AttemptStatus.STARTED:
                known.end(self._fold.view.seq, self._fold.view.at, AttemptStatus.CANCELLED)

    def _reopen(self, event: RunReopened) -> None:
        """Behind the cut only successes stand."""
        for known in self.attempts.values():
            is_behind = known.ended is None or known.ended >= event.cut
            if is_behind and known.attempt.status is not AttemptStatus.SUCCEEDED:
                known.attempt.is_current = False

    _TAKERS: ClassVar[dict[type, Callable[[_History, Any], None]]] = {
        StepStarted: _call,
        AttemptStarted: _begin,
        StepSucceeded: _succeed,
        StepFailed: _fail,
        StepLost: _lose,
        StepSettled: _settle,
        StepCancelled: _cancel,
        RunCompleted: _end_run,
        RunFailed: _end_run,
        RunCancelled: _end_run,
        RunReopened: _reopen,
    }
