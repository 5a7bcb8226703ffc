"""Entries as they land, and an app whose runs are mirrored."""

from __future__ import annotations

import pytest
from msgspec import Raw

from outlast.core.events import Event, RunCompleted, RunStarted, StepStarted, StepSucceeded, encode_events
from outlast.telemetry.observer import Commit, Landed

NULL = Raw(b"null")


def journal(uid: str, steps: int = 2) -> list[Landed]:
    """A whole run of so many steps, an entry for each."""
    batches: list[list[Event]] = [
        [RunStarted(10, uid, f"id of {uid}", "fulfil", "v1", Raw(b"[1]"), 7, "3.11", user="ada")]
    ]
    for number in range(steps):
        batches[-1].append(StepStarted(f"s#{number}", "step", Raw(b'{"n":%d}' % number)))
        batches.append([StepSucceeded(20 + number, f"s#{number}", 1, Raw(b'"r%d"' % number), 15)])
    batches[-1].append(RunCompleted(Raw(b'"done"')))
    return [Landed(uid, seq, 10 + seq, "w", encode_events(events)) for seq, events in enumerate(batches)]


def commit(*entries: Landed) -> Commit:
    return Commit(entries, 5)


@pytest.fixture
def entries() -> list[Landed]:
    return journal("u1")
