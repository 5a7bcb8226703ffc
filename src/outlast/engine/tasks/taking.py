"""Taking queued steps: a worker claims what is due in its queues, and carries it out. Layer: engine.

A claim is bounded by the places that are free, which queued steps share with those that execute with their runs. What
always holds: a claimed attempt counts as started, so one that this worker cannot carry out is left to its lease, and
its run is told that it is lost; but one whose key is not here is given back.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from outlast.authoring.exceptions import encode_error
from outlast.core.events import StepFailed
from outlast.engine.clock import boottime_us
from outlast.engine.messages.looks import look
from outlast.engine.tasks.held import HeldTask
from outlast.engine.tasks.leases import TaskLeases
from outlast.engine.tasks.queues import DEFAULT, TaskClaim, find_unserved, group_of
from outlast.engine.tasks.reporting import Reports
from outlast.engine.tasks.unread import UnreadTasks
from outlast.engine.tasks.wire import read_details
from outlast.errors import Fenced, StoreError
from outlast.telemetry.logs import fields, log_outcome_dropped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from outlast.core.events import RunStarted
    from outlast.engine.hot import HotRun
    from outlast.engine.hotruns import HotRuns
    from outlast.engine.worker import Worker
    from outlast.stores.store import ClaimedTask, Look, NewTask, TaskOutcome, WorkerRow

__all__ = ["TaskTaker"]

CLAIM_AT_MOST = 64
"""So that a claim under way keeps few places from steps that execute with their runs."""
FULL = -1
FIRST_PAUSE_S = 0.02
LAST_PAUSE_S = 1.0
"""Between claims that find nothing though something is due: others were quicker, or know its function."""


class TaskTaker:
    """All queued attempts that one worker holds."""

    def __init__(self, worker: Worker, home: HotRuns) -> None:
        self._worker = worker
        self._home = home
        self._held: dict[tuple[str, str, int], HeldTask] = {}
        self._wake = asyncio.Event()
        self._sent: set[tuple[str, str]] = set()
        """Queues and functions of what was queued here, since it was last looked whether anybody is there for it."""
        self._turn = 0
        self._misses = 0
        """Claims in a row that brought nothing."""
        self._pause_until = 0.0
        self.leases = TaskLeases(home, self._held.values, self.lost)
        self._unread = UnreadTasks(home)
        self.reports = Reports(home.store, home.log, self._answered)

    # --- what it is told ----------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Look what there is to claim, or that there is nothing to claim any more."""
        self._wake.set()

    def looked(self, look: Look) -> None:
        """The worker has looked into the store."""
        if not look.tasks:
            self._end_pause()  # what others were quicker at is done: what comes next may be for us
        elif self._home.loop.time() >= self._pause_until:
            self._wake.set()
        if look.stopped:
            self.leases.renew_soon(0)

    def queued(self, tasks: Iterable[NewTask]) -> None:
        """An entry written here has queued these: if they are for this worker, they need not wait for a look."""
        queues = self._worker.settings.queues
        tasks = list(tasks)
        self._sent.update((task.queue, task.function) for task in tasks)
        if any(task.queue in queues and self._home.registry.find_step(task.function) is not None for task in tasks):
            self._end_pause()
            self._wake.set()

    def _end_pause(self) -> None:
        self._misses, self._pause_until = 0, 0.0

    def _begin_pause(self) -> None:
        pause_s = min(FIRST_PAUSE_S * 2**self._misses, LAST_PAUSE_S)
        self._misses, self._pause_until = min(self._misses + 1, 10), self._home.loop.time() + pause_s
        self._home.loop.call_at(self._pause_until, self._worker.claims.wake)

    def group_of(self, queue: str, started: RunStarted) -> str:
        """Whom a step of this run is for, as the queue is shared out."""
        return group_of(self._worker.engine.queues.get(queue, DEFAULT), started)

    async def look_after_sent(self, workers: Collection[WorkerRow]) -> None:
        """Warn of what was queued here and waits for somebody to come: these are all the workers that live."""
        sent, self._sent = self._sent, set()
        unserved = find_unserved(sent, workers)
        if not unserved:
            return
        waiting = {(row.queue, row.function) for row in await self._home.store.list_queues() if row.waiting}
        for queue, function in unserved:
            if (queue, function) in waiting:
                text = (
                    "steps %s wait in queue %s, and no live worker of it knows them: outlast worker MODULE --queue %s"
                )
                self._home.log.warning(text, function, queue, queue)

    def given_up(self, run: HotRun, keys: Collection[str]) -> None:
        """The body of a run has given these queued steps up: stop what is here, and settle what nobody had claimed."""
        for held in list(self._held.values()):
            if held.uid == run.uid and held.key in keys:
                self.stop(held)
        unsettled = [(key, run.steps.unsettled[key]) for key in keys if key in run.steps.unsettled]
        if unsettled:
            look(run, lambda: self._settle_unclaimed(run, unsettled), "queued steps")

    async def _settle_unclaimed(self, run: HotRun, attempts: list[tuple[str, int]]) -> None:
        """A task that is told to stop before anybody has it is gone, and no message comes of it (SPEC X6)."""
        for key, attempt in await self._home.store.lost_attempts(run.uid, attempts):
            if run.steps.unsettled.get(key) == attempt:
                record = encode_error(asyncio.CancelledError("stopped before a worker had it"))
                run.take(StepFailed(run.now_us(), key, attempt, record))

    # --- claims -------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Claim when there is something to claim, until the worker leaves."""
        worker = self._worker
        while not worker.is_draining:
            await self._wake.wait()
            self._wake.clear()
            try:
                while worker.is_working and await self.claim() == FULL:
                    pass
            except Fenced as error:
                worker.on_fenced(error.worker)
            except StoreError as error:
                self._home.log.warning("queued steps could not be claimed: %s", error)
            except Exception:
                self._home.log.exception("worker %s failed to claim queued steps; it tries again", worker.id)

    async def claim(self) -> int:
        """Claim once; how many it got, or FULL: there may be more."""
        places = self._reserve()
        if not places:
            self._home.stepper.on_free = self._wake.set
            return 0
        taken = 0
        try:
            for claim in self._next_claims():
                if taken < places:
                    taken += await self._claim_from(claim, places - taken)
        finally:
            for _ in range(places - taken):
                self._home.stepper.release()
        if taken:
            self._end_pause()
        else:
            self._begin_pause()
        return FULL if taken == places else taken

    def _reserve(self) -> int:
        places = 0
        while places < CLAIM_AT_MOST and self._home.stepper.reserve():
            places += 1
        return places

    def _next_claims(self) -> list[TaskClaim]:
        """Another of them first each time, so that no queue gets only the places that others leave."""
        claims = self._worker.task_claims()
        self._turn += 1
        first = self._turn % len(claims)
        return claims[first:] + claims[:first]

    async def _claim_from(self, claim: TaskClaim, places: int) -> int:
        """How many it claimed, each of which has its place now."""
        worker, home = self._worker, self._home
        claiming = worker.claims.claiming(places, claim.queues)
        sent_at, lease_us = boottime_us(), claim.lease_us
        claimed = await home.store.claim_tasks(claiming, home.registry.functions(), lease_us, claim.sharing)
        # CRASH: they are claimed and nobody begins them. Their leases lapse, and their runs are told that they are
        # lost: what must not happen twice is interrupted. [test_killed_at[task-claimed-and-not-begun]]
        if claiming.worker != home.worker_id:
            return 0  # fenced meanwhile
        begun = sum(self._begin(claiming.worker, task, sent_at, lease_us) for task in claimed if not task.lacks)
        if unread := [task for task in claimed if task.lacks]:
            await self._unread.give_back(claiming.worker, unread, sent_at + lease_us)
        return begun

    def _begin(self, worker_id: str, task: ClaimedTask, sent_at_us: int, lease_us: int) -> bool:
        """Carry it out. False: it cannot be, and its place is not used."""
        step = self._home.registry.find_step(task.function)
        try:
            assert step is not None
            held = HeldTask(self, worker_id, task, read_details(task.details), step)
        except Exception:
            text = "attempt %d of queued step %s of run %s cannot be carried out here"
            self._home.log.exception(text, task.attempt, task.key, task.run, extra=fields(None, task.key, task.attempt))
            return False
        held.lease_us, held.lease_until_us = lease_us, sent_at_us + lease_us
        self._held[held.uid, held.key, held.attempt] = held
        self.leases.expect(held)
        self.leases.renew_soon(lease_us // 3)
        self._home.stepper.run(held, held, held.attempt)
        return True

    # --- what its attempts tell ---------------------------------------------------------------------------------------

    def now_us(self) -> int:
        """The store's time, as far as known."""
        return self._home.clock.now_us()

    def progressed(self, _: HeldTask) -> None:
        """It said something of itself, which goes along with a renewal."""
        self.leases.renew_soon(0)

    def ended(self, held: HeldTask, outcome: TaskOutcome) -> None:
        """It has an outcome."""
        self.reports.add(held, outcome)

    def stop(self, held: HeldTask) -> None:
        """Its run wants it no more: it is told so, and may tidy up."""
        if not held.is_stopped:
            held.is_stopped = True
            self._home.stepper.cancel(held, held.key)

    def lost(self, held: HeldTask) -> None:
        """Its lease ran out before the store could be told that it goes on: somebody may have it by now."""
        held.is_dropped = True
        self._home.loop.call_soon_threadsafe(self._let_go, held)

    def _let_go(self, held: HeldTask) -> None:
        self._home.stepper.cancel(held, held.key, "lost")
        self._forget(held)

    def _forget(self, held: HeldTask) -> None:
        if held.alarm is not None:
            held.alarm.cancel()
        name = held.uid, held.key, held.attempt
        if self._held.get(name) is held:
            del self._held[name]

    async def _answered(self, answers: list[tuple[HeldTask, bool, bool]]) -> None:
        """The store has outcomes: those that counted are in the inboxes of their runs."""
        for held, counted, is_repeat in answers:
            self._forget(held)
            if not counted and not is_repeat:
                log_outcome_dropped(self._home.log, held.started, held.key, held.attempt)
        uids = dict.fromkeys(held.uid for held, counted, _ in answers if counted)
        hot = [uid for uid in uids if self._home.find(uid) is not None]
        if self._misses and any(claim.sharing is not None for claim in self._worker.task_claims()):
            self._end_pause()  # what had no place in a queue with a limit may have one now
            self._wake.set()
        if len(hot) < len(uids):
            self._worker.claims.wake()  # the others may be due for us
        await self._home.read_mail(hot)

    # --- leaving ------------------------------------------------------------------------------------------------------

    @property
    def is_moving(self) -> bool:
        """Something of it is under way here."""
        return self._wake.is_set() or not self.reports.is_idle

    def abandon(self) -> None:
        """The worker lost its lease: none of them is ours. What is reported already is the store's to judge."""
        for held in list(self._held.values()):
            held.is_dropped = True
            if not held.is_over:
                self._forget(held)
