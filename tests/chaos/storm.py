"""One storm: a server, a fleet and a load of its own, the faults of one seed, the calm behind them, and a verdict."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import msgspec

from outlast.app import Outlast
from outlast.core.events import RunTakenOver, StepFailed, StepLost, StepStarted, StepSucceeded
from outlast.core.states import ENDED, RunStatus
from outlast.stores.postgres.errors import DRIVER_ERRORS
from outlast.stores.store import RunQuery, RunRow
from tests.chaos.faults import Fault, Kind, draw_faults
from tests.chaos.fleet import Fleet
from tests.chaos.load import Load
from tests.crash.checker import read_journals
from tests.crash.worker_main import insist
from tests.crash.world import Nursery, World
from tests.postgres_schemas import change_schema
from tests.postgres_server import OwnServer
from tests.stores.postgres.proxy import Proxy, proxy_to

__all__ = ["Plan", "Verdict", "run_storm"]

LIVE = tuple(status for status in RunStatus if status not in ENDED)
PATIENCE_S = 120.0
"""How much later than they should runs may end before they are given up."""


class Plan(msgspec.Struct, frozen=True):
    """What a storm is made of."""

    seed: int
    seconds: float
    workers: int = 5
    lease_s: float = 3.0
    per_second: float = 3.0
    """Runs started, besides the children they start and those that workers start."""
    quiet_s: float = 20.0
    """How long before the last fault nobody asks for more, but for a last handful."""
    skips: bool = False
    """In the calm, time is skipped when all that is left waits for it."""


class Verdict(msgspec.Struct):
    """What came of it."""

    plan: Plan
    problems: list[str]
    faults: Counter[str]
    load: Counter[str]
    runs: Counter[str]
    """By workflow and end."""
    seen: Counter[str]
    """In the journals, the ledger and the logs."""
    ended_after_s: float
    """The last run, after the last fault."""
    allowed_s: float
    """Two leases, and the back-offs then due."""
    took_s: float
    server: str = ""

    @property
    def is_late(self) -> bool:
        """All has ended, later than promised."""
        return self.ended_after_s > self.allowed_s


async def run_storm(plan: Plan, folder: Path, nursery: Nursery, server: OwnServer) -> Verdict:
    """`server` is running, and this storm's alone."""
    began = time.monotonic()
    world = World(folder, nursery, f"{server.url}?schema=chaos")
    async with proxy_to(f"{server.url}?schema=chaos") as (proxy, through), world.client() as app:
        storm = Storm(plan, world, app, server, proxy, through)
        try:
            await storm.rage()
            late_s, allowed_s = await storm.calm()
        finally:
            await world.close()
        await world.forget_unstarted(app)
        verdict = await storm.judge(late_s, allowed_s)
        verdict.took_s = time.monotonic() - began
        return verdict


