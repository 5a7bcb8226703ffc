"""Those outside: they start the runs of a schedule, answer what these wait for, cancel them, and let them go on.

What always holds: whatever was acknowledged is sent once and never again. So a start, an answer or a cancel that the
engine loses is missed by the run it was for, and seen at the end. One exception: an answer that its run had not heard
when it failed went with that end. Retried, the run waits for it again, and who sees that answers once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from outlast.app import Outlast
from outlast.core.events import DecisionMade, Event, GateOpened, RunReopened, SignalReceived
from outlast.core.waits.approval import User
from outlast.core.waits.events import WaitKind
from outlast.errors import (
    ApprovalInvalid,
    ApprovalResolved,
    RunEnded,
    RunNotFailed,
    RunNotFound,
    StoreError,
    WaitNotFound,
)
from outlast.run.handle import Run
from outlast.run.records import WaitInfo
from tests.simulation.engine.bodies import Program, play
from tests.simulation.engine.world import Host

__all__ = ["Client"]

BOB = User("bob")
OVER = (ApprovalInvalid, ApprovalResolved, RunEnded, RunNotFailed, RunNotFound, WaitNotFound)
"""Too late, and for good; or not open yet, or not any more."""


class Client:
    """One process that works nothing. `app` is open in it; `find_events` gives what is on record of a run."""

    def __init__(self, host: Host, app: Outlast, find_events: Callable[[str], Sequence[Event]]) -> None:
        self._host = host
        self._rng = host.world.rng
        self._app = app
        self._find_events = find_events
        self.acknowledged: set[str] = set()
        """Ids of runs whose start was."""
        self.cancelled: dict[str, int] = {}
        """By the uid of the handle, when a cancel was acknowledged of a run that was live, in the world's time."""
        self._ahead: dict[tuple[str, str], int] = {}
        """Ids of runs and names of what they wait for, or will: these answers are sent before anybody asks."""
        self._answered: dict[tuple[str, str, str], int] = {}
        """Waits, and how often the run had been reopened when somebody set out to answer."""
        self._retried: set[str] = set()

    async def start(self, id: str, program: Program, delay_s: float, **options: Any) -> None:
        """Start the run, until that is acknowledged; perhaps somebody else has already."""
        await asyncio.sleep(delay_s)
        await self._until_told(lambda: self._app.start(play, program, id=id, **options))
        self.acknowledged.add(id)

    async def cancel(self, id: str, delay_s: float, *, force: bool, since_s: float = 0.0) -> None:
        """Ask the run to stop, by a handle that was got so long ago: for another round, maybe."""
        await asyncio.sleep(delay_s - since_s)
        run = await self._until_told(lambda: self._app.get_run(id))
        await asyncio.sleep(since_s)
        if run is not None and await self._until_told(lambda: run.cancel("enough", force=force)):
            self.cancelled[run.uid] = self._host.world.now_us

    async def send_ahead(self, id: str, kind: str, name: str, delay_s: float) -> None:
        """Answer what the run will ask, in whichever round: once, since who knows that it was told says it no more."""
        self._ahead[id, name] = 0
        run = None
        while run is None:
            await asyncio.sleep(delay_s)
            run = await self._until_told(lambda: self._app.get_run(id))
        if not await self._until_told(lambda: self._send_ahead(run, kind, name)):
            self._ahead.pop((id, name), None)

    async def _send_ahead(self, run: Run[Any], kind: str, name: str) -> bool:
        if kind == "signal":
            await run.signal(name, 7, key=f"{name} ahead")
        else:
            await run.approve(name, True, by=BOB, key=f"{name} ahead", timeout=5)
        return True

    def is_any_retried(self, uids: Iterable[str]) -> bool:
        """Whether one of these was asked to go on after it had failed."""
        return not self._retried.isdisjoint(uids)

    async def look_after(self) -> None:
        """Answer what anybody waits for, and let failed runs go on, for ever."""
        while True:
            await asyncio.sleep(self._rng.uniform(0.2, 1.8))
            try:
                page = await self._app.waits(limit=200)
                failed = await self._app.runs(status="failed", limit=200)
            except StoreError:
                continue
            for wait in page.waits:
                if self._is_to_answer(wait):
                    self._host.loop.create_task(self._answer(wait))
            for info in failed.runs:
                if info.parent is None and info.uid not in self._retried:
                    self._retried.add(info.uid)
                    if self._rng.random() < 0.4:
                        run = Run(self._app._here, info.uid, info.id, info.workflow, None)
                        self._host.loop.create_task(self._until_told(run.retry))

    def _is_to_answer(self, wait: WaitInfo) -> bool:
        """Nobody has; or who has was not heard before the run failed, and it goes on now. Each wait of a schedule has a
        name of its own."""
        events = self._find_events(wait.run_uid)
        reopenings = sum(isinstance(event, RunReopened) for event in events)
        name, ahead = (wait.run_uid, wait.key, wait.since.isoformat()), (wait.run_id, wait.name)
        before = self._answered.get(name, self._ahead.get(ahead))
        if before is not None and (before == reopenings or _has_heard(events, wait)):
            return False
        self._answered[name] = reopenings
        return True

    async def _answer(self, wait: WaitInfo) -> None:
        """Once; a key makes sure of it where the answer was lost."""
        await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.3, 2.0]))
        run = Run[Any](self._app._here, wait.run_uid, wait.run_id, wait.workflow, None)
        if wait.kind is WaitKind.SIGNAL:
            await self._until_told(lambda: run.signal(wait.name, self._rng.randint(0, 9), key=wait.key))
        elif wait.kind is WaitKind.GATE:
            await self._until_told(lambda: run.resume(wait.key))
        else:
            value = self._rng.random() < 0.5
            await self._until_told(lambda: run.approve(wait.key, value, by=BOB, key=f"key of {wait.key}", timeout=5))

    async def _until_told(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Ask until there is an answer. None: it is too late."""
        while True:
            try:
                return await ask()
            except OVER:
                return None
            except (StoreError, TimeoutError):
                await asyncio.sleep(self._rng.uniform(0.05, 0.5))


def _has_heard(events: Sequence[Event], wait: WaitInfo) -> bool:
    if wait.kind is WaitKind.GATE:
        return any(isinstance(event, GateOpened) and event.key == wait.key for event in events)
    names = {wait.name, wait.key}
    return any(isinstance(event, SignalReceived | DecisionMade) and event.name in names for event in events)
