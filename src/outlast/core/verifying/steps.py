"""Attempts, their outcomes, and timers (invariants 4 and 5). Layer: core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from outlast.core.events import (
    AttemptStarted,
    Event,
    RunReopened,
    StepFailed,
    StepLost,
    StepSettled,
    StepStarted,
    StepSucceeded,
    TimerFired,
)
from outlast.core.verifying.broken import Broken, Rule

__all__ = ["check_steps", "check_timers"]

Outcome = StepSucceeded | StepFailed | StepSettled


def check_steps(events: Sequence[Event]) -> Iterator[Broken]:
    """A success is recorded once; an attempt's number is used once; attempts stay within their budget."""
    book = _Attempts()
    for event in events:
        match event:
            case RunReopened():
                book.used.clear()
            case StepStarted():
                book.retries[event.key] = event.retries
                if event.attempt > book.numbers.get(event.key, 0):  # else it waits for a place
                    yield from book.begin(event)
            case AttemptStarted():
                yield from book.begin(event)
            case StepSucceeded() | StepFailed() | StepSettled():
                yield from book.end(event)
            case StepLost() if event.attempt > book.numbers.get(event.key, 0):
                yield Broken(Rule.ATTEMPT, f"attempt {event.attempt} of step {event.key} was lost, and never began")
            case _:
                pass
    for key, count in book.successes.items():
        if count > 1:
            yield Broken(Rule.OUTCOME, f"step {key} succeeded {count} times")
    for (key, attempt), count in book.outcomes.items():
        if count > 1:
            yield Broken(Rule.OUTCOME, f"attempt {attempt} of step {key} has {count} outcomes")


class _Attempts:
    """What a journal said of its steps so far."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        """Latest attempt of each step, over the run's life."""
        self.used: Counter[str] = Counter()
        """Attempts since the last reopening."""
        self.retries: dict[str, int] = {}
        self.successes: Counter[str] = Counter()
        self.outcomes: Counter[tuple[str, int]] = Counter()

    def begin(self, event: StepStarted | AttemptStarted) -> Iterator[Broken]:
        """An attempt is on record."""
        key, before = event.key, self.numbers.get(event.key, 0)
        if event.attempt != before + 1:
            yield Broken(Rule.ATTEMPT, f"attempt {event.attempt} of step {key} follows attempt {before}")
        self.numbers[key] = event.attempt
        self.used[key] += 1
        allowed = self.retries.get(key, 0) + 1
        if self.used[key] > allowed:
            yield Broken(Rule.ATTEMPT, f"step {key} has had attempt {self.used[key]}, and {allowed} are allowed")

    def end(self, event: Outcome) -> Iterator[Broken]:
        """An attempt has an outcome."""
        key, attempt = event.key, event.attempt
        self.successes[key] += isinstance(event, StepSucceeded)
        self.outcomes[key, attempt] += 1
        if attempt > self.numbers.get(key, 0):
            yield Broken(Rule.ATTEMPT, f"attempt {attempt} of step {key} has an outcome and no beginning")


def check_timers(events: Sequence[Event]) -> Iterator[Broken]:
    """A timer fires once, and not before it is due (SPEC L11)."""
    fired: set[int] = set()
    for event in events:
        if isinstance(event, RunReopened):
            fired.clear()  # what lay behind the cut is armed anew
        elif isinstance(event, TimerFired):
            if event.timer in fired:
                yield Broken(Rule.TIMER, f"timer {event.timer} fired twice")
            if event.at < event.due:
                yield Broken(Rule.TIMER, f"timer {event.timer} fired {event.due - event.at} µs early")
            fired.add(event.timer)
