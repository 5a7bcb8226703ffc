"""A lab: an app's workflows on a store in memory, with a clock that skips what nobody waits for. Layer: testing.

The lab works a twin of the app: the same functions and settings, a store of its own. What always holds: lab time moves
on by itself as the machine's does, and skips only inside `result`, `run`, `until_waiting` and `pass_time`, and only
when nothing moves; so a test can answer an approval before it expires, however short its expiry is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, overload
from uuid import uuid4

from outlast.core.durations import Duration, format_duration, parse_duration
from outlast.core.instants import to_datetime
from outlast.engine.worker import Worker
from outlast.errors import StoreError
from outlast.stores.memory import MemoryStore
from outlast.testing.clock import SkippingClock
from outlast.testing.faults import Faults, faulty
from outlast.testing.ledger import Ledger

if TYPE_CHECKING:
    from outlast.app import Outlast
    from outlast.run.handle import Run
    from outlast.stores.store import Look, Store

__all__ = ["Lab", "StandsStill", "enter_lab", "running"]

R = TypeVar("R")
Ts = TypeVarTuple("Ts")

LEASE = "1d"
"""Of the lab's worker. Nobody else is there to take over, and it is renewed before each skip."""
LEASE_US = parse_duration(LEASE)
PATIENT_TURNS = 200
"""Turns of the event loop after which waiting for what moves is done with pauses."""
PAUSE_S = 0.001


class StandsStill(AssertionError):
    """A run will not go on, however much time passes: it waits for somebody, or was set aside."""

    def __init__(self, run_id: str, waiting_on: str) -> None:
        waits = waiting_on or "nothing that the lab knows of"
        super().__init__(
            f"Nothing moves any more, and run {run_id!r} has not ended: it waits for {waits}."
            " Answer it (run.approve, run.signal, run.resume), then ask again."
        )
        self.run_id = run_id
        self.waiting_on = waiting_on


class Lab:
    """What `running` gives."""

    def __init__(
        self, app: Outlast, worker: Worker, clock: SkippingClock, ledger: Ledger, faults: Faults | None = None
    ) -> None:
        self.app = app
        """The twin that is worked here: start runs of it, list them, ask it what waits."""
        self.ledger = ledger
        """What steps did."""
        self.worker = worker
        self._clock = clock
        self._faults = faults

    @property
    def now(self) -> datetime:
        """Lab time, in UTC."""
        return to_datetime(self._clock())

    # --- running ------------------------------------------------------------------------------------------------------

    @overload
    async def run(self, workflow: Callable[[*Ts], Coroutine[Any, Any, R]], /, *args: *Ts) -> R: ...
    @overload
    async def run(self, workflow: str, /, *args: object) -> Any: ...
    async def run(self, workflow: Callable[[*Ts], Coroutine[Any, Any, Any]] | str, /, *args: *Ts) -> Any:
        """Start a run, skip to its end, and give its result. Raises what `result` raises."""
        name = str(uuid4())
        run: Run[Any] = await self._until_told(lambda: self.app.start(workflow, *args, id=name))
        return await self.result(run)

    async def result(self, run: Run[R], *, within: Duration = "3650d") -> R:
        """The run's result, or what `Run.result` raises: time is skipped until it has ended.

        Raises StandsStill for a run that waits for somebody; TimeoutError when it has not ended `within` lab time.
        """
        until = self._clock() + parse_duration(within)
        while True:
            due = await self.settle()
            info = await self._until_told(run.status)
            if info.finished_at is not None:
                return await self._until_told(run.result)
            if due is None:
                raise StandsStill(run.id, info.waiting_on)
            if due > until:
                limit = format_duration(parse_duration(within))
                raise TimeoutError(
                    f"Run {run.id!r} has not ended within {limit} of lab time. Ask for more, with within=."
                )
            self._skip_to(due)

    async def until_waiting(self, run: Run[Any]) -> bool:
        """Skip until somebody can answer something that the run waits for. False: it has ended.

        Raises StandsStill when neither will ever come.
        """
        while True:
            due = await self.settle()
            info = await self._until_told(run.status)
            if info.waits or info.finished_at is not None:
                return info.finished_at is None
            if due is None:
                raise StandsStill(run.id, info.waiting_on)
            self._skip_to(due)

    async def pass_time(self, duration: Duration) -> None:
        """Let so much time pass. All that is due on the way happens, in its order, at its time."""
        until = self._clock() + parse_duration(duration)
        while (due := await self.settle()) is not None and due <= until:
            self._skip_to(due)
        self._skip_to(until)
        await self.settle()

    async def settle(self) -> int | None:
        """Let happen what needs no more time. Gives when something is next due, in µs; None: nothing is."""
        worker, turns = self.worker, 0
        home, store = worker.home, worker.engine.store
        assert home is not None
        while True:
            await asyncio.sleep(0 if turns < PATIENT_TURNS else PAUSE_S)
            turns += 1
            look = await self._until_told(lambda: store.look(worker.claims.looking()))
            due = _earliest(look.next_at, home.next_due_us())
            is_due = look.due or (due is not None and due <= worker.now_us)  # it will move: it reads its inbox first
            is_moving = is_due or look.mail or look.dead or look.lapsed or home.is_moving
            if not is_moving and not await self._claims(look):
                # A claim may have landed whose answer is still on its way.
                owned = await self._until_told(lambda: store.list_owned(worker.id))
                if home.known().issuperset(run.uid for run in owned) and not home.is_moving:
                    return _earliest(look.next_at, home.next_due_us())
            if look.due or look.mail:
                worker.claims.wake()

    async def _claims(self, look: Look) -> bool:
        """Whether there was something to claim, but for runs that are due."""
        home = self.worker.home
        assert home is not None
        if look.tasks and await self._until_told(home.tasks.claim) != 0:
            return True
        return bool(look.lanes) and await self._until_told(lambda: home.pools.claim(look.lanes, at_once=True))

    def _skip_to(self, at_us: int) -> None:
        engine, by_us = self.worker.engine, at_us - self._clock()
        if by_us > 0:
            self._renew(LEASE_US + by_us)
            self._clock.skip(by_us)
        engine.clock.set(self._clock())
        assert self.worker.home is not None
        for run in self.worker.home.runs_at_rest():  # their alarms count by the machine's time, and would ring too late
            due = run.next_due_us()
            if due is not None and due <= engine.clock.now_us():
                run.advance()

    def _renew(self, lease_us: int) -> None:
        while True:
            try:
                self.worker.engine.store.renew(self.worker.id, lease_us)
            except StoreError:
                if self._faults is None:
                    raise
            else:
                return

    async def _until_told(self, ask: Callable[[], Awaitable[R]]) -> R:
        """Ask until there is an answer: with faults there may be none at first."""
        while True:
            try:
                return await ask()
            except StoreError:
                if self._faults is None:
                    raise
                await asyncio.sleep(PAUSE_S)


