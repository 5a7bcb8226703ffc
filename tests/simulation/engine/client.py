"""Those outside: they start the runs of a schedule, answer what these wait for, cancel them, and let them go on.

What always holds: whatever was acknowledged is sent once and never again, also when the run fails and is retried. So a
start, an answer or a cancel that the engine loses is missed by the run it was for, and seen at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from outlast.app import Outlast
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


FAILED = "has failed. Should it be retried"
"""What an approval's TimeoutError says when its run has failed before it judged it."""


class Client:
    """One process that works nothing. `app` is open in it."""

    def __init__(self, host: Host, app: Outlast) -> None:
        self._host = host
        self._rng = host.world.rng
        self._app = app
        self.acknowledged: set[str] = set()
        """Ids of runs whose start was."""
        self.cancelled: dict[str, int] = {}
        """By the uid of the handle, when a cancel was acknowledged of a run that was live, in the world's time."""
        self._ahead: set[tuple[str, str]] = set()
        """Ids of runs and names of what they wait for, or will: these answers are sent before anybody asks."""
        self._answered: set[tuple[str, str, str]] = set()
        """Waits that somebody has set out to answer, and was not refused."""
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
        self._ahead.add((id, name))
        run = None
        while run is None:
            await asyncio.sleep(delay_s)
            run = await self._until_told(lambda: self._app.get_run(id))
        if not await self._until_told(lambda: self._send_ahead(run, kind, name)):
            self._ahead.discard((id, name))

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
        """Nobody has. Each wait of a schedule has a name of its own."""
        if _name(wait) in self._answered or (wait.run_id, wait.name) in self._ahead:
            return False
        self._answered.add(_name(wait))
        return True

    async def _answer(self, wait: WaitInfo) -> None:
        """Once; a key makes sure of it where the answer was lost. Who is refused has not answered: it may be asked anew
        when the run, which had failed, goes on."""
        await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.3, 2.0]))
        run = Run[Any](self._app._here, wait.run_uid, wait.run_id, wait.workflow, None)
        if not await self._until_told(lambda: self._tell(run, wait)):
            self._answered.discard(_name(wait))

    async def _tell(self, run: Run[Any], wait: WaitInfo) -> bool:
        if wait.kind is WaitKind.SIGNAL:
            await run.signal(wait.name, self._rng.randint(0, 9), key=wait.key)
        elif wait.kind is WaitKind.GATE:
            await run.resume(wait.key)
        else:
            value = self._rng.random() < 0.5
            await run.approve(wait.key, value, by=BOB, key=f"key of {wait.key}", timeout=5)
        return True

    async def _until_told(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Ask until there is an answer. None: it is too late."""
        while True:
            try:
                return await ask()
            except OVER:
                return None
            except (StoreError, TimeoutError) as error:
                if FAILED in str(error):
                    return True  # it is on record, and nobody judges it before the run is retried
                await asyncio.sleep(self._rng.uniform(0.05, 0.5))


def _name(wait: WaitInfo) -> tuple[str, str, str]:
    return wait.run_uid, wait.key, wait.since.isoformat()
