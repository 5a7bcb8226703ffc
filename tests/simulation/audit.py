"""The invariants, looked at after every action. The numbers are those of the project's list.

What it knows it has from the store's tables, from what workers said they sent, and from what they did in the world.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from outlast.stores.store import Entry, Progress
from tests.simulation.fixes import WeakStore
from tests.simulation.network import immediately
from tests.simulation.program import Attempt, Event, Picture, decode

__all__ = ["SUPERSEDED", "Audit", "Violation"]

SUPERSEDED = "6 a superseded writer wrote"


class Violation(Exception):
    """An invariant does not hold. `rule` is the same for the same kind of violation."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule


@dataclass
class Record:
    """What the audit knows of one run."""

    picture: Picture
    entries: list[Entry] = field(default_factory=list)
    owner: str | None = None
    started: set[Attempt] = field(default_factory=set)
    lost: set[Attempt] = field(default_factory=set)
    succeeded: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)


class Audit:
    """Raises `Violation` as soon as one can be seen."""

    def __init__(self, store: WeakStore, overlook: frozenset[str] = frozenset()) -> None:
        self._store = store
        self._overlook = overlook
        self._records: dict[str, Record] = {}
        self._predecessors: dict[int, int] = {}
        self._ran: set[tuple[str, Attempt]] = set()

    def expect(self, progress: Progress) -> None:
        """A writer sends this entry, and knows that mark before it."""
        self._predecessors[progress.mark] = progress.prev

    def begin(self, uid: str, attempt: Attempt, worker_id: str) -> None:
        """User code starts to run."""
        record = self._records[uid]
        what = f"{uid}, {attempt[0]} attempt {attempt[1]}, at {worker_id}"
        if attempt not in record.started:
            raise Violation("5 an attempt runs without a record", what)
        if (uid, attempt) in self._ran:
            raise Violation("5 an attempt runs twice", what)
        if attempt in record.lost:
            raise Violation("S10 an attempt starts after it was recorded as lost", what)
        self._ran.add((uid, attempt))

    def check(self) -> None:
        """After each action."""
        for uid, run in self._store._tables.runs.items():
            record = self._records.get(uid)
            if record is None:
                record = self._records[uid] = Record(Picture(uid))
            for entry in run.journal[len(record.entries) :]:
                self._check_entry(record, entry)
            if record.picture.has_ended() == run.live or (not run.live and run.status is not record.picture.status):
                raise Violation("2 journal and row differ", f"{uid}: {record.picture.status}, {run.status}")
            record.owner = run.owner

    def check_end(self) -> None:
        """When all is calm and every run has ended."""
        for uid, record in self._records.items():
            inbox = immediately(self._store.read_inbox(uid))
            if inbox.messages:
                left = [message.id for message in inbox.messages]
                raise Violation("3 messages are left that nobody will answer", f"{uid}: {left}")
            journal = immediately(self._store.read_journal(uid))
            if journal != record.entries:
                raise Violation("1 a journal changed", uid)

    def _check_entry(self, record: Record, entry: Entry) -> None:
        uid = record.picture.uid
        what = f"{uid}@{entry.seq} by {entry.writer}"
        if entry.seq != len(record.entries):
            raise Violation("1 a journal has a gap", f"{what}, where {len(record.entries)} is next")
        if entry.seq and self._predecessors[entry.mark] != record.entries[-1].mark:
            raise Violation("1 an entry does not follow what its writer knew", what)
        if record.picture.has_ended():
            raise Violation("7 an entry stands behind the end", what)
        if entry.seq and entry.writer != record.owner and SUPERSEDED not in self._overlook:
            raise Violation(SUPERSEDED, f"{what}, while {record.owner} owns it")
        record.entries.append(entry)
        for event in decode(entry.events):
            self._check_event(record, event, what)
            record.picture.apply(event)

    def _check_event(self, record: Record, event: Event, what: str) -> None:
        attempt = (event.id, event.attempt)
        if event.what == "start":
            if attempt in record.started:
                raise Violation("5 an attempt is on record twice", f"{what}: {attempt}")
            record.started.add(attempt)
        elif event.what == "lost":
            record.lost.add(attempt)
        elif event.what == "ok":
            self._count(record.succeeded, event.id, "4 a success is recorded twice", what)
        elif event.what == "message":
            self._count(record.read, event.id, "4 a message is read twice", what)
            if event.kind == "lost":
                record.lost.add((event.id.rpartition("#")[0], event.attempt))

    @staticmethod
    def _count(counter: Counter[str], id: str, rule: str, what: str) -> None:
        counter[id] += 1
        if counter[id] > 1:
            raise Violation(rule, f"{what}: {id}")