class Storm:
    """See the module's docstring."""

    def __init__(self, plan: Plan, world: World, app: Outlast, server: OwnServer, proxy: Proxy, through: str) -> None:
        self._plan = plan
        self._world = world
        self._app = app
        self._server = server
        self._proxy = proxy
        self._url = f"{server.url}?schema=chaos"
        self._fleet = Fleet(world, plan.seed, size=plan.workers, lease_s=plan.lease_s, through=through)
        self._load = Load(world, app, plan.seed, plan.per_second)
        self._restarting = asyncio.Lock()
        self._tally: Counter[str] = Counter()
        self._last_fault_at = 0.0
        self._version = ""

    # --- the storm ----------------------------------------------------------------------------------------------------

    async def rage(self) -> None:
        """All faults at their time. In the end, with a handful of runs just begun, answers are lost one by one,
        and then all workers but one are killed at once, in the midst of a step."""
        plan = self._plan
        self._version = await self._ask_server("show server_version")
        async with self._beside(self._fleet.keep()):
            async with self._beside(self._load.go_on()) as asking:
                await self._strike_all(asking)
            for number in range(3 * plan.workers):
                self._load.start_one(("chain", "fan", "queued", "retrying", "saga", "family"))
                for _ in range(2):
                    self._lose(number % 3 / 3, 1.0)
                    await asyncio.sleep(0.1)
            await self._hang_up()
            while not self._fleet.is_busy():
                self._load.start_one(("waiting",))
                await asyncio.sleep(0.5)
        self._fleet.are_armed = False
        self._fleet.kill_all()
        self._last_fault_at = time.monotonic()

    async def _strike_all(self, asking: asyncio.Task[None]) -> None:
        plan, began = self._plan, time.monotonic()
        async with asyncio.TaskGroup() as group:
            for fault in draw_faults(plan.seed, plan.seconds):
                if fault.at > plan.seconds - plan.quiet_s:
                    asking.cancel()
                await asyncio.sleep(began + fault.at - time.monotonic())
                group.create_task(self._strike(fault))
            await asyncio.sleep(began + plan.seconds - time.monotonic())

    @asynccontextmanager
    async def _beside(self, work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
        """While the block lasts, at the end of which work that has failed raises."""
        task = asyncio.create_task(work)
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def _strike(self, fault: Fault) -> None:
        fleet, lease_s, (one, other) = self._fleet, self._plan.lease_s, fault.chance
        match fault.kind:
            case Kind.KILL:
                await fleet.kill(one)
            case Kind.FREEZE:
                await fleet.freeze(one, lease_s * (1.1 + other))
            case Kind.DRAIN:
                await fleet.drain(one, twice=other < 1 / 3)
            case Kind.RESTART:
                await self._restart(signal.SIGINT if one < 0.5 else signal.SIGQUIT, other)
            case Kind.HANG_UP:
                await self._hang_up()
            case Kind.LOSE:
                self._lose(one, other)
            case Kind.CUT_OFF:
                await self._cut_off(lease_s * (0.5 + other))
            case Kind.WALL_CLOCK:
                fleet.move_wall_clock(one, (other - 0.5) * 4 * 86_400)
            case Kind.SERVER_CLOCK:
                await self._move_server_clock(lease_s * 2 * other if one < 0.7 else -other)

    # --- what is done to the server -----------------------------------------------------------------------------------

    async def _restart(self, how: signal.Signals, chance: float) -> None:
        """For a moment; one time in five for longer than leases last."""
        async with self._restarting:
            await asyncio.to_thread(self._server.stop, how)
            await asyncio.sleep(self._plan.lease_s * 1.5 if chance > 0.8 else chance)
            await asyncio.to_thread(self._server.start)
        self._tally["restarts of the server, in good order" if how is signal.SIGINT else "crashes of the server"] += 1

    async def _hang_up(self) -> None:
        self._tally["sessions ended by the server"] += int(await self._ask_server(_HANG_UP))

    async def _ask_server(self, sql: str) -> str:
        """Until it answers."""
        while True:
            try:
                connection = await asyncpg.connect(self._server.url, timeout=5)
                try:
                    return str(await connection.fetchval(sql))
                finally:
                    await connection.close(timeout=5)
            except DRIVER_ERRORS:
                await asyncio.sleep(0.1)

    def _lose(self, one: float, other: float) -> None:
        """The next commit, the next claim, or whatever comes next; the request, or its answer."""
        words = (b"commit", b"skip locked", b"")[int(one * 3)]
        if other < 0.5:
            self._proxy.cut_before = words
        else:
            self._proxy.cut_after = words

    async def _cut_off(self, seconds: float) -> None:
        self._proxy.cut_off()
        await asyncio.sleep(seconds)
        self._proxy.is_down = False
        self._tally["times cut off from the server"] += 1

    async def _move_server_clock(self, seconds: float) -> None:
        sql = f'update "{{schema}}".moved set us = us + {round(seconds * 1e6)}'
        while True:
            try:
                await change_schema(self._url, sql)
            except DRIVER_ERRORS:
                await asyncio.sleep(0.1)
            else:
                break
        self._tally["jumps of the server's clock"] += 1

    # --- the calm -----------------------------------------------------------------------------------------------------

    async def calm(self) -> tuple[float, float]:
        """Until all has ended: how long after the last fault that was, and how long it might have taken."""
        allowed_s = grace_s = 2 * self._plan.lease_s
        async with self._beside(self._fleet.keep()):
            while True:
                rows = await insist(self._list_live)
                passed_s = time.monotonic() - self._last_fault_at
                if not rows and self._load.is_settled:
                    break
                now = await insist(self._app._store.now)
                dues_s = [(row.wake_at - now) / 1e6 for row in rows if row.owner is None and row.wake_at is not None]
                backed_off_s = [
                    (row.wake_at - now) / 1e6
                    for row in rows
                    if row.owner is None and row.wake_at and row.recoveries > 1
                ]
                allowed_s = max([allowed_s, *(passed_s + due_s + grace_s for due_s in backed_off_s if due_s > 0)])
                is_due_later = len(dues_s) == len(rows) and min(dues_s, default=0) > 1
                if self._plan.skips and is_due_later and self._load.is_settled:
                    await self._move_server_clock(min(dues_s))
                if passed_s > allowed_s + PATIENCE_S:
                    break
                await asyncio.sleep(0.1)
        await self._load.close()
        return passed_s, allowed_s

    async def _list_live(self) -> list[RunRow]:
        return await self._app._store.list_runs(RunQuery(statuses=LIVE, limit=1000))

    # --- the verdict --------------------------------------------------------------------------------------------------

    async def judge(self, late_s: float, allowed_s: float) -> Verdict:
        """By all journals, the ledger, and what was acknowledged."""
        problems = [*self._fleet.problems, *(repr(error) for error in self._load.errors)]
        problems += map(str, await self._world.find_problems(self._app, once=False))
        rows, journals = await read_journals(self._app._store)
        problems += [f"run {row.uid}: {text}" for row in rows if (text := self._load.misjudge(row))]
        runs = Counter(f"{row.workflow.partition(':')[2]} {row.status}" for row in rows)
        seen: Counter[str] = Counter()
        for journal in journals.values():
            seen["entries"] += len(journal)
            for _, events in journal:
                seen.update(_NAMES[type(event)] for event in events if type(event) in _NAMES)
        marks = [mark for mark in self._world.ledger.marks() if mark.what == "before"]
        seen["effects"] = len(marks)
        seen["effects on record before they began"] = sum(mark.recorded is True for mark in marks)
        seen["effects that came again"] = len(marks) - len({(mark.uid, mark.key) for mark in marks})
        for line in self._world.lines("records"):
            if "unforeseen" in line:
                problems.append(f"process {line['pid']} met {line['unforeseen']}: {line['text']}")
            seen["times a worker lost its lease"] += "lost its lease" in line["text"]
            seen["outcomes of superseded workers dropped"] += "is dropped" in line["text"]
        self._tally["requests or answers lost"] = self._proxy.cuts
        faults = self._fleet.tally + self._tally
        return Verdict(
            self._plan, problems, faults, self._load.tally, runs, seen, late_s, allowed_s, 0.0, self._version
        )


_HANG_UP = """
select count(pg_terminate_backend(pid)) from pg_stat_activity where application_name = 'outlast' and random() < 0.5
"""
_NAMES = {
    StepStarted: "steps",
    StepSucceeded: "results",
    StepFailed: "failed attempts",
    StepLost: "lost attempts",
    RunTakenOver: "takeovers",
}
