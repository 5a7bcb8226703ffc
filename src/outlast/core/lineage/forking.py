"""A new run from a part of another's journal. Layer: core.

What always holds: the copy begins with the events before the step it forks at, at their old places, so that whatever
they refer to by number still stands there; and what was open then begins anew, as steps of the new run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from outlast.core.events import Event, RunReopened, RunStarted, StepReused, StepStarted, StepSucceeded
from outlast.core.reopening import find_kept

__all__ = ["FORK", "find_fork", "fork_events", "list_forks", "list_results"]

FORK = "fork"
"""The kind of the reopening at the end of a copied part."""


def find_fork(events: Sequence[Event], key: str) -> int | None:
    """Number of the event by which the body called this step, as the run tells it now; None: it has not."""
    for number, event in find_kept(events):
        if isinstance(event, StepStarted | StepReused) and event.key == key:
            return number
    return None


def list_forks(events: Sequence[Event]) -> list[str]:
    """Keys of the steps at which the run can be forked, in the order of their calls."""
    called = (event.key for _, event in find_kept(events) if isinstance(event, StepStarted | StepReused))
    return [*dict.fromkeys(called)]


def list_results(events: Sequence[Event]) -> list[str]:
    """Keys of the steps that succeeded in this part of a journal: those whose result a fork may edit."""
    return [event.key for event in events if isinstance(event, StepSucceeded)]


def fork_events(
    before: Sequence[Event], started: RunStarted, at: int, results: Mapping[str, msgspec.Raw]
) -> list[Event]:
    """Entry 0 of the new run. `started` takes the place of the old one's beginning; `results` are edited."""
    copied = [
        msgspec.structs.replace(event, value=results[event.key])
        if isinstance(event, StepSucceeded) and event.key in results
        else event
        for event in before[1:]
    ]
    return [started, *copied, RunReopened(at, FORK, len(before))]
