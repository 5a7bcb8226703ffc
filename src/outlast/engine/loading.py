"""Bringing a run back: its journal replayed, its open attempts judged, its mail read. Layer: engine.

A load reads the whole journal, builds the machine, and feeds it what is on record. What is then still open and not
executing here is lost: it gets another attempt, or fails loudly. What always holds: nothing of the load is in the world
before the entry that says so has landed; a takeover is on record before the body is fed (SPEC L8).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from outlast.authoring.exceptions import encode_error
from outlast.core.events import (
    OUTCOMES,
    CancelRequested,
    Command,
    Event,
    RunCancelled,
    RunReopened,
    RunResumed,
    RunStarted,
    RunTakenOver,
    VersionTaken,
    decode_events,
)
from outlast.core.lineage.rounds import NEXT_KEY
from outlast.core.machine import Machine
from outlast.core.reopening import Reopening
from outlast.engine import books, mail
from outlast.engine.claims.pools import lane_of
from outlast.engine.clock import boottime_us
from outlast.engine.draft import Draft
from outlast.engine.messages.children import find_reopening
from outlast.engine.tasks.outcomes import list_gone
from outlast.engine.versions.serving import CONFLICTS, Server, find_version
from outlast.errors import Fenced, KeyNotFound, PayloadUnreadable, RunExists, StoreError
from outlast.payloads import problems_of
from outlast.stores.store import ClaimedRun, Effects, Inbox, Progress, Release, RowChange, recovery_delay_us
from outlast.telemetry.logs import fields
from outlast.telemetry.observer import Landed

if TYPE_CHECKING:
    from outlast.authoring.workflow import Workflow
    from outlast.engine.hot import HotRun
    from outlast.engine.hotruns import HotRuns
    from outlast.engine.versions.keeping import VersionKeeper

__all__ = ["Loader"]

PAGE = 1000
AT_ONCE = 32
"""Loads under way at a time: each holds a journal in memory."""
MOST_TAKEOVERS = 10
POISONED = "POISONED"
RETRY_AFTER_US = 5_000_000
RETRY_HERE_S = 1.0


class Loader:
    """Loads runs for one worker."""

    def __init__(self, home: HotRuns, worker_id: str, versions: VersionKeeper) -> None:
        self._home = home
        self._versions = versions
        self._worker_id = worker_id
        self._server = Server(home, versions)
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: dict[str, int] = {}
        """How often loads of a run failed in a row, for no fault of the store."""

    def load(self, run: HotRun) -> None:
        """Load it in the background, then let it go on."""
        self.spawn(self._load(run))

    def put_back(self, claim: ClaimedRun, due_us: int) -> None:
        """Give a run that was claimed, and not looked at, up again: for somebody to claim then."""
        self.spawn(self._put_back(claim, due_us))

    def reread(self, run: HotRun, refused: Sequence[Progress] = ()) -> None:
        """Find out whether a run that moved without us is still ours; then load it anew. `refused` are starts of
        children, one of which has an id that is taken."""
        self.spawn(self._reread(run.uid, refused))

    async def close(self) -> None:
        """Load no more: what was under way is nobody's, and the store's `retire` hands it back."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def build(self, started: RunStarted, workflow: Workflow[..., object]) -> Machine:
        """A machine for this run. Nothing of its body has run."""
        return self._server.build(started, workflow)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run it in the background, until the worker leaves."""
        task = self._home.loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _put_back(self, claim: ClaimedRun, due_us: int) -> None:
        try:
            inbox = await self._home.store.read_inbox(claim.uid, limit=1)
        except StoreError:
            return  # reconcile finds it
        row = RowChange(release=Release(claim.epoch, inbox.mail, due_us))
        self._home.send_park(Progress(claim.uid, -1, effects=Effects(row=row)), self._worker_id, lane_of(claim))

    async def _reread(self, uid: str, refused: Sequence[Progress]) -> None:
        try:
            for child in refused:
                await self._note_if_taken(uid, child)
            row = await self._home.store.find_uid(uid)
            if row is None or row.owner != self._worker_id or not row.live:
                return
            with self._home.asking():
                claim = await self._home.store.adopt(self._worker_id, uid, row.epoch)
                if claim is not None:
                    self._home.claimed(claim, self._worker_id, adopted=row.epoch)
        except StoreError:
            return  # reconcile finds it

    async def _note_if_taken(self, uid: str, child: Progress) -> None:
        """When the load comes to it again, the step of that child fails; or, for a next round, the run."""
        started, *_ = decode_events(child.events)  # as it was written
        assert isinstance(started, RunStarted)
        holder = await self._home.store.find_run(started.id)
        if holder is not None and holder.uid != child.uid:
            error = RunExists(started.id, holder.status)
            key = NEXT_KEY if started.continues == uid else started.parent_key
            self._home.refusals[uid, key] = encode_error(error)

    async def _load(self, run: HotRun) -> None:
        """CRASH: until its first entry lands, a load has changed nothing. [test_killed_at[journal-read]]"""
        async with self._gate:
            if run.is_dropped:
                return
            is_reload = run.started is not None
            try:
                await self._bring_back(run, is_reload=is_reload)
                self._failures.pop(run.uid, None)
            except Fenced:
                pass  # the heartbeat hears of it too, and drops everything
            except Exception as error:  # noqa: BLE001 - a journal nobody can read must not end the worker of all others
                self._try_again(run, error, is_reload=is_reload)

    def _try_again(self, run: HotRun, error: Exception, *, is_reload: bool) -> None:
        """A load failed. For a fault of the store again soon, for any other ever less often (SPEC L9).

        What a first load had found was to be on record with its entry, and is gone with that: that it was resumed or
        reopened, or that an attempt is lost. So nothing of it is kept, and the next load begins with the journal."""
        text = "run %s could not be loaded; it is tried again in a while"
        self._home.log.error(text, run.name, extra=fields(run.started), exc_info=error)
        run.evict()
        failures = 0
        if not isinstance(error, StoreError):
            failures = self._failures[run.uid] = self._failures.get(run.uid, 0) + 1
        # Given up, it would be loaded elsewhere while a step of it executes here.
        if is_reload and (run.running or run.queue):
            self._home.loop.call_later(min(RETRY_HERE_S * 2**failures, 30.0), self.load, run)
        else:
            run.is_loading = False
            run.release(self._home.clock.now_us() + (recovery_delay_us(failures) or RETRY_AFTER_US), RowChange())

    async def _bring_back(self, run: HotRun, *, is_reload: bool) -> None:
        home = self._home
        raw, unreadable = await self._read(run)
        began = boottime_us()
        read_at = run.now_us()
        inbox = await home.store.read_inbox(run.uid, after=run.seen)
        unreadable += problems_of(inbox)
        has_ended = type(raw[-1]) in OUTCOMES
        reopened = await self._find_reopening(raw, inbox, run) if has_ended else None
        if run.is_dropped:
            return  # not ours any more: a late reader writes nothing
        started = raw[0]
        assert isinstance(started, RunStarted)
        run.started = started
        draft = Draft()
        if has_ended:
            if reopened is None:
                run.is_loading = False
                run.release(None, RowChange(waiting_on=""))
                return
            draft.reopen(reopened)
            raw.append(reopened)
        events = books.open_books(raw, run, is_reload)
        if draft.events:
            draft.reopen_waits(run)
        if started.due > run.now_us():
            self._wait_or_end(run, started.due, inbox, draft)
            return
        if run.recoveries and not is_reload and not draft.events:  # behind its end only the reopening may come
            if run.recoveries > MOST_TAKEOVERS and not run.suspended:
                mail.take_mail(run, inbox, advance=False)
                self._set_poison_aside(run, raw, draft)
                return
            if not await self._note_takeover(run):
                return
        mail.take_mail(run, inbox, read_at, advance=False)
        cancel = books.find_cancel_of_unbegun(run, raw)
        if cancel is not None:
            mail.give_back(run)
            run.queue.clear()
            self._end_unbegun(run, draft, cancel, is_on_record=cancel in raw)
            return
        await self._move_on(run, events, draft, find_version(raw), unreadable, is_reload=is_reload)
        run.replay_us = boottime_us() - began

    async def _move_on(
        self,
        run: HotRun,
        events: Sequence[Event | Reopening],
        draft: Draft,
        taken: VersionTaken,
        unreadable: Sequence[PayloadUnreadable],
        *,
        is_reload: bool,
    ) -> None:
        """Its mail is read: what is set aside stays so, unless it says otherwise; else the journal is replayed."""
        assert run.started is not None
        name = run.started.workflow
        try:
            workflow = await self._versions.find_workflow(name, taken.version)
        except PayloadUnreadable as problem:
            workflow, unreadable = None, [*unreadable, problem]
        if books.is_too_late(run) and (run.suspended or workflow is None):
            run.queue.append(books.cancel_at_deadline(run))
        if run.suspended and not self._may_resume(run, draft, unreadable):
            self._go_on(run, draft, [])
        elif unreadable:
            self._set_unreadable_aside(run, draft, unreadable[0])
        elif workflow is None:
            self._home.lacks_function(run, draft, name)
            self._go_on(run, draft, [])
        else:
            gone = [] if is_reload else await list_gone(run)
            await self._server.serve(run, workflow, taken, events, draft, gone)

    async def _find_reopening(self, raw: Sequence[Event], page: Inbox, run: HotRun) -> RunReopened | None:
        """What had this ended run claimed. It stands behind all that was kept of its inbox."""
        while (reopened := find_reopening(raw, page, run)) is None and page.full:
            page = await self._home.store.read_inbox(run.uid, after=page.messages[-1].no)
        return reopened

    def _wait_or_end(self, run: HotRun, due_us: int, inbox: Inbox, draft: Draft) -> None:
        """A run that a message woke before its time: cancelled, it ends without its body; else it goes on waiting."""
        if any(message.kind == mail.CANCEL for message in inbox.messages):
            mail.take_mail(run, inbox, advance=False)
            cancel = next(event for event in run.queue if isinstance(event, CancelRequested))
            mail.give_back(run)
            run.queue.clear()
            self._end_unbegun(run, draft, cancel)
        else:
            run.is_loading, run.seen = False, inbox.mail  # what came stays in the inbox until then
            run.release(due_us, RowChange(waiting_on=""))

    def _end_unbegun(self, run: HotRun, draft: Draft, cancel: CancelRequested, *, is_on_record: bool = False) -> None:
        """Cancelled before its body began, which has nothing to clean up."""
        draft.events += [RunCancelled(cancel.reason)] if is_on_record else [cancel, RunCancelled(cancel.reason)]
        self._go_on(run, draft, [])

    async def _read(self, run: HotRun) -> tuple[list[Event], list[PayloadUnreadable]]:
        """The whole journal, and what of it cannot be read here; the run's position is behind it."""
        events: list[Event] = []
        unreadable: list[PayloadUnreadable] = []
        recalled: list[Landed] | None = [] if self._home.observers else None
        after = -1
        while True:
            entries = await self._home.store.read_journal(run.uid, after=after, limit=PAGE)
            for entry in entries:
                events += self._home.payloads.decode_events(run.uid, entry.events, unreadable.append)
                if recalled is not None:
                    recalled.append(Landed(run.uid, entry.seq, entry.at, entry.writer, entry.events))
            if entries:
                last = entries[-1]
                after, run.seq, run.mark, run.last_at = last.seq, last.seq + 1, last.mark, max(last.at, run.last_at)
            if len(entries) < PAGE:
                if recalled:
                    self._home.observers.recalled(run.uid, recalled)
                return events, unreadable

    def _set_poison_aside(self, run: HotRun, raw: Sequence[Event], draft: Draft) -> None:
        """Whoever holds this run dies: nobody feeds its body again before a person has looked (SPEC L8)."""
        workers = [event.worker for event in raw if isinstance(event, RunTakenOver)]
        reason = f"{run.recoveries} workers died holding this run, without progress."
        run.suspend(draft, POISONED, reason, "\n".join(workers))
        self._go_on(run, draft, [])

    def _set_unreadable_aside(self, run: HotRun, draft: Draft, problem: PayloadUnreadable) -> None:
        """A key or a codec is not here, or the store is damaged: nothing is lost. A worker that has the key finds the
        run (`Sweeper`); none of this deploy takes it again."""
        detail = ""
        if isinstance(problem, KeyNotFound):
            run.unfit, detail = self._home.deploy, problem.needs
        run.suspend(draft, problem.code, str(problem), detail)
        self._go_on(run, draft, [])

    async def _note_takeover(self, run: HotRun) -> bool:
        """Put the takeover on record before the body is fed. False: the run is not ours any more."""
        text = "run %s was taken over, for the %d. time without progress"
        self._home.log.warning(text, run.name, run.recoveries, extra=fields(run.started))
        # CRASH: before it lands, the next taker notes the same; behind it, the next takeover is one more.
        # [test_killed_at[before-takeover-note]] [test_killed_at[after-takeover-note]]
        await self._write_alone(run, RunTakenOver(run.now_us(), self._worker_id, run.recoveries))
        return not run.is_dropped

    async def _write_alone(self, run: HotRun, event: Event) -> None:
        """An entry of its own, before anything else is done for the run."""
        landed: asyncio.Future[None] = self._home.loop.create_future()
        run.on_answer = lambda _: None if landed.done() else landed.set_result(None)
        note = Draft()
        note.events.append(event)
        run.submit(note)
        await landed

    # --- replay -------------------------------------------------------------------------------------------------------

    def _go_on(self, run: HotRun, draft: Draft, commands: list[Command]) -> None:
        run.is_loading = False
        if not run.is_dropped:
            run.go_on(draft, commands)

    # --- suspended runs -----------------------------------------------------------------------------------------------

    def _may_resume(self, run: HotRun, draft: Draft, unreadable: Sequence[PayloadUnreadable]) -> bool:
        """A resume or a cancel in the mail, or what was missing is here: a function, a key. Poison stays aside."""
        for event in list(run.queue):
            if isinstance(event, RunResumed):
                run.queue.remove(event)
                run.resume(draft, event.message)
                return True
        missing = run.missing_function
        known = missing and (self._home.registry.find_workflow(missing) or self._home.registry.find_step(missing))
        is_cancelled = any(isinstance(event, CancelRequested) for event in run.queue)
        if is_cancelled and run.suspended == POISONED:
            run.suspend(draft, POISONED, "")  # ends it: its body would take this worker down as well
            return False
        is_known = bool(known)
        if run.suspended == KeyNotFound.code:
            is_known = not unreadable
            run.unfit = "" if is_known else self._home.deploy
        if is_known or is_cancelled:
            run.resume(draft)
        # A conflict of versions may be none for the code at hand: it is resumed once the journal fits.
        return is_known or is_cancelled or run.suspended in CONFLICTS
