"""What a million finished runs cost those that are at work: claims, steps and lists beside them.

Two stores of one kind, one with 1,000 runs that ended long ago and one with 1,000,000 (`benchmarks/filling.py`). In
turns, the same is asked of both, by the store's own methods. The target is 1.5 times as long in the large one; and no
statement that is asked all the time may read a table that grows with the runs from its beginning, which is a failure.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.children import Parent, Plan, say
from benchmarks.figures import Report, Table, percentile, ratio, spread
from benchmarks.filling import FIRST_AT, GAP_US, fill
from benchmarks.places import describe_store, new_store
from benchmarks.plans import Reads, read_plans
from benchmarks.storage import RowWriter
from outlast.core.states import RunStatus
from outlast.engine.ids import new_mark, new_uid
from outlast.stores.open import open_store
from outlast.stores.store import Claiming, Effects, Entry, NewRun, Progress, RunQuery, Store

__all__ = ["measure"]

FEW, MANY = 1_000, 1_000_000
ROUNDS = 9
TIMES = 40
"""Of each operation in a round; the median counts."""
CLAIMED = 20
MOST = 1.5
DUE = "due"
"""The queue of runs that wait to be claimed."""

Taken = dict[str, list[float]]
"""µs, median of each round."""


def measure(plan: Plan, _parent: Parent) -> Report:
    """Fill both, then ask in turns."""
    many, rounds, times = (5_000, 1, 4) if plan.quick else (MANY, ROUNDS, TIMES)
    settings = {
        "runs": f"{FEW:,} and {many:,} that ended, {rounds} rounds of {times} of each",
        "store": describe_store(plan),
    }
    with new_store(plan) as small, new_store(plan) as large:
        say(f"{many:,} runs are filled in")
        asyncio.run(fill(small, FEW, say))
        asyncio.run(fill(large, many, say))
        few, lots, reads = asyncio.run(_measure(small, large, many, rounds, times))
    report = Report("finished", settings, {}, [])
    _tell_times(report, few, lots, many)
    _tell_plans(report, reads, many, is_full=not plan.quick)
    return report


class _Asker:
    """One store, and what is asked of it."""

    def __init__(self, store: Store, writer: RowWriter, runs: int, times: int) -> None:
        self._store = store
        self._writer = writer
        self._times = times
        self.taken: Taken = {}
        self.queries = list_queries(runs)

    async def ask_all(self) -> None:
        """Once round."""
        store, claiming = self._store, Claiming(self._writer.worker, (DUE,), "", CLAIMED)
        await self._time("look of an idle worker", lambda: store.look(claiming))
        await self._time_claims(claiming)
        entries = [Entry(seq, FIRST_AT, "", new_mark(), b" " * 300) for seq in range(1, self._times + 1)]
        commits = await self._writer.time_commits(new_uid(await store.now()), entries)
        self._note("commit of a step", commits)
        await self._time("read of a journal", lambda: store.read_journal("uid 500"))
        await self._time("find by id", lambda: store.find_run("id 500"))
        for name, query in self.queries.items():
            await self._time(f"list: {name}", lambda query=query: store.list_runs(query))
        await self._time("count of what is open", store.count_runs)

    async def _time(self, name: str, ask: Callable[[], Awaitable[Any]]) -> None:
        taken = []
        for _ in range(self._times):
            began = time.perf_counter()
            await ask()
            taken.append(time.perf_counter() - began)
        self._note(name, taken)

    async def _time_claims(self, claiming: Claiming) -> None:
        """Each claims as many as were just started, so that as many are due each time."""
        taken = []
        for _ in range(self._times // 4):
            now = await self._store.now()
            await self._store.commit(None, [_due_run(now) for _ in range(CLAIMED)])
            began = time.perf_counter()
            claimed = await self._store.claim(claiming)
            taken.append(time.perf_counter() - began)
            assert len(claimed) == CLAIMED
        self._note(f"claim of {CLAIMED}", taken)

    def _note(self, name: str, taken: list[float]) -> None:
        self.taken.setdefault(name, []).append(1e6 * percentile(taken, 0.5))


def list_queries(runs: int) -> dict[str, RunQuery]:
    """Pages that people look at, of a store with so many."""
    middle = runs // 2
    return {
        "newest": RunQuery(),
        "a page in the middle": RunQuery(after=(FIRST_AT + middle * GAP_US, f"uid {middle}")),
        "failed": RunQuery(statuses=(RunStatus.FAILED,), limit=20),
        "of a workflow": RunQuery(workflow="workflow 1"),
        "of a user": RunQuery(user="user 7", limit=20),
    }


def _due_run(now: int) -> Progress:
    uid = new_uid(now)
    return Progress(uid, 0, now, new_mark(), 0, b"[]", Effects(start=NewRun(uid, "due", "1", queue=DUE, root=uid)))


async def _measure(small: str, large: str, many: int, rounds: int, times: int) -> tuple[Taken, Taken, Reads]:
    stores = [open_store(small), open_store(large)]
    askers = []
    for store, runs in zip(stores, (FEW, many), strict=True):
        await store.open()
        writer = await RowWriter.register(store)
        askers.append(_Asker(store, writer, runs, times))
    for number in range(rounds + 1):
        say(f"round {number} of {rounds}")
        for asker in askers:
            await asker.ask_all()
        if not number:  # the first warms up
            for asker in askers:
                asker.taken.clear()
    reads = await read_plans(large, askers[1].queries)
    for store in stores:
        await store.close()
    return askers[0].taken, askers[1].taken, reads


def _tell_times(report: Report, few: Taken, lots: Taken, many: int) -> None:
    rows = []
    for name in few:
        figures = {
            "few": spread(few[name], "µs"),
            "many": spread(lots[name], "µs"),
            "ratio": ratio(lots[name], few[name], target=MOST),
        }
        report.figures.update({f"{name}/{key}": figure for key, figure in figures.items()})
        rows.append([name, *map(str, figures.values()), figures["ratio"].verdict])
    columns = ["what", f"with {FEW:,}, µs", f"with {many:,}, µs", "×", "target"]
    notes = [f"A claim is of {CLAIMED} runs that were just started, in a queue of their own."]
    report.tables.append(Table("Beside finished runs", columns, rows, notes))


def _tell_plans(report: Report, reads: Reads, many: int, *, is_full: bool) -> None:
    """For a list of few runs a walk is right, and the planner knows that."""
    for name, ways in reads.items():
        if any(way.endswith("sequential") for way in ways) and (is_full or not name.startswith("list:")):
            report.problems.append(f"{name} reads from the beginning: {', '.join(ways)}")
    rows = [[name, ", ".join(ways) or "nothing that grows"] for name, ways in reads.items()]
    report.tables.append(Table(f"Plans with {many:,} finished runs", ["statement", "reads by"], rows))
