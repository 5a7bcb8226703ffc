"""What has to hold between rounds: part of the checker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from outlast.core.events import CancelRequested, DecisionJudged, RunCompleted, RunStarted, SignalTaken
from outlast.core.verifying import flatten
from outlast.engine.verifying import Journal, Problem

__all__ = ["check_rounds"]


def check_rounds(journals: Mapping[str, Journal]) -> Iterator[Problem]:
    """A run that went on is there as the round it named, under the same id; and heard each message in one round."""
    heard: dict[tuple[str, str], str] = {}
    for uid, journal in journals.items():
        events = flatten(journal)
        started, last = events[0], events[-1]
        assert isinstance(started, RunStarted)
        origin = started.origin or uid
        if isinstance(last, RunCompleted) and last.next:
            following = flatten(journals.get(last.next, []))
            first = following[0] if following else None
            expected = (started.id, uid, origin, started.parent, started.deadline)
            if not isinstance(first, RunStarted):
                yield Problem(uid, f"it goes on as {last.next}, which is not there")
            elif (first.id, first.continues, first.origin, first.parent, first.deadline) != expected:
                yield Problem(uid, f"it goes on as {first!r}")
        for event in events:
            if isinstance(event, SignalTaken | DecisionJudged | CancelRequested):
                other = heard.setdefault((origin, event.message), uid)
                if other != uid:
                    yield Problem(uid, f"message {event.message} was answered in round {other} too")
