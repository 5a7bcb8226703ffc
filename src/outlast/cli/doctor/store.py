"""Checks of any store, through what every store can do: its clock, its workers, its runs. Layer: cli."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import timedelta

from outlast.cli.doctor.findings import Finding, note, ok, wrong
from outlast.cli.exits import problem_of
from outlast.cli.output import show_duration
from outlast.core.states import RunStatus
from outlast.core.waits.events import WaitKind
from outlast.errors import OutlastError
from outlast.stores.open import open_store
from outlast.stores.store import QueueRow, RunQuery, RunRow, Store, WorkerRow

__all__ = ["check_store", "judge_queues", "judge_runs", "judge_workers"]

OVERDUE_US = 10_000_000
"""A due run is taken within a second or two; after this long nobody is there for it."""
SKEW_US = 1_000_000
"""How far this machine's clock may be from the store's before people wonder: times in logs do not match."""
MOST_RUNS = 10_000
PAGE = 1000
SUSPECT_FROM = 3
ANSWERED = tuple(f"{kind} " for kind in (WaitKind.GATE, WaitKind.APPROVAL))
"""How `waiting_on` begins where a person is asked: nothing is wrong with such a run."""
CANNOT_KEEP_UP = "Workers are there, and cannot keep up: start more, and see their logs."


async def check_store(url: str) -> list[Finding]:
    """Open it, ask, and close it again."""
    try:
        store = open_store(url)
        await store.open()
    except OutlastError as error:
        problem = problem_of(error)
        return [wrong("opening", f"{problem.what}: {problem.where}", problem.todo)]
    try:
        return [finding async for finding in _ask(store)]
    except OutlastError as error:
        problem = problem_of(error)
        return [wrong("asking", f"{problem.what}: {problem.where}", problem.todo)]
    finally:
        await store.close()


async def _ask(store: Store) -> AsyncIterator[Finding]:
    yield ok("opening", "it opens")
    sent_us = time.time_ns() // 1000
    now_us = await store.now()
    yield _judge_clock(sent_us, now_us, time.time_ns() // 1000)
    workers = await store.list_workers()
    rows = [row async for row in _unfinished(store)]
    for finding in judge_workers(workers, now_us):
        yield finding
    for finding in judge_runs(rows, workers, now_us):
        yield finding
    for finding in judge_queues(await store.list_queues(), workers, now_us):
        yield finding


async def _unfinished(store: Store) -> AsyncIterator[RunRow]:
    """The newest of them, as many as there is patience for."""
    statuses = (RunStatus.QUEUED, RunStatus.RUNNING, RunStatus.SUSPENDED, RunStatus.COMPENSATING)
    after: tuple[int, str] | None = None
    for _ in range(MOST_RUNS // PAGE):
        rows = await store.list_runs(RunQuery(statuses=statuses, after=after, limit=PAGE))
        for row in rows:
            yield row
        if len(rows) < PAGE:
            return
        after = (rows[-1].created_at, rows[-1].uid)


def _judge_clock(sent_us: int, store_us: int, received_us: int) -> Finding:
    """The store's answer came from between the two."""
    skew_us = max(sent_us - store_us, store_us - received_us, 0)
    if skew_us <= SKEW_US:
        return ok("clock", "this machine and the store agree")
    direction = "behind" if store_us > received_us else "ahead of"
    text = f"this machine is {show_duration(timedelta(microseconds=skew_us))} {direction} the store"
    return wrong("clock", text, "Set both by NTP. Runs go by the store's clock; only times in logs are off.")


def judge_workers(workers: Iterable[WorkerRow], now_us: int) -> Iterator[Finding]:
    """Who is alive, and who is gone without anybody having taken over."""
    rows = list(workers)
    alive = [row for row in rows if _is_alive(row, now_us)]
    if alive:
        names = "; ".join(f"{row.host} {row.pid}, {', '.join(row.queues)}" for row in alive[:10])
        draining = sum(row.drain_asked_at is not None for row in alive)
        yield ok("workers", f"{len(alive)} alive{f', {draining} of them drain' if draining else ''}: {names}")
        if draining == len(alive):
            todo = "Start another where runs wait: outlast worker MODULE."
            yield note("workers", "all that are alive drain: they claim no more", todo)
    else:
        yield note("workers", "none is alive")
    lost = [row for row in rows if not _is_alive(row, now_us) and now_us - row.expires_at > OVERDUE_US]
    if lost:
        names = ", ".join(f"{row.host} {row.pid}" for row in lost[:10])
        todo = "Start a worker: it takes over what they left. outlast worker MODULE."
        yield wrong("workers", f"{len(lost)} died, and nobody has taken over: {names}", todo)


