"""Home of one worker's hot runs: who is in memory, for how long, what an answer of the store means. Layer: engine.

What always holds: a run in this table is owned by this worker, as far as it knows; a run that leaves it was parked, has
ended, or was lost to the fence, and its body was evicted, never just dropped (LOOP §3).
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import logging
from collections.abc import Callable, Container, Generator, Iterable
from contextlib import contextmanager
from operator import attrgetter
from typing import TYPE_CHECKING

from outlast.core.events import RunCancelled, RunCompleted, RunOutcome
from outlast.core.states import RunStatus
from outlast.engine import books, mail
from outlast.engine.claims.pools import lane_of
from outlast.engine.hot import HotRun
from outlast.engine.sweeper import PARK_AFTER_US
from outlast.errors import StoreError
from outlast.stores.store import Progress, Verdict
from outlast.telemetry.logs import fields, log_run_failed
from outlast.telemetry.observer import Observers

if TYPE_CHECKING:
    from outlast.authoring.module import Module
    from outlast.core.events import ErrorRecord
    from outlast.engine.attempts.stepper import Stepper
    from outlast.engine.claims.pools import Lane, Pools
    from outlast.engine.clock import StoreClock
    from outlast.engine.draft import Draft
    from outlast.engine.loading import Loader
    from outlast.engine.tasks.taking import TaskTaker
    from outlast.engine.watchdog import Watchdog
    from outlast.engine.writer import Answer, Writer
    from outlast.payloads import Payloads
    from outlast.stores.store import ClaimedRun, Outcome, OwnedRun, Store, WorkerRow
    from outlast.telemetry.audit import Audit

__all__ = ["HotRuns"]

SUSPECT_FROM = 3
"""Takeovers without progress from which a run is a suspect; a worker holds at most one at a time (PROTOCOL F33)."""


class HotRuns:
    """The table, and the services a hot run needs. One for each worker incarnation and its successors."""

    stepper: Stepper
    tasks: TaskTaker
    pools: Pools
    loader: Loader
    watchdog: Watchdog
    audit: Audit

    def __init__(
        self,
        store: Store,
        registry: Module,
        writer: Writer,
        clock: StoreClock,
        *,
        max_hot: int,
        dev: bool,
        log: logging.Logger,
        on_moved: Callable[[str, RunOutcome | None, bool], None],
        watched: Container[str],
        on_claimable: Callable[[], None],
        observers: Observers,
        payloads: Payloads,
    ) -> None:
        """`on_moved(uid, end, left)` is told of every entry that landed, and of a run that left (of entries that end no
        run, only for uids in `watched`); `on_claimable`, that places are free again."""
        self.store = store
        self.registry = registry
        self.writer = writer
        self.clock = clock
        self.loop = asyncio.get_running_loop()
        self.log = log
        self.dev = dev
        self.max_hot = max_hot
        self.peers: list[WorkerRow] = []
        """Other live workers that serve all queues of this one, as of the last sweep: runs may be left to them."""
        self.deploy = ""
        self.worker_id = ""
        """The incarnation that owns what is in the table; "" between losing the lease and coming back."""
        self.refusals: dict[tuple[str, str], ErrorRecord] = {}
        """Children that cannot start, by parent and step, and why: their ids are other runs'."""
        self.survivors = 0
        """Coroutines that outlived the eviction of their body (LOOP §3)."""
        self.holds_lease: Callable[[], bool] = lambda: True
        """Whether this worker still holds its lease: asked just before user code is entered."""
        self.lose_lease: Callable[[], None] = lambda: None
        """The lease ran out: what was on record and did not happen for that must be given up, or nobody does it."""
        self._runs: dict[str, HotRun] = {}
        self.is_short = False
        """More is due than there are places for: whoever claims is to be told of the next one."""
        self._at_rest = 0
        """How many of them have nothing to do."""
        self.on_their_way: set[str] = set()
        """Runs being started here, or released: the store may say they are ours while the table does not know them."""
        self._asking = 0
        self._given_up: dict[str, int] = {}
        """Epochs of runs that left while an answer that may give them was under way."""
        self._parking = 0
        self._parked = asyncio.Event()
        self._is_leaving = False
        self._on_moved = on_moved
        self._watched = watched
        self._on_claimable = on_claimable
        self.observers = observers
        self.payloads = payloads

    # --- the table ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._runs)

    def find(self, uid: str) -> HotRun | None:
        """The run, if it is hot here."""
        return self._runs.get(uid)

    @property
    def free(self) -> int:
        """How many runs may be claimed: those at rest are parked to make room."""
        busy = len(self._runs) - self._at_rest
        return max(max(self.max_hot, 1) - busy - self._parking, 0)

    @property
    def resting(self) -> int:
        """How many of them have nothing to do."""
        return self._at_rest

    def add(self, run: HotRun) -> None:
        """It is ours now. Others may have to go for it."""
        self._runs[run.uid] = run
        if len(self._runs) > max(self.max_hot, 1):
            self._make_room()

    def use_lease(self, holds: Callable[[], bool], lose: Callable[[], None]) -> None:
        """`holds` says whether the lease is held; `lose` is called when it turned out not to be."""
        self.holds_lease, self.lose_lease = holds, lose

    def has_suspect(self) -> bool:
        """Whether a run is here that may be what kills its workers."""
        return any(run.recoveries >= SUSPECT_FROM for run in self._runs.values())

    # --- claims and loads ---------------------------------------------------------------------------------------------

    def claimed(self, claim: ClaimedRun, worker_id: str, *, adopted: int = -1) -> None:
        """This incarnation of the worker was given a run: load it. `adopted` is the epoch in which it was ours before.

        If it lost its lease before it heard of that, the run is not ours: working it would put a second writer beside
        whoever takes it over."""
        if worker_id != self.worker_id:
            return
        known = self._runs.get(claim.uid)
        if claim.epoch <= self._given_up.get(claim.uid, -1):
            return  # it was adopted meanwhile, and given up again: this answer is of an ownership that is over
        if known is not None:
            if known.epoch == adopted:  # ours all along; a second load would miss what this one is writing
                known.epoch = claim.epoch
            if known.epoch >= claim.epoch:
                return  # reconcile was quicker, or the claim
            self.abandon(known)
        if claim.recoveries >= SUSPECT_FROM and self.has_suspect():
            self.loader.put_back(claim, self.clock.now_us() + PARK_AFTER_US)
            return
        run = HotRun(self, claim.uid, claim.epoch, recoveries=claim.recoveries)
        run.is_loading = True
        run.is_shown_gated = claim.status is RunStatus.SUSPENDED
        run.lane = lane_of(claim)
        self.add(run)
        self.loader.load(run)

    def load_again(self, run: HotRun) -> None:
        """Its body was evicted, and something arrived for it."""
        self._wakes(run)
        run.is_loading = True
        self.loader.load(run)

    @contextmanager
    def asking(self) -> Generator[None, None, None]:
        """Around a call that may give this worker runs, and `claimed` for each of them: its answer may be late."""
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:
                self._given_up.clear()

    def known(self) -> set[str]:
        """uids of all that memory knows of: hot, being started, or being released."""
        return {*self._runs, *self.on_their_way}

    async def reconcile(self, owned: Iterable[OwnedRun], worker_id: str) -> None:
        """Adopt what the store says is ours and memory does not know (PROTOCOL F4)."""
        for mine in owned:
            if mine.uid not in self._runs and mine.uid not in self.on_their_way:
                with self.asking():
                    claim = await self.store.adopt(worker_id, mine.uid, mine.epoch)
                    if claim is not None:
                        self.pools.given(claim, worker_id, adopted=mine.epoch)

    # --- what a run tells ---------------------------------------------------------------------------------------------

    def submit(self, progress: Progress, run: HotRun, draft: Draft) -> None:
        """Write its entry; the run is told what became of it."""
        if run.is_at_rest:
            self._wakes(run)
        self.writer.submit(progress, functools.partial(run.answered, draft), by=run.owner)

    def landed(self, run: HotRun, draft: Draft) -> None:
        """Its entry is in the journal: tell who watches."""
        if draft.end is not None or run.uid in self._watched:
            self._on_moved(run.uid, draft.end, False)

    def rests(self, run: HotRun) -> None:
        """It has nothing to do. Without `max_hot` its body goes at once: a replay for each stimulus (paranoid mode)."""
        if not run.is_at_rest:
            run.is_at_rest = True
            self._at_rest += 1
            if self.is_short:
                self._on_claimable()
        if self._is_leaving:
            self._hand_back(run)
        elif self.max_hot == 0:
            self._put_away(run)
            self._on_claimable()
        elif run.lane is not None and self.pools.must_yield(run) and run.may_park():
            books.park(run, run.next_due_us())
        elif len(self._runs) > self.max_hot:
            self._make_room()

    def _wakes(self, run: HotRun) -> None:
        if run.is_at_rest:
            run.is_at_rest = False
            self._at_rest -= 1

    def ended(self, run: HotRun) -> None:
        """Its last entry has landed."""
        if not isinstance(run.end, RunCompleted | RunCancelled | None) and run.end.error is not None:
            log_run_failed(self.log, run.started, run.end.error)
        run.evict()
        run.drop()
        for key in run.running:  # a run that ends without its body, by force, has given none of them up
            self.stepper.cancel(run, key)
        self.released(run)

    def released(self, run: HotRun) -> None:
        """It was given up with its last entry."""
        self._forget(run)
        if run.lane is not None:
            self.pools.freed(run.lane)
        self._on_claimable()

    def park(self, run: HotRun, progress: Progress) -> None:
        """It gives itself up. Without an answer it counts as parked all the same: reconcile adopts what is left."""
        self._forget(run)
        # CRASH: the row says that we own it. The lease lapses, and the taker finds it as it was.
        # [test_killed_at[before-park-commit]]
        self.send_park(progress, run.owner, run.lane)

    def abandon(self, run: HotRun) -> None:
        """It is not ours any more, or must not be touched: a peer takes it over when the lease lapses, or reconcile."""
        run.evict()
        run.drop()
        for key in list(run.running):
            self.stepper.cancel(run, key, "lost")
        self._forget(run)

    def stale(self, run: HotRun, draft: Draft, outcome: Outcome) -> None:
        """Its position was taken: our picture is old. Load it anew if it is still ours, drop it only if it is not."""
        text = "run %s moved without us (%s): loading it anew"
        self.log.warning(text, run.name, outcome.verdict.value, extra=fields(run.started))
        self.abandon(run)
        self.loader.reread(run, draft.children if outcome.verdict is Verdict.TAKEN else ())

    def refused(self, run: HotRun, error: StoreError) -> None:
        """The store will never take that entry: a small fresh one in its place sets the run aside (PROTOCOL F8)."""
        self.abandon(run)
        self.send_park(books.set_refused_aside(run, error), run.owner, run.lane)

    def lacks_function(self, run: HotRun, draft: Draft, name: str) -> None:
        """It needs a function nobody here knows: left to a live worker that does, else suspended (SPEC S13)."""
        if any(name in peer.functions and peer.deploy != self.deploy for peer in self.peers):
            run.leave(draft, self.deploy)
        else:
            reason = f"No live worker knows {name!r}. It goes on when one that does comes."
            run.suspend(draft, "FUNCTION_NOT_FOUND", reason, name)

    @property
    def is_moving(self) -> bool:
        """Some run is not at rest, or on its way in or out."""
        is_busy = self.on_their_way or self._asking or self.stepper.executing or self._at_rest < len(self._runs)
        return bool(is_busy) or self.tasks.is_moving

    def next_due_us(self) -> int | None:
        """When the first of the runs at rest is next due."""
        return min((due for run in self._runs.values() if (due := run.next_due_us()) is not None), default=None)

    async def settle(self) -> None:
        """Let what was thought be written, before the runs are handed back."""
        # Asked again and again, since an event would have to be set on every step's path for the sake of leaving.
        while any(not run.is_quiet and not run.running for run in self._runs.values()):  # noqa: ASYNC110 - see above
            await asyncio.sleep(0.001)

    # --- parking ------------------------------------------------------------------------------------------------------

    def runs_at_rest(self) -> list[HotRun]:
        """Runs that have nothing to do now."""
        return [run for run in self._runs.values() if run.is_at_rest]

    def _make_room(self) -> None:
        """Past `max_hot`: the least recently moved are parked, or, with a step in flight here, only evicted.

        A twentieth more than there must be, so that a full house does not look through all of them each time."""
        most = max(self.max_hot, 1)
        excess = len(self._runs) - most + most // 20
        at_rest = (run for run in self._runs.values() if run.is_at_rest and run.machine is not None)
        for run in heapq.nsmallest(excess, at_rest, key=attrgetter("rested_at")):
            self._put_away(run)

    def _put_away(self, run: HotRun) -> None:
        if run.may_park():
            books.park(run, run.next_due_us())
            return
        run.evict()
        if not run.running:  # else it stays at rest: no room is kept for a body that is gone while a step executes
            self._wakes(run)

    def send_park(self, progress: Progress, owner: str, lane: Lane | None = None) -> None:
        """Write that the run is given up, as this incarnation of the worker."""
        self._parking += 1
        self.on_their_way.add(progress.uid)
        self.writer.submit(progress, functools.partial(self._park_answered, progress.uid, lane), by=owner)

    def _park_answered(self, uid: str, lane: Lane | None, answer: Answer) -> None:
        self._parking -= 1
        self.on_their_way.discard(uid)
        if isinstance(answer, StoreError):
            self.log.error("run %s could not be released: %s", uid, answer, extra=fields(None))
        if self._parking == 0:
            self._parked.set()
        self._on_moved(uid, None, True)
        if lane is not None:
            self.pools.freed(lane)
        self._on_claimable()

    def _forget(self, run: HotRun) -> None:
        if self._runs.get(run.uid) is run:
            del self._runs[run.uid]
            if self._asking:
                self._given_up[run.uid] = run.epoch
            self._on_moved(run.uid, None, True)
        self._wakes(run)

    # --- leaving ------------------------------------------------------------------------------------------------------

    def abandon_all(self) -> None:
        """Fenced, or gone: none of them is ours."""
        self.worker_id = ""
        self.stepper.stop_all("lost")
        self.tasks.abandon()
        for run in list(self._runs.values()):
            self.abandon(run)

    def leave(self) -> None:
        """From now on each run is handed back as it comes to rest: none waits for the steps of others."""
        self._is_leaving = True
        for run in list(self._runs.values()):
            self._hand_back(run)

    def _hand_back(self, run: HotRun) -> None:
        """Unless something of it goes on here."""
        if run.is_quiet:
            books.park(run, run.next_due_us() if run.may_park() else self.clock.now_us())

    async def hand_back(self) -> None:
        """Park everything that can be; what cannot is left to the store's `retire`."""
        # CRASH: what was not handed back waits for the lease to lapse. [test_killed_at[handing-back]]
        for run in list(self._runs.values()):
            self._hand_back(run)
        while self._parking:
            self._parked.clear()
            await self._parked.wait()
        self.abandon_all()

    async def read_mail(self, uids: Iterable[str]) -> None:
        """Unread messages of hot runs become events of theirs."""
        for uid in uids:
            if (run := self._runs.get(uid)) is not None:
                await mail.read_mail(run)
