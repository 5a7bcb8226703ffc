"""Two processes, as far as the store can tell: engines of their own over one memory store, whose calls can be held.

Races between a worker and the rest of the world are decided here, call by call, where killing real processes would hit
them once in a thousand times. `HeldStore` is the memory store; a held call has not happened yet (`before=True`), or has
happened and its answer is on the way.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from outlast.authoring.module import Module
from outlast.authoring.workflow import Workflow
from outlast.core.events import Event, decode_events
from outlast.engine.engine import Engine
from outlast.engine.hot import HotRun
from outlast.engine.hotruns import HotRuns
from outlast.engine.starting import Start
from outlast.engine.tasks.queues import QueueSettings
from outlast.engine.worker import Worker, WorkerSettings
from outlast.stores.memory import MemoryStore
from outlast.stores.store import (
    ClaimedRun,
    ClaimedTask,
    Claiming,
    Entry,
    Inbox,
    Look,
    Outcome,
    OwnedRun,
    Progress,
    Reaped,
    RunRow,
    RunSharing,
    Sharing,
    TaskOutcome,
    WorkerRow,
)

__all__ = ["HeldStore", "Hold", "Process", "events_of", "has_event", "process", "until", "until_event"]

T = TypeVar("T")
LOG = logging.getLogger("outlast")


class Hold:
    """The next call that fits is held until `let_go`."""

    def __init__(self, fits: Callable[..., bool], *, before: bool) -> None:
        self.fits = fits
        self.before = before
        self.reached = asyncio.Event()
        self._go = asyncio.Event()

        self._error: Exception | None = None

    async def wait(self) -> None:
        self.reached.set()
        await self._go.wait()
        if self._error is not None:
            raise self._error

    def let_go(self) -> None:
        self._go.set()

    def fail(self, error: Exception) -> None:
        """The call raises this in place of its answer."""
        self._error = error
        self._go.set()


class HeldStore(MemoryStore):
    """A handle on the memory store of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"memory://{name}")
        self._holds: dict[str, list[Hold]] = {}
        self.failures: dict[str, list[Exception]] = {}
        """By method: what its next calls raise."""

    def hold(self, method: str, fits: Callable[..., bool] = lambda *_: True, *, before: bool = False) -> Hold:
        hold = Hold(fits, before=before)
        self._holds.setdefault(method, []).append(hold)
        return hold

    async def _pass(self, method: str, call: Coroutine[Any, Any, T], *arguments: object) -> T:
        if self.failures.get(method):
            call.close()
            raise self.failures[method].pop(0)
        holds = self._holds.get(method, [])
        hold = next((hold for hold in holds if hold.fits(*arguments)), None)
        if hold is None:
            return await call
        holds.remove(hold)
        if hold.before:
            try:
                await hold.wait()
            except BaseException:
                call.close()  # whoever asked has gone
                raise
            return await call
        value = await call
        await hold.wait()
        return value

    async def lapse(self, worker_id: str) -> None:
        """The worker's lease runs out, and a peer notices."""
        self._tables.workers[worker_id].expires_at = 0
        while await self.reap() is not None:
            pass

    async def register(self, worker: WorkerRow, lease_us: int) -> int:
        return await self._pass("register", super().register(worker, lease_us))

    async def commit(self, worker_id: str | None, batch: Sequence[Progress]) -> list[Outcome]:
        return await self._pass("commit", super().commit(worker_id, batch), batch)

    async def claim(self, claiming: Claiming, sharing: RunSharing | None = None) -> list[ClaimedRun]:
        return await self._pass("claim", super().claim(claiming, sharing), claiming)

    async def adopt(self, worker_id: str, uid: str, epoch: int) -> ClaimedRun | None:
        return await self._pass("adopt", super().adopt(worker_id, uid, epoch), uid)

    async def list_owned(self, worker_id: str) -> list[OwnedRun]:
        return await self._pass("list_owned", super().list_owned(worker_id))

    async def look(self, claiming: Claiming) -> Look:
        return await self._pass("look", super().look(claiming), claiming)

    async def reap(self, *, limit: int = 500, orphans: bool = False) -> Reaped | None:
        return await self._pass("reap", super().reap(limit=limit, orphans=orphans))

    async def list_workers(self) -> list[WorkerRow]:
        return await self._pass("list_workers", super().list_workers())

    async def find_uid(self, uid: str) -> RunRow | None:
        return await self._pass("find_uid", super().find_uid(uid), uid)

    async def read_journal(self, uid: str, *, after: int = -1, limit: int = 1000) -> list[Entry]:
        return await self._pass("read_journal", super().read_journal(uid, after=after, limit=limit), uid)

    async def claim_tasks(
        self, claiming: Claiming, functions: Sequence[str], lease_us: int, sharing: Sharing | None = None
    ) -> list[ClaimedTask]:
        return await self._pass("claim_tasks", super().claim_tasks(claiming, functions, lease_us, sharing), claiming)

    async def renew_tasks(
        self, worker_id: str, held: Sequence[tuple[str, str, int, bytes]], lease_us: int
    ) -> list[tuple[str, str, int]]:
        return await self._pass("renew_tasks", super().renew_tasks(worker_id, held, lease_us), held)

    async def release_tasks(
        self, worker_id: str, held: Sequence[tuple[str, str, int]], delay_us: int
    ) -> list[tuple[str, str, int]]:
        return await self._pass("release_tasks", super().release_tasks(worker_id, held, delay_us), held)

    async def complete_tasks(self, worker_id: str, outcomes: Sequence[TaskOutcome]) -> list[bool]:
        return await self._pass("complete_tasks", super().complete_tasks(worker_id, outcomes), outcomes)

    async def lost_attempts(self, uid: str, open_attempts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        return await self._pass("lost_attempts", super().lost_attempts(uid, open_attempts), uid)

    async def read_inbox(self, uid: str, *, after: int = 0, limit: int = 500) -> Inbox:
        return await self._pass("read_inbox", super().read_inbox(uid, after=after, limit=limit), uid)


class Process:
    """One engine on a store, with a worker unless it is a client."""

    def __init__(self, store: HeldStore, engine: Engine) -> None:
        self.store = store
        self.engine = engine

    @property
    def worker(self) -> Worker:
        assert self.engine.worker is not None
        return self.engine.worker

    @property
    def home(self) -> HotRuns:
        assert self.worker.home is not None
        return self.worker.home

    def hot(self, uid: str) -> HotRun | None:
        return self.home.find(uid)

    async def start(self, workflow: Workflow[..., Any], *args: object, **options: Any) -> str:
        uid, _ = await self.engine.start(workflow, workflow.encode_input(args, {}), Start(**options))
        return uid

    async def end_of(self, uid: str, timeout: float = 20.0) -> Event:
        return await self.engine.wait_outcome(uid, timeout)

    async def journal(self, uid: str) -> list[Event]:
        return [event for _, events in await self.engine.read_events(uid) for event in events]

    async def row(self, uid: str) -> RunRow:
        return await self.engine.get_row(uid)


@asynccontextmanager
async def process(
    name: str, module: Module, *, works: bool = True, task_lease_us: int = 60_000_000, **settings: Any
) -> AsyncIterator[Process]:
    """A process on the store of this name, for as long as the block lasts."""
    store = HeldStore(name)
    queues = {"gpu": QueueSettings(task_lease_us)}
    engine = Engine(store, module, dev=False, executors={}, log=LOG, queues=queues)
    one = Process(store, engine)
    if works:
        async with engine.make_worker(WorkerSettings(**settings)):
            yield one
    else:
        await engine.open()
        try:
            yield one
        finally:
            await engine.close()


def events_of(batch: Sequence[Progress]) -> list[Event]:
    """All that a commit would write."""
    return [event for part in batch if part.events for event in decode_events(part.events)]


def has_event(*kinds: type) -> Callable[[Sequence[Progress]], bool]:
    """For `hold`: a commit that writes an event of one of these kinds."""
    return lambda batch: any(isinstance(event, kinds) for event in events_of(batch))


async def until_event(one: Process, uid: str, kind: type, count: int = 1) -> None:
    """Wait until the run's journal has so many events of this kind."""
    deadline = time.monotonic() + 20.0
    while sum(isinstance(event, kind) for event in await one.journal(uid)) < count:
        assert time.monotonic() < deadline, f"no {kind.__name__} came"
        await asyncio.sleep(0.002)


async def until(condition: Callable[[], object], timeout: float = 20.0) -> None:
    """Wait for something that nobody tells of."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        await asyncio.sleep(0.002)