@asynccontextmanager
async def running(
    app: Outlast, *, ledger: Ledger | None = None, faults: Faults | None = None
) -> AsyncGenerator[Lab, None]:
    """Work the app's workflows on an empty store in memory, with time to skip.

    The app itself is not opened, and its store not touched. Steps are carried out as they are; effects are noted in
    `ledger`, or in one of the lab's own. With `faults` the store has them; what a test calls itself may then raise
    StoreError, as it may in production.
    """
    clock = SkippingClock()
    store: Store = MemoryStore(clock=clock)
    if faults is not None:
        store = faulty(store, faults)
    async with enter_lab(app, store, clock, Ledger() if ledger is None else ledger, faults) as lab:
        yield lab


@asynccontextmanager
async def enter_lab(
    app: Outlast, store: Store, clock: SkippingClock, ledger: Ledger, faults: Faults | None = None
) -> AsyncGenerator[Lab, None]:
    """A lab on this store: one process of those that share it."""
    twin = app.on_store(store)
    with _calm(faults):  # nobody could say what a lab is that could not be entered, or left
        async with twin.worker(lease=LEASE, grace="0s", queues=_queues_of(twin)) as worker:
            assert worker.home is not None
            worker.home.stepper.on_begin = ledger.note
            with _calm(faults, is_calm=False):
                yield Lab(twin, worker, clock, ledger, faults)


@contextmanager
def _calm(faults: Faults | None, *, is_calm: bool = True) -> Generator[None, None, None]:
    if faults is None:
        yield
        return
    before, faults.is_calm = faults.is_calm, is_calm
    try:
        yield
    finally:
        faults.is_calm = before


def _earliest(*dues: int | None) -> int | None:
    return min((due for due in dues if due is not None), default=None)


def _queues_of(app: Outlast) -> Iterable[str]:
    """All that its steps go to by their own options: the lab's worker is the only one there is."""
    steps = [app.find_step(name) for name in app.functions()]
    queues = (step.settings.queue for step in steps if step is not None)
    return dict.fromkeys(["default", *(queue for queue in queues if queue is not None)])