def _is_alive(row: WorkerRow, now_us: int) -> bool:
    return row.dead_at is None and row.expires_at > now_us


def judge_runs(rows: Iterable[RunRow], workers: Iterable[WorkerRow], now_us: int) -> Iterator[Finding]:
    """What has not ended: who waits for a worker, who for a person, and who takes workers down."""
    alive = [row for row in workers if _is_alive(row, now_us)]
    runs = list(rows)
    counts = Counter(row.status for row in runs)
    capped = f" (of the newest {MOST_RUNS})" if len(runs) >= MOST_RUNS else ""
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none has not ended"
    yield ok("runs", f"{told}{capped}")
    yield from _judge_overdue(runs, alive, now_us)
    yield from _judge_suspended(runs)
    suspects = [row.id for row in runs if row.recoveries >= SUSPECT_FROM]
    if suspects:
        todo = f"See what they do, and the workers' logs: outlast show {suspects[0]}."
        yield wrong("recoveries", f"workers died {SUSPECT_FROM} times or more with {_some(suspects)}", todo)


def _judge_overdue(runs: list[RunRow], alive: list[WorkerRow], now_us: int) -> Iterator[Finding]:
    overdue: defaultdict[tuple[str, str, bool], list[RunRow]] = defaultdict(list)
    for row in runs:
        if row.owner is None and row.wake_at is not None and now_us - row.wake_at > OVERDUE_US:
            overdue[row.queue, row.workflow, row.pool is not None].append(row)
    for (queue, workflow, is_shared), late in overdue.items():
        longest = timedelta(microseconds=now_us - min(row.wake_at or now_us for row in late))
        text = f"{len(late)} of {workflow} due for up to {show_duration(longest)}: {_some([row.id for row in late])}"
        reason = _find_reason(queue, workflow, alive)
        if is_shared and reason == CANNOT_KEEP_UP:
            yield ok("limits", f"{text}: they have a limit, of their workflow or queue, and wait for places")
        else:
            yield wrong("overdue", text, reason)


def judge_queues(rows: Iterable[QueueRow], workers: Iterable[WorkerRow], now_us: int) -> Iterator[Finding]:
    """Queued steps that nobody takes. (Runs are told of one by one.)"""
    alive = [row for row in workers if _is_alive(row, now_us)]
    for row in rows:
        if row.function is not None and row.oldest_at is not None and now_us - row.oldest_at > OVERDUE_US:
            longest = show_duration(timedelta(microseconds=now_us - row.oldest_at))
            text = f"{row.waiting} steps {row.function} wait for up to {longest} in queue {row.queue}"
            yield wrong("queues", text, _find_reason(row.queue, row.function, alive))


def _find_reason(queue: str, function: str, alive: list[WorkerRow]) -> str:
    if not alive:
        return "Start a worker: outlast worker MODULE."
    serving = [row for row in alive if queue in row.queues]
    if not serving:
        return f"No live worker serves queue {queue}: outlast worker MODULE --queue {queue}."
    if not any(function in row.functions for row in serving):
        return f"No live worker of queue {queue} knows {function}: start one of the module that declares it."
    return CANNOT_KEEP_UP


def _judge_suspended(runs: list[RunRow]) -> Iterator[Finding]:
    suspended: defaultdict[str, list[str]] = defaultdict(list)
    asking: list[str] = []
    for row in runs:
        if row.status is RunStatus.SUSPENDED and (row.waiting_on or "").startswith(ANSWERED):
            asking.append(row.id)
        elif row.status is RunStatus.SUSPENDED:
            suspended[row.waiting_on or "?"].append(row.id)
    if asking:
        yield note("waits", f"{len(asking)} wait for somebody's answer: {_some(asking)}", "See who may: outlast waits.")
    for code, ids in sorted(suspended.items()):
        todo = f"See why: outlast show {ids[0]}. Put right what it says, then: outlast resume {ids[0]}."
        yield wrong("suspended", f"{len(ids)} on {code}: {_some(ids)}", todo)


def _some(ids: list[str]) -> str:
    return f"{', '.join(ids[:3])}{f' and {len(ids) - 3} more' if len(ids) > 3 else ''}"
