"""The invariants of DESIGN §6, looked at whenever the store has changed, and once more when all is calm.

What it knows it has from the store's tables, from what writers send, and from what steps did in the world. Each check
is that of `tests/crash/checker.py`, or says here what it adds.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from outlast.core.events import (
    AttemptStarted,
    DecisionJudged,
    DecisionMade,
    Event,
    GateOpened,
    RunReopened,
    RunResumed,
    RunStarted,
    SignalReceived,
    SignalTaken,
    StepFailed,
    StepLost,
    StepSettled,
    StepStarted,
    StepSucceeded,
    TimerFired,
    decode_events,
)
from outlast.stores.memory import MemoryStore
from outlast.stores.memory.tables import Run
from outlast.stores.store import CLIENT, KEPT, STAYING, Entry, Progress, WaitRow, is_kept_at
from tests.crash import checker
from tests.crash.checker import Journal
from tests.crash.ledger import Mark

if TYPE_CHECKING:
    from tests.simulation.engine.world import World

__all__ = ["Watch", "WatchedStore"]

CHECKS = {
    checker.check_steps: {StepStarted, AttemptStarted, StepSucceeded, StepFailed, StepSettled, RunReopened},
    checker.check_timers: {TimerFired},
    checker.check_answers: {SignalReceived, SignalTaken, DecisionMade, DecisionJudged, GateOpened},
}
"""What is looked at when an entry has events of these kinds: all of the journal, since it is short."""


FROM_PEOPLE = (SignalReceived, DecisionMade, GateOpened, RunResumed)


class Record:
    """What the watch knows of one run."""

    def __init__(self, born_us: int) -> None:
        self.born_us = born_us
        self.journal: Journal = []
        self.owner: str | None = None
        self.pool: str | None = None
        self.seen: tuple[Any, ...] = ()
        self.unread: dict[str, str] = {}
        """What people sent and it has not read, by id: the kind."""
        self.heard: set[str] = set()
        """Ids of what it has, or a round before it had."""
        self.started: set[tuple[str, int]] = set()
        self.lost: set[tuple[str, int]] = set()
        self.is_cancelled = False
        """Somebody has asked it to stop."""


class Watch:
    """Adds to the world's problems as soon as one can be seen."""

    def __init__(self, world: World, limit: int | None = None) -> None:
        """`limit` is how many runs workers may have in hand at once."""
        self.world = world
        self._limit = limit
        world.note = self.note
        self.store = WatchedStore(self)
        self.marks: list[Mark] = []
        self.trace = hashlib.sha256()
        """Of all that was asked of the store, by whom and when, and of all that steps did."""
        self.is_clock_set = False
        """The store's clock was set: leases end when nobody expects it, and what a step may do then no engine knows."""
        self.strike: tuple[bool, Callable[[], None]] | None = None
        """The worker that commits next dies: before that lands or behind it, and is told so by this call."""
        self.on_landed: Callable[[], None] | None = None
        """Told, once, that a worker's commit has landed, before the worker hears of it."""
        self._records: dict[str, Record] = {}
        self._before: dict[int, int] = {}
        """Mark of the entry that the writer of an entry knew before it, by the entry's own mark."""
        self._parks: set[tuple[str, int]] = set()
        """Runs and epochs that are given up with what they wait for. One that is given up unread says nothing of it."""
        self._executed: set[tuple[str, str, int]] = set()

    # --- what is told -------------------------------------------------------------------------------------------------

    def note(self, mark: Mark) -> None:
        """A step is about to have its effect, or has had it."""
        self._tell("step", mark.what, mark.uid, mark.key, mark.attempt)
        attempt = (mark.key, mark.attempt)
        record = self._records[mark.uid]
        if mark.what == "before":
            if attempt not in record.started:
                self._object(mark.uid, f"5: attempt {attempt} runs without a record")
            if (mark.uid, *attempt) in self._executed:
                self._object(mark.uid, f"5: attempt {attempt} runs twice")
            if attempt in record.lost and not self.is_clock_set:
                self._object(mark.uid, f"S10: attempt {attempt} begins after it was recorded as lost")
            self._executed.add((mark.uid, *attempt))
        self.marks.append(mark)

    def expect(self, batch: Iterable[Progress]) -> None:
        """A writer sends these."""
        for progress in batch:
            self._before[progress.mark] = progress.prev
            effects = progress.effects
            if effects is not None:
                self.expect(effects.children)
                row = effects.row
                if row is not None and row.release is not None and row.waiting_on is not None and row.unfit is None:
                    self._parks.add((progress.uid, row.release.epoch))

    def changed(self, what: str, by: object) -> None:
        """The store has carried this call out."""
        self._tell(what, by)
        runs = self.store.runs
        if self._limit is not None:
            placed = [uid for uid, run in runs.items() if run.owner is not None and run.pool is not None]
            if len(placed) > self._limit:
                self._object(placed[-1], f"Q2: {len(placed)} runs are in hand, and {self._limit} may be")
        for uid, run in runs.items():
            record = self._records.get(uid)
            if record is None:
                record = self._records[uid] = Record(self.world.now_us)
            seen = (len(run.journal), run.owner, run.epoch, run.status, run.wake_at, run.mail, len(run.tasks))
            if seen != record.seen:
                is_parked = record.owner is not None and run.owner is None and (uid, run.epoch) in self._parks
                record.seen = seen
                self._look(uid, run, record, is_parked=is_parked)

    def _tell(self, *what: object) -> None:
        host = self.world.running
        self.trace.update(repr((self.world.now_us, host and host.name, what)).encode())

    # --- looking at one run -------------------------------------------------------------------------------------------

    def _look(self, uid: str, run: Run, record: Record, *, is_parked: bool) -> None:
        new = run.journal[len(record.journal) :]
        for entry in new:
            self._look_at_entry(uid, record, entry)
        record.owner, record.pool = run.owner, run.pool
        self._look_at_mail(uid, run, record)
        record.is_cancelled = record.is_cancelled or any(each.kind == "cancel" for each in run.inbox.values())
        journal = record.journal
        found: list[str] = []
        if new:
            kinds = {type(event) for _, events in journal[-len(new) :] for event in events}
            found += checker.check_shape(journal)
            for check, of in CHECKS.items():
                if not kinds.isdisjoint(of):
                    found += check(journal)
        waits = [WaitRow(uid, run.new.id, run.new.workflow, wait, run.new.user) for wait in run.waits.values()]
        row = run.to_row()
        if run.owner is None:
            kept_by = [*run.tasks.values(), *waits, *self._list_children(uid)]
            found += checker.check_is_kept(row, set(self.store.workers), kept_by)
        if is_parked or not run.live:
            found += checker.check_row(row, journal, are_parked=is_parked)
            if run.live:
                found += checker.check_waits(row, journal, waits)
        if found:
            self._object(uid, "; ".join(found))

    def _look_at_mail(self, uid: str, run: Run, record: Record) -> None:
        """What people sent, and were told is stored, is unread, on record, or the next round's, until the run has ended
        for good."""
        messages = [*run.inbox.values(), *run.kept.values()]
        there = {message.id: message.kind for message in messages if message.kind in KEPT}
        gone = {id: kind for id, kind in record.unread.items() if id not in there and id not in record.heard}
        record.unread = there
        if gone and run.next is not None:
            passed_on = _list_passed_on(self.store.runs[run.next])
            gone = {id: kind for id, kind in gone.items() if id not in passed_on and kind not in STAYING}
        elif not run.live and not is_kept_at(run.status, is_child=run.new.parent is not None):
            return
        if gone:
            self._object(uid, f"10: {gone} was acknowledged, and is neither unread nor on record")

    def _list_children(self, uid: str) -> list[Run]:
        """Those that live: each will tell the run how it ended."""
        return [run for run in self.store.runs.values() if run.live and run.new.parent == uid]

    def _look_at_entry(self, uid: str, record: Record, entry: Entry) -> None:
        journal, events = record.journal, decode_events(entry.events)
        if entry.seq != len(journal):
            self._object(uid, f"1: entry {entry.seq} stands where {len(journal)} is next")
        if journal:
            if self._before.get(entry.mark) != journal[-1][0].mark:
                self._object(uid, f"1: entry {entry.seq} does not follow what its writer knew")
            is_retry = entry.writer == CLIENT and isinstance(events[0], RunReopened)
            if entry.writer != record.owner and not (is_retry and record.owner is None):
                self._object(uid, f"6: {entry.writer} wrote entry {entry.seq}, and {record.owner} owns it")
        journal.append((entry, events))
        for event in events:
            self._note_event(record, event)
        if self._limit is not None and entry.seq and entry.writer != CLIENT:
            self._look_for_place(uid, entry, record)

    def _look_for_place(self, uid: str, entry: Entry, record: Record) -> None:
        """A worker does nothing of a run that has no place, but hear that it is cancelled."""
        run = self.store.runs[uid]  # as it is behind the entry, which may have given up the place that it had
        if record.pool is None and run.pool is None and run.queue == "default" and not record.is_cancelled:
            self._object(uid, f"Q2: entry {entry.seq} was written without a place")

    def _note_event(self, record: Record, event: Event) -> None:
        if isinstance(event, FROM_PEOPLE):
            record.heard.add(event.message)
        elif isinstance(event, RunStarted):
            record.heard.update(event.known)
        elif isinstance(event, StepStarted | AttemptStarted):
            if event.attempt:
                record.started.add((event.key, event.attempt))
        elif isinstance(event, StepLost):
            record.lost.add((event.key, event.attempt))

    def _object(self, uid: str, text: str) -> None:
        self.world.problems.append(f"run {uid}: {text}")

    def digest(self) -> str:
        """Of all that happened so far."""
        for uid, record in self._records.items():
            self.trace.update(
                repr((uid, [(entry.at, entry.writer, entry.events) for entry, _ in record.journal])).encode()
            )
        return self.trace.hexdigest()

    def find_birth(self, uid: str) -> int:
        """When the run was there first, in the world's time."""
        return self._records[uid].born_us

    def find_journal(self, uid: str) -> Sequence[tuple[Entry, list[Event]]]:
        """The run's, so far."""
        return self._records[uid].journal


