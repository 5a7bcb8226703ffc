"""One line of entries, nothing behind an end, and no moves of a run that is set aside (invariants 1, 2 and 7).
Layer: core."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol

from outlast.core.events import (
    OUTCOMES,
    AttemptStarted,
    CancelRequested,
    Event,
    RunReopened,
    RunResumed,
    RunStarted,
    RunSuspended,
    StepLost,
    TimerFired,
    is_command,
)
from outlast.core.fold import Written
from outlast.core.verifying.broken import Broken, Rule

__all__ = ["Placed", "PlacedJournal", "check_marks", "check_shape", "flatten"]


class Placed(Written, Protocol):
    """What of an entry matters here, beside its events."""

    @property
    def seq(self) -> int:
        """Its position."""
        ...

    @property
    def mark(self) -> int:
        """What tells it from any other that was written for its position."""
        ...


PlacedJournal = Sequence[tuple[Placed, Sequence[Event]]]
"""A run's entries in order, each with its events."""


def flatten(journal: PlacedJournal) -> list[Event]:
    """Its events, in order."""
    return [event for _, events in journal for event in events]


def check_shape(journal: PlacedJournal) -> Iterator[Broken]:
    """Entries without a gap, in time, from a start to at most one end."""
    if not journal:
        yield Broken(Rule.JOURNAL, "it has no journal")
        return
    for number, (entry, events) in enumerate(journal):
        if entry.seq != number:
            yield Broken(Rule.JOURNAL, f"entry {entry.seq} stands where entry {number} belongs")
            break
        if not events:
            yield Broken(Rule.JOURNAL, f"entry {number} is empty")
    for (before, _), (after, _) in itertools.pairwise(journal):
        if after.at < before.at:
            yield Broken(Rule.JOURNAL, f"entry {after.seq} is {before.at - after.at} µs older than the one before it")
    events = flatten(journal)
    starts = [number for number, event in enumerate(events) if isinstance(event, RunStarted)]
    if starts != [0]:
        yield Broken(Rule.JOURNAL, f"it does not start once, at its beginning, but at events {starts}")
    for event, after_it in itertools.pairwise(events):
        if type(event) in OUTCOMES and not isinstance(after_it, RunReopened):
            yield Broken(Rule.END, f"{type(after_it).__name__} comes behind its end, {type(event).__name__}")
    yield from _check_suspensions(events)


def _check_suspensions(events: Sequence[Event]) -> Iterator[Broken]:
    """A run that is set aside records what comes, and is moved by nothing before it is resumed."""
    aside: RunSuspended | None = None
    for event in events:
        if isinstance(event, RunSuspended):
            aside = event
        elif isinstance(event, RunResumed | RunReopened | CancelRequested) or type(event) in OUTCOMES:
            aside = None
        elif aside is not None and (is_command(event) or isinstance(event, AttemptStarted | StepLost | TimerFired)):
            what = f"{type(event).__name__} comes while it is suspended, {aside.code}, and was not resumed"
            yield Broken(Rule.ROW, what)
            aside = None


def check_marks(journal: PlacedJournal) -> Iterator[Broken]:
    """Each entry has a mark, and no two have the same."""
    for mark, count in Counter(entry.mark for entry, _ in journal).items():
        if count > 1 or not mark:
            seqs = ", ".join(str(entry.seq) for entry, _ in journal if entry.mark == mark)
            yield Broken(Rule.JOURNAL, f"mark {mark} is not that of one entry: {seqs}")
