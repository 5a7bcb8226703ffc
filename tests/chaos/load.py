"""The runs that go on meanwhile, and the people who start, answer, cancel and mend them."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from outlast import RunEnded, RunNotFailed
from outlast.app import Outlast
from outlast.core.states import RunStatus
from outlast.stores.store import RunRow
from tests.crash.flows import Start
from tests.crash.ledger import AppendFile
from tests.crash.people import answer
from tests.crash.worker_main import insist
from tests.crash.world import World

__all__ = ["Load"]

MIX: list[tuple[int, Start]] = [
    (4, ("chain", [12])),
    (3, ("fan", [4])),
    (2, ("retrying", [3])),
    (3, ("sleepy", [0.3])),
    (2, ("guarded", [0.1])),
    (4, ("queued", [4])),
    (1, ("guarded_by_queue", [0.1])),
    (1, ("waiting", [2.0])),
    (2, ("parked", [1.5])),
    (2, ("graph", [[f"g{number}" for number in range(6)]])),
    (2, ("family", [1])),
    (3, ("saga", [])),
    (3, ("asking", [])),
    (2, ("cleaning", [1e6])),
    (2, ("errand", [])),
    (2, ("mended", [])),
]
"""How often, and what."""
ENDS: dict[str, set[str]] = {
    "saga": {"compensated"},
    "cleaning": {"cancelled"},
    "errand": {"cancelled", "compensated"},
}
"""How a run of a workflow may end; any other only completes, or is cancelled if somebody asked for that."""
OFTEN_CANCELLED = {"chain", "fan", "sleepy", "queued", "graph", "family", "waiting"}
EVERY_S = 0.3
"""People look after their runs so often."""


class Load:
    """What is asked of one app, which has no worker."""

    def __init__(self, world: World, app: Outlast, seed: int, per_second: float) -> None:
        self.tally: Counter[str] = Counter()
        self._world = world
        self._app = app
        self._draw = random.Random(f"{seed}/load")
        self._per_second = per_second
        self._told = AppendFile(world.folder / "told")
        self._people: set[asyncio.Task[None]] = set()
        self._cancelled: set[str] = set()
        self.errors: list[BaseException] = []

    # --- asking for runs ----------------------------------------------------------------------------------------------

    async def go_on(self) -> None:
        """Start runs, one after the other, for ever."""
        while True:
            await asyncio.sleep(self._draw.expovariate(self._per_second))
            self.start_one()

    def start_one(self, names: tuple[str, ...] = ()) -> None:
        """Of the mix, or one of these workflows. Whoever asked goes on asking until the store has answered."""
        mix = [(weight, start) for weight, start in MIX if not names or start[0] in names]
        ((workflow, arguments),) = self._draw.choices([start for _, start in mix], [weight for weight, _ in mix])
        id = f"r{self.tally['starts']}"
        self.tally["starts"] += 1
        arguments = [id] if workflow == "mended" else arguments
        self._world.started[id] = (workflow, arguments)
        self._engage(self._start(workflow, arguments, id))

    async def _start(self, workflow: str, arguments: list[Any], id: str) -> None:
        priority, after_s, wait_s = self._draw.randrange(10), self._draw.random(), self._draw.expovariate(0.5)
        start = partial(self._app.start, f"crash:{workflow}", *arguments, id=id, priority=priority)
        await insist(partial(start, delay=after_s) if after_s < 0.1 else start)
        self._told.append({"started": id})
        match workflow:
            case "asking":
                await self._keep_asking(self._answer, id)
            case "mended":
                await self._keep_asking(self._mend, id)
            case "cleaning" | "errand":
                await self._cancel(id, workflow, wait_s)
            case _ if workflow in OFTEN_CANCELLED and after_s > 0.95:
                await self._cancel(id, workflow, wait_s)
            case _:
                pass

    def _engage(self, person: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(person)
        self._people.add(task)
        task.add_done_callback(self._gone)

    def _gone(self, task: asyncio.Task[None]) -> None:
        self._people.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.errors.append(error)

    # --- people -------------------------------------------------------------------------------------------------------

    async def _keep_asking(self, look_after: Callable[[str], Coroutine[Any, Any, bool]], id: str) -> None:
        while not await insist(partial(look_after, id)):
            await asyncio.sleep(EVERY_S)

    async def _answer(self, id: str) -> bool:
        try:
            await answer(self._app, id, EVERY_S)
        except RunEnded:
            pass
        self.tally["answered"] += 1
        return True

    async def _mend(self, id: str) -> bool:
        """Whether it has completed. One that failed is tried again; a kill may cost the one attempt it has."""
        run = await self._app.get_run(id)
        status = (await run.status()).status
        if status == RunStatus.FAILED:
            (self._world.folder / f"mended-{id}").touch()
            try:
                await run.retry()
                self.tally["retries"] += 1
            except RunNotFailed:
                pass  # an earlier try of ours was heard
        return status == RunStatus.COMPLETED

    async def _cancel(self, id: str, workflow: str, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        self._cancelled.add(id)
        run = await insist(partial(self._app.get_run, id))
        heard = await insist(partial(run.cancel, "enough"))
        self.tally["cancels"] += 1
        if workflow == "cleaning":
            self._told.append({"cancelled": id, "heard": heard})

    @property
    def is_settled(self) -> bool:
        """Nobody is left who has to look after a run."""
        return not self._people

    async def close(self) -> None:
        """Send everybody home."""
        for task in self._people:
            task.cancel()
        await asyncio.gather(*self._people, return_exceptions=True)

    # --- judging ------------------------------------------------------------------------------------------------------

    def misjudge(self, row: RunRow) -> str | None:
        """What is wrong about how this run ended, if anything is."""
        workflow = row.workflow.partition(":")[2]
        allowed = ENDS.get(workflow, {"completed"})
        if row.id in self._cancelled or row.parent is not None:
            allowed = allowed | {"cancelled", "compensated"}
        if str(row.status) in allowed:
            return None
        return f"{workflow} of run {row.id} is {row.status}, waiting on {row.waiting_on}"
