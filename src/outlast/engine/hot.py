"""A hot run: its body in memory, and the one place that moves it. Layer: engine.

Think before the commit, act after. Whatever arrives for a run (an outcome, a due timer, a message) joins its queue;
when no entry of it is in flight the queue is fed to the machine, and what happened and what the body asked for in
answer are submitted as one entry. Only when that has landed do the steps it asked for run. What always holds:

- at most one entry of a run is between submit and answer (PROTOCOL F2);
- an attempt runs only after the entry that records it has landed (invariant 5);
- an event that arrived is written by the next entry, or the run is not this worker's any more.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

import msgspec

from outlast.core.attempts import OpenSteps
from outlast.core.events import (
    AttemptStarted,
    CancelRequested,
    Command,
    Event,
    RunCancelled,
    RunResumed,
    RunSuspended,
    encode_events,
)
from outlast.core.view import suspension_text
from outlast.core.waits.book import OpenWaits
from outlast.engine import books, thinking
from outlast.engine.alarm import Alarm
from outlast.engine.draft import Draft
from outlast.engine.ids import new_mark
from outlast.engine.mail import Reading, reads_on
from outlast.errors import StoreError
from outlast.stores.store import LANDED, Effects, Outcome, Progress, Release, RowChange, Verdict
from outlast.telemetry.logs import fields

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from outlast.core.events import RunOutcome, RunStarted
    from outlast.core.machine import Machine
    from outlast.engine.claims.pools import Lane
    from outlast.engine.hotruns import HotRuns
    from outlast.engine.tasks.outcomes import Arrival
    from outlast.engine.writer import Answer
    from outlast.stores.store import NewRun

__all__ = ["HotRun"]


class HotRun:
    """One run this worker owns. See the module's docstring."""

    __slots__ = (
        "__weakref__", "_in_flight", "_overdue", "_wanted", "alarm", "answer_key", "consumed", "end", "ends", "epoch",
        "has_progressed", "home", "is_at_rest", "is_dropped", "is_loading", "is_retried", "is_shown_gated",
        "is_unwinding", "known", "lane", "last_at", "looks", "machine", "mark", "missing_function", "on_answer",
        "owner", "queue", "reading", "recoveries", "replay_us", "rested_at", "running", "seen", "seq", "sleeps",
        "started", "steps", "suspended", "suspended_on", "uid", "unfit", "waits",
    )  # fmt: skip

    def __init__(self, home: HotRuns, uid: str, epoch: int, *, recoveries: int = 0) -> None:
        self.home = home
        self.owner = home.worker_id
        """The incarnation of the worker that owns it: what it submits is written under this id or not at all."""
        self.uid = uid
        self.epoch = epoch
        self.recoveries = recoveries
        self.lane: Lane | None = None
        """It has a place in the pool that this names."""
        self.started: RunStarted | None = None
        self.machine: Machine | None = None
        """None: evicted. The next thing that arrives loads it again."""
        self.steps = OpenSteps()
        self.running: set[str] = set()
        """Keys of steps whose attempt executes in this process, or is about to."""
        self.queue: collections.deque[Event | Arrival] = collections.deque()
        self.seq = 0
        """Position of the next entry; `mark` is that of the entry before it."""
        self.mark = 0
        self.last_at = 0
        self.seen = 0
        """Mail as of the last look into the inbox."""
        self.consumed: dict[int, str] = {}
        """Messages the next entry takes out of the inbox: numbers, and ids."""
        self.known: dict[str, None] = {}
        """Ids of messages that are events, or are about to be, in their order."""
        self.suspended = ""
        """Code; the body is not moved, outcomes are still recorded."""
        self.suspended_on = ""
        self.missing_function = ""
        self.unfit = ""
        """Fingerprint of this deploy, once it turned out not to know what the run needs: it is left to others."""
        self.waits = OpenWaits()
        self.is_shown_gated = False
        """Its row says that a gate suspends it."""
        self.reading = Reading()
        self.sleeps: dict[int, int] = {}
        """Sleeps under way: ordinal of the timer, and until when."""
        self.end: RunOutcome | None = None
        self.ends = 0
        """How often it has ended before."""
        self.answer_key = ""
        """The step of its parent that it tells of its end."""
        self.is_unwinding = self.is_retried = False
        self.looks = 0  # for what no message will tell: as long as one is under way it is not parked
        self.has_progressed = False
        self.rested_at = 0
        self.replay_us = 0
        """What its last load cost."""
        self.is_at_rest = False
        """It has nothing to do; the home's own mark."""
        self.is_loading = self.is_dropped = False
        self.on_answer: Callable[[Answer], None] | None = None
        """Told of the next answer of the store, before anything comes of it."""
        self._in_flight: Draft | None = None  # from when it is thought of until the store has answered
        self._overdue: asyncio.TimerHandle | None = None
        """Rings when an unwind has waited long enough for steps that were given up."""
        self._wanted: list[str] = []
        self.alarm = Alarm(self.steps)

    @property
    def name(self) -> str:
        """What people call it: its id; its uid, until its journal was read."""
        return self.uid if self.started is None else self.started.id

    # --- what arrives -------------------------------------------------------------------------------------------------

    def take(self, event: Event | Arrival) -> None:
        """Something happened. It joins the entry at hand."""
        if not self.is_dropped:
            self.queue.append(event)
            self.advance()

    def give_place(self, key: str) -> bool:
        """A place to execute is free, and this step is next in line for it. False: it does not need it any more."""
        step = self.steps.get(key)
        if self.is_dropped or self.is_aside or self.end is not None or step is None or step.is_begun:
            return False
        self.take(AttemptStarted(self.now_us(), key, step.attempt + 1))
        return True

    def want_place(self, key: str) -> None:
        """The step's next attempt begins as soon as there is a place for it; or it is queued."""
        step = self.steps[key]
        if step.queue or self.home.stepper.reserve():
            self.queue.append(AttemptStarted(self.now_us(), key, step.attempt + 1, step.queue))
        else:
            step.retry_at, step.is_waiting = None, True  # no time wakes it any more, so it must not be parked
            self._wanted.append(key)

    def begin_books(self) -> OpenSteps:
        """Empty books of steps and what is due, for a load to fill."""
        self.steps = OpenSteps()
        self.alarm = Alarm(self.steps)
        return self.steps

    def retry_later(self, key: str, retry_at: int) -> None:
        """The step is due for its next attempt then."""
        self.steps[key].retry_at = retry_at
        self.alarm.add_retry(retry_at, key)

    def expect_settled(self, within_us: int) -> None:
        """An unwind waits for attempts that were given up: after so long they count as failed."""
        if self._overdue is None:
            self._overdue = self.home.loop.call_later(within_us / 1_000_000, self._settle_overdue)

    def _settle_overdue(self) -> None:
        self._overdue = None
        books.settle_overdue(self)
        self.advance()

    def now_us(self) -> int:
        """The run's time: the store's, as far as known, and never before its last event."""
        now = self.home.clock.now_us()
        return now if now > self.last_at else self.last_at

    # --- thinking -----------------------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Feed what has arrived, and submit what came of it."""
        if self._in_flight is not None or self.is_loading or self.is_dropped:
            return
        if self.machine is None and not self.is_aside:
            if self.queue or self._is_due():
                self.home.load_again(self)
            return
        draft = self._in_flight = Draft()  # while it thinks, what that leads to must wait: a place that it gives back
        thinking.think(self, draft)
        self._submit_or_rest(draft)

    def begin(self, new: NewRun) -> None:
        """Entry 0 of a run this worker starts: think first, then write the start and its first commands together."""
        assert self.started is not None
        self.last_at, self.alarm.deadline_us = self.started.at, self.started.deadline
        draft = self._in_flight = Draft()
        draft.new = new
        draft.events.append(self.started)
        thinking.begin(self, draft)
        self.submit(draft)

    def go_on(self, draft: Draft, commands: list[Command]) -> None:
        """Loaded: write what the load found, and what the body asks for beyond its journal."""
        self._in_flight = draft
        if self.machine is not None:
            draft.absorb(self, self.machine, commands)
        thinking.think(self, draft)
        self._submit_or_rest(draft)

    def _submit_or_rest(self, draft: Draft) -> None:
        if draft.events or self.consumed:
            self.submit(draft)
        else:
            self._in_flight = None
            draft.places, self._wanted = self._wanted, draft.places
            draft.act(self)
            self._rest()

    def resume(self, draft: Draft, message: str = "") -> None:
        """A person or a deploy acted: the body may be moved again."""
        draft.events.append(RunResumed(self.now_us(), message, self.suspended))
        draft.is_resumed = True
        self.suspended = self.suspended_on = ""

    def suspend(self, draft: Draft, code: str, reason: str, detail: str = "") -> None:
        """Set the run aside for a person or a deploy; one that is to be cancelled ends instead, without its body.

        What still executes is recorded; then the run is released."""
        cancel = next((event for event in self.queue if isinstance(event, CancelRequested)), None)
        self.evict()
        thinking.record(self, draft)
        if cancel is not None:
            draft.events.append(RunCancelled(f"{cancel.reason} (not cleaned up: {code})"))
            return
        self.suspended, self.suspended_on = code, suspension_text(code, detail)
        draft.events.append(RunSuspended(self.now_us(), code, reason, detail))
        self.home.log.error("run %s is suspended (%s): %s", self.name, code, reason, extra=fields(self.started))

    def leave(self, draft: Draft, unfit: str) -> None:
        """Leave the run to workers of other deploys, as soon as nothing of it executes here (PROTOCOL F17)."""
        self.unfit = unfit
        self.evict()
        thinking.record(self, draft)

    @property
    def is_aside(self) -> bool:
        """Its body is not moved here any more."""
        return bool(self.suspended or self.unfit)

    @property
    def takes_mail(self) -> bool:
        """Messages may become events of it now; else its next load reads them."""
        return not (self.is_loading or self.is_aside or self.is_dropped)

    # --- writing ------------------------------------------------------------------------------------------------------

    def submit(self, draft: Draft) -> None:
        """One entry: what happened, what was asked for, and all their effects."""
        if self._wanted:
            draft.places += self._wanted
            self._wanted.clear()
        events = draft.events
        effects = draft.effects(self)
        self.end = draft.end
        self._in_flight = draft
        at = self.last_at = draft.at or self.now_us()
        if events:
            draft.mark = new_mark()
            progress = Progress(self.uid, self.seq, at, draft.mark, self.mark, encode_events(events), effects)
        else:
            progress = Progress(self.uid, -1, effects=effects)
        self.home.submit(progress, self, draft)

    def answered(self, draft: Draft, answer: Answer) -> None:
        """The store said what became of the entry."""
        self._in_flight = None
        if self.on_answer is not None:
            told, self.on_answer = self.on_answer, None
            told(answer)
        has_landed = answer is LANDED or (isinstance(answer, Outcome) and answer.verdict is Verdict.LANDED)
        if self.is_dropped or not has_landed:
            if not has_landed:
                books.warn_dropped(self, draft.events)
            self._lost(draft, answer)
            draft.drop(self)  # behind it: the places are not for a run that is not ours any more
            return
        if draft.mark:
            self.seq += 1
            self.mark = draft.mark
        self.home.landed(self, draft)
        draft.act(self)
        if self.is_loading:
            return
        if self.end is not None:
            self.home.ended(self)
        elif draft.is_released:
            self.evict()
            self.drop()
            self.home.released(self)
        elif self.queue:
            self.advance()
        else:
            self._rest()

    def _lost(self, draft: Draft, answer: Answer) -> None:
        if self.is_dropped:
            return
        if answer is None:
            self.home.abandon(self)
        elif isinstance(answer, StoreError):
            self.home.refused(self, answer)
        else:
            self.home.stale(self, draft, answer)

    # --- resting ------------------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Nothing to do now. Set the alarm for what is next due, and let the home decide how long to stay hot."""
        if self._in_flight is not None:
            return  # it was given a place for a step as soon as it stood in line, and has moved on
        if self.is_aside:
            if not self.running:
                due = self.now_us() if self.unfit or not self.suspended else self.alarm.deadline_us
                self.release(due, RowChange(waiting_on=self.suspended_on, unfit=self.unfit or None))
            return
        if reads_on(self):
            return
        alarm = self.alarm
        due = alarm.next_due_us(self.machine)
        # It may have rung while an entry was in flight: then it is not set, though for the right time.
        if due != alarm.due_us or (due is not None and not alarm.is_set):
            if due is not None and due <= self.now_us():
                self.advance()
                return
            alarm.set(self.home.loop, due, self.now_us, self._ring)
        self.rested_at = self.last_at
        self.home.rests(self)

    def next_due_us(self) -> int | None:
        """When a timer or a retry is next due; None: neither is."""
        return self.alarm.next_due_us(self.machine)

    def _is_due(self) -> bool:
        due = self.next_due_us()
        return due is not None and due <= self.now_us()

    def _ring(self) -> None:
        self.alarm.rang()
        if self._is_due():
            self.advance()
        else:
            due, self.alarm.due_us = self.next_due_us(), None
            self.alarm.set(self.home.loop, due, self.now_us, self._ring)

    @property
    def is_quiet(self) -> bool:
        """Nothing of it is in flight here (PROTOCOL F17)."""
        return not (self._in_flight or self.is_loading or self.queue or self.running or self.consumed or self._wanted)

    def may_park(self) -> bool:
        """It is quiet, none of its steps stands in line for a place, and nobody looks for what no message will tell."""
        return (
            self.is_quiet
            and not self.looks
            and all(step.retry_at is not None or (step.is_elsewhere and step.is_begun) for step in self.steps.values())
        )

    def release(self, due_us: int | None, row: RowChange) -> None:
        """Park: the body evicted, the run given up to whoever claims it when it is due."""
        self.evict()
        self.drop()
        row = msgspec.structs.replace(row, release=Release(self.epoch, self.seen, due_us))
        self.home.park(self, Progress(self.uid, -1, effects=Effects(row=row)))

    def evict(self) -> None:
        """Drop the body, keep the run: what arrives next loads it again."""
        if self.machine is not None:
            due = self.next_due_us()
            machine, self.machine = self.machine, None
            self.alarm.due_us = due
            self.home.survivors += machine.evict()

    def drop(self) -> None:
        """This run is not ours any more: nothing that is still on its way may move it."""
        self.is_dropped = True
        self.alarm.clear()
        if self._overdue is not None:
            self._overdue.cancel()
        queue, self.queue = self.queue, collections.deque()
        if self.end is None:
            books.warn_dropped(self, queue)
        for event in queue:
            if type(event) is AttemptStarted and not event.queue:
                self.home.stepper.release()
