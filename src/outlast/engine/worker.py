"""A worker: it claims runs that are due, keeps its lease, and lets go in good order. Layer: engine.

What always holds: a worker that lost its lease drops everything before it does anything else, and comes back under a
new id; one that is told to stop, by its process or by a word in the store, hands back what it holds, so that nobody has
to wait for a lease to lapse.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import msgspec

from outlast.engine.attempts.stepper import Stepper
from outlast.engine.attempts.threads import ThreadPool
from outlast.engine.claims.claimer import FLOOR_S, Claimer
from outlast.engine.claims.pools import Pools
from outlast.engine.clock import boottime_us
from outlast.engine.heartbeat import Heartbeat
from outlast.engine.hotruns import HotRuns
from outlast.engine.ids import new_uid
from outlast.engine.loading import Loader
from outlast.engine.sweeper import Sweeper
from outlast.engine.tasks.queues import TaskClaim, plan_claims
from outlast.engine.tasks.taking import TaskTaker
from outlast.engine.versions.serving import find_release, python_version
from outlast.engine.watchdog import Watchdog
from outlast.errors import StoreError
from outlast.stores.store import WorkerRow

if TYPE_CHECKING:
    from outlast.engine.engine import Engine

__all__ = ["Worker", "WorkerSettings"]

CLAIMS = ("outlast-claims", "outlast-task-claims")
"""Names of the tasks that claim."""


class WorkerSettings(msgspec.Struct, frozen=True):
    """What `app.worker` was asked for, checked."""

    concurrency: int = 200
    """Steps executing at once."""
    queues: tuple[str, ...] = ("default",)
    max_hot: int = 10_000
    """Runs in memory; 0: none stays there between two stimuli."""
    lease_us: int = 10_000_000
    """How long others wait before they take over from one that says nothing."""
    grace_us: int = 30_000_000
    """How long running steps may go on when the worker is told to stop."""
    threads: int = 32
    """Plain functions executing at once."""


class Worker:
    """Works runs of one app, in the event loop that opened it. Use it as `async with app.worker():`."""

    def __init__(self, engine: Engine, settings: WorkerSettings) -> None:
        self.engine = engine
        self.settings = settings
        self.id = ""
        self.home: HotRuns | None = None
        self._heartbeat: Heartbeat | None = None
        self._threads = ThreadPool(settings.threads)
        self.claims = Claimer(self)
        self._tasks: list[asyncio.Task[None]] = []
        self._unsubscribe: Callable[[], None] = lambda: None
        self._is_draining = False
        self._leaving: asyncio.Task[None] | None = None
        self._asked: asyncio.Task[None]
        self.on_asked: Callable[[], object] = lambda: None
        """Called once it was asked from outside to drain, and has begun to."""
        self._fenced = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.engine.open()
        try:
            await self._begin()
        except BaseException:
            await self._end_tasks()
            if self._heartbeat is not None:
                self._heartbeat.stop()
            if self.home is not None:
                self.home.watchdog.stop()
            await self.engine.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.drain()
        finally:
            await self.engine.close()

    @property
    def is_draining(self) -> bool:
        """It was told to stop."""
        return self._is_draining

    @property
    def is_working(self) -> bool:
        """It claims runs, and may start some of its own."""
        return bool(self.id) and not self._is_draining and not self._fenced.is_set()

    @property
    def lease_age_us(self) -> int:
        """Since the lease was last renewed."""
        return 0 if self._heartbeat is None else self._heartbeat.age_us

    @property
    def now_us(self) -> int:
        """The store's time, as far as known."""
        return self.engine.clock.now_us()

    # --- beginning ----------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        engine, settings = self.engine, self.settings
        loop = asyncio.get_running_loop()
        home = self.home = HotRuns(
            engine.store, engine.registry, engine.writer, engine.clock,
            max_hot=settings.max_hot, dev=engine.dev, log=engine.log,
            on_moved=engine.moved, watched=engine.changes.watched, on_claimable=self.claims.wake,
            observers=engine.observers, payloads=engine.payloads,
        )  # fmt: skip
        home.audit = engine.audit
        home.stepper = Stepper(
            home, concurrency=settings.concurrency, threads=self._threads, executors=engine.executors
        )
        engine.writer.on_told = home.stepper.begin
        home.tasks = TaskTaker(self, home)
        home.pools = Pools(self, home, engine.shares)
        home.stepper.tracing = engine.tracing
        home.watchdog = Watchdog(
            threading.get_ident(), lease_us=settings.lease_us, log=engine.log, describe_current=home.stepper.describe
        )
        home.watchdog.start(loop)
        await self._register()
        self._tasks = [
            loop.create_task(self.claims.run(), name=CLAIMS[0]),
            loop.create_task(home.tasks.run(), name=CLAIMS[1]),
            loop.create_task(home.tasks.leases.run(), name="outlast-task-leases"),
            loop.create_task(home.tasks.reports.run(), name="outlast-task-reports"),
            loop.create_task(Sweeper(self).run(), name="outlast-sweeps"),
            loop.create_task(self._come_back(), name="outlast-fence"),
        ]
        self._unsubscribe = engine.store.subscribe(self.claims.wake)
        engine.worker = self

    async def _register(self) -> None:
        """Under a new id, always (PROTOCOL F5)."""
        engine, settings, home = self.engine, self.settings, self.home
        assert home is not None
        worker_id = new_uid(self.now_us)
        home.deploy = engine.deploy
        await engine.versions.keep(engine.registry.iter_workflows())
        row = WorkerRow(
            worker_id, socket.gethostname(), os.getpid(), settings.queues, engine.registry.functions(), engine.deploy,
            python_version(), self.now_us, versions=engine.versions.served(), release=find_release(),
        )  # fmt: skip
        sent_at = boottime_us()
        engine.clock.set(await engine.store.register(row, settings.lease_us))
        home.loader = Loader(home, worker_id, engine.versions)
        loop = home.loop
        self._heartbeat = Heartbeat(
            engine.store, worker_id, settings.lease_us, engine.clock, sent_at,
            stalled_us=lambda: home.watchdog.stalled_us,
            on_fenced=lambda fenced: loop.call_soon_threadsafe(self.on_fenced, fenced),
            on_drain_asked=lambda asked: loop.call_soon_threadsafe(self.on_drain_asked, asked),
        )  # fmt: skip
        home.use_lease(self._heartbeat.holds_lease, lambda: self.on_fenced(self.id))
        self._heartbeat.start()
        self.id = home.worker_id = engine.writer.worker_id = worker_id
        self._fenced.clear()
        self.claims.wake()

    # --- claims -------------------------------------------------------------------------------------------------------

    def task_claims(self) -> list[TaskClaim]:
        """How it asks for queued steps."""
        return plan_claims(self.settings.queues, self.engine.queues)

    # --- the fence ----------------------------------------------------------------------------------------------------

    def on_fenced(self, worker_id: str) -> None:
        """The lease is lost: nothing of it is ours. Drop it, then come back under another id."""
        if worker_id != self.id or self._fenced.is_set() or self.home is None:
            return
        self.engine.log.warning("worker %s lost its lease: it drops its work and comes back", worker_id)
        self._fenced.set()
        self.engine.writer.worker_id = None
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self.home.abandon_all()

    async def _come_back(self) -> None:
        while True:
            await self._fenced.wait()
            old = self.id
            try:
                await self.engine.store.retire(old)
                await self._register()
            except Exception as error:
                log = self.engine.log
                log.warning(
                    "worker %s cannot come back yet: %s", old, error, exc_info=not isinstance(error, StoreError)
                )
                await asyncio.sleep(FLOOR_S)

    # --- leaving ------------------------------------------------------------------------------------------------------

    async def drain(self, grace_s: float | None = None) -> None:
        """Stop claiming, let running steps go on for `grace_s` (default: the worker's), hand the rest back at once.

        Begun already, it is waited for; steps get no longer than the hastier of the two gives them."""
        if self.home is None:
            return
        if self._leaving is None:
            self._is_draining = True
            self._leaving = asyncio.get_running_loop().create_task(
                self._leave(self.home, grace_s), name="outlast-drain"
            )
        elif grace_s is not None and not (await asyncio.wait({self._leaving}, timeout=grace_s))[0]:
            self.home.stepper.stop_all("lost")
        await self._leaving

    def on_drain_asked(self, worker_id: str) -> None:
        """Somebody asked for it in the store: as if the process had been told to stop."""
        if worker_id != self.id or self._is_draining:
            return
        self.engine.log.info("worker %s was asked to drain: it claims no more, and hands back what it holds", worker_id)
        self._asked = asyncio.get_running_loop().create_task(self._drain_as_asked(), name="outlast-drain-asked")
        self._is_draining = True
        self.on_asked()

    async def _drain_as_asked(self) -> None:
        try:
            await self.drain()
        except Exception:
            self.engine.log.exception("worker %s could not drain; its lease will lapse", self.id)

    async def _leave(self, home: HotRuns, grace_s: float | None) -> None:
        engine = self.engine
        self._unsubscribe()
        home.stepper.is_closed = True
        await self._end_claims(home)
        home.leave()
        grace = self.settings.grace_us / 1e6 if grace_s is None else grace_s
        try:
            async with asyncio.timeout(grace + self.settings.lease_us / 1e6):
                await self._show_draining(home)
                await self._let_steps_end(home, grace)
                left = home.stepper.stop_all("lost")
                if left:
                    await asyncio.wait(left, timeout=1.0)
                await home.tasks.reports.settle()
                await home.hand_back()
        except TimeoutError:
            engine.log.error("worker %s leaves %d runs to its lease: the store does not answer", self.id, len(home))
            home.abandon_all()
        await self._end_tasks()
        await home.loader.close()
        engine.worker = None if engine.worker is self else engine.worker
        if self._heartbeat is not None:
            self._heartbeat.stop()
        try:
            await engine.store.retire(self.id)
            while await engine.store.lapse_tasks():
                pass  # queued steps it had to stop, for others to go on with at once
        except StoreError as error:
            engine.log.warning("worker %s could not hand back; its lease will lapse: %s", self.id, error)
        engine.writer.worker_id, engine.writer.on_told = None, lambda: None
        home.watchdog.stop()
        home.stepper.close()
        self._threads.close()

    async def _show_draining(self, home: HotRuns) -> None:
        """Let others see it, while steps are waited for."""
        if not home.stepper.executing:
            return
        try:
            await self.engine.store.ask_drain(self.id)
        except StoreError as error:
            self.engine.log.warning("worker %s drains, and could not say so in the store: %s", self.id, error)

    async def _end_claims(self, home: HotRuns) -> None:
        """What a claim under way brings is taken in: cancelled, it would be nobody's until the worker has gone."""
        self.claims.wake()
        home.tasks.wake()
        claims = [task for task in self._tasks if task.get_name() in CLAIMS]
        await asyncio.wait(claims, timeout=self.settings.lease_us / 1e6)
        await self._end_tasks(*CLAIMS, "outlast-sweeps")

    async def _end_tasks(self, *names: str) -> None:
        ending = [task for task in self._tasks if not names or task.get_name() in names]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)

    async def _let_steps_end(self, home: HotRuns, grace_s: float) -> None:
        """Until nothing executes and all is written, or the time is up. No more attempts begin than are on record."""
        deadline = home.loop.time() + grace_s
        while True:
            await home.settle()
            await home.tasks.reports.settle()
            left_s = deadline - home.loop.time()
            if not home.stepper.executing or left_s <= 0:
                return
            if tasks := home.stepper.tasks():  # none: what was about to begin has ended, and is to be written
                await asyncio.wait(tasks, timeout=left_s)