class WatchedStore(MemoryStore):
    """The store in memory; whatever it has changed is looked at."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(clock=watch.world.store_time)
        self._watch = watch

    @property
    def runs(self) -> dict[str, Run]:
        """All there are."""
        return self._tables.runs

    @property
    def workers(self) -> Iterable[str]:
        """All that have a row."""
        return self._tables.workers

    def holds_anything(self, worker_id: str) -> bool:
        """Whether this worker has a row, or runs."""
        return worker_id in self._tables.workers or worker_id in self._tables.owned

    async def commit(self, worker_id: str | None, batch: Sequence[Progress]) -> Any:
        watch = self._watch
        watch.expect(batch)
        strike = watch.strike if worker_id is not None else None
        if strike is not None:
            watch.strike = None
            if not strike[0]:
                await _for_ever(strike[1])
        outcomes = await super().commit(worker_id, batch)
        watch.changed("commit", worker_id)
        if strike is not None:
            await _for_ever(strike[1])
        if watch.on_landed is not None and worker_id is not None:
            told, watch.on_landed = watch.on_landed, None
            told()
        return outcomes

    def reopened(self) -> WatchedStore:
        """A handle of its own, open, for who looks at it from outside the world."""
        other = self.again()
        other._is_open = True
        assert isinstance(other, WatchedStore)
        return other


def _list_passed_on(run: Run) -> set[str]:
    """What a next round has from the one before: ids of what is unread, is in its first entry, or was heard before."""
    started, *left = decode_events(run.journal[0].events)
    assert isinstance(started, RunStarted)
    return {*run.message_ids, *started.known, *(event.message for event in left if isinstance(event, FROM_PEOPLE))}


async def _for_ever(dies: Callable[[], None]) -> None:
    """Whoever waits for this is dead."""
    dies()
    await asyncio.get_running_loop().create_future()


def _watched(name: str) -> Any:
    """The memory store's method, and a look at what it changed."""
    method = getattr(MemoryStore, name)

    async def call(self: WatchedStore, *args: Any, **options: Any) -> Any:
        answer = await method(self, *args, **options)
        self._watch.changed(name, args[0] if args and isinstance(args[0], str) else "")
        return answer

    return call


for _name in (
    "register",
    "retire",
    "reap",
    "claim",
    "adopt",
    "pool_run",
    "send",
    "redue",
    "claim_tasks",
    "complete_tasks",
    "lapse_tasks",
):
    setattr(WatchedStore, _name, _watched(_name))
