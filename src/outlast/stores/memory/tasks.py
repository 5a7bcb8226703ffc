"""Queued steps: one row is one attempt. Layer: stores (memory).

What always holds: an attempt's task goes in the same transaction that sends its outcome, so each attempt has one
outcome, and until then its task.
"""

# ruff: noqa: D102 - a method's promise stands in stores/store.py, once for all backends

from __future__ import annotations

import collections
import itertools
from typing import TYPE_CHECKING

from outlast.stores.memory.mail import Mail
from outlast.stores.store import LOST_MESSAGE, TASK_MESSAGE, ClaimedTask, NewMessage, QueueRow, TaskRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.stores.memory.tables import Run, Tables, Task
    from outlast.stores.store import Claiming, Sharing, TaskOutcome

__all__ = ["Tasks", "has_lapsed"]


class Tasks(Mail):
    """The store's methods about queued steps."""

    async def claim_tasks(
        self, claiming: Claiming, functions: Sequence[str], lease_us: int, sharing: Sharing | None = None
    ) -> list[ClaimedTask]:
        with self._opened() as tables:
            self._require_lease(claiming.worker)
            now = tables.clock()
            known = frozenset(functions)
            if sharing is None:
                tasks = tables.due_tasks.take(
                    claiming.queues,
                    now,
                    claiming.limit,
                    lambda task: task.new.function in known,
                    oldest_first=claiming.oldest_first,
                )
            else:
                tasks = _take_shared(tables, claiming, known, now, sharing)
            for task in tasks:
                task.owner = claiming.worker
                task.claimed_at = now
                task.lease_expires_at = now + lease_us
                tables.held_tasks[task] = tables.runs[task.run]
            return [_to_claimed(task) for task in tasks]

    async def renew_tasks(
        self, worker_id: str, held: Sequence[tuple[str, str, int, bytes]], lease_us: int
    ) -> list[tuple[str, str, int]]:
        with self._opened() as tables:
            until = tables.clock() + lease_us
            given_up = []
            for uid, key, attempt, progress in held:
                task = _find(tables, uid, key)
                if task is None or not self.holds_task(task, worker_id, attempt):
                    given_up.append((uid, key, attempt))
                    continue
                task.lease_expires_at = until
                task.progress = progress
                if task.stop:
                    given_up.append((uid, key, attempt))
            return given_up

    async def release_tasks(
        self, worker_id: str, held: Sequence[tuple[str, str, int]], delay_us: int
    ) -> list[tuple[str, str, int]]:
        with self._opened() as tables:
            due_at = tables.clock() + delay_us
            kept = []
            for uid, key, attempt in held:
                task = _find(tables, uid, key)
                if task is None or task.stop or not self.holds_task(task, worker_id, attempt):
                    kept.append((uid, key, attempt))
                else:
                    tables.release_task(task, due_at)
            return kept

    async def complete_tasks(self, worker_id: str, outcomes: Sequence[TaskOutcome]) -> list[bool]:
        with self._opened() as tables:
            answers = []
            for outcome in outcomes:
                task = _find(tables, outcome.run, outcome.key)
                counts = self.holds_task(task, worker_id, outcome.attempt)
                if counts:
                    self._settle(tables.runs[outcome.run], outcome.key, outcome.attempt, TASK_MESSAGE, outcome.payload)
                answers.append(counts)
            return answers

    async def lapse_tasks(self, *, limit: int = 100) -> int:
        with self._opened() as tables:
            now = tables.clock()
            lapsed = (
                (task, run)
                for task, run in tables.held_tasks.items()
                if has_lapsed(task, now) or self._is_dead(task.owner)
            )
            page = list(itertools.islice(lapsed, limit))
            for task, run in page:
                self._settle(run, task.new.key, task.new.attempt, LOST_MESSAGE, b"null")
            return len(page)

    async def lost_attempts(self, uid: str, open_attempts: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
        with self._opened() as tables:
            run = tables.runs.get(uid)
            return [attempt for attempt in open_attempts if run is None or not _is_known(run, *attempt)]

    async def list_tasks(self, uid: str) -> list[TaskRow]:
        with self._opened() as tables:
            run = tables.runs.get(uid)
            return [] if run is None else [_to_row(run.tasks[key]) for key in sorted(run.tasks)]

    async def list_queues(self) -> list[QueueRow]:
        with self._opened() as tables:
            now = tables.clock()
            rows: dict[tuple[str, str | None], _Standing] = {}
            for run in tables.runs.values():
                _stand(rows, run.queue, None, run.owner in tables.workers, run.wake_at, now)
                for task in run.tasks.values():
                    due_at = task.new.due_at if task.owner is None else None
                    _stand(rows, task.queue, task.new.function, task.owner in tables.workers, due_at, now)
            return [
                QueueRow(queue, function, standing.waiting, standing.oldest_at, standing.held)
                for (queue, function), standing in sorted(rows.items(), key=lambda each: (each[0][0], each[0][1] or ""))
                if standing.waiting or standing.held
            ]

    def _settle(self, run: Run, key: str, attempt: int, kind: str, payload: bytes) -> None:
        """Delete the task and tell its run, unless that has ended."""
        self._tables.drop_task(run, key)
        if self.takes_message(run, kind):
            self._deliver(run, NewMessage(f"{key}#{attempt}", kind, payload))

    def _is_dead(self, worker_id: str | None) -> bool:
        worker = self._tables.workers.get(worker_id or "")
        return worker is None or worker.dead_at is not None


def _take_shared(tables: Tables, claiming: Claiming, known: frozenset[str], now: int, sharing: Sharing) -> list[Task]:
    """Tasks of one queue, as it is shared out."""
    (queue,) = claiming.queues
    held = collections.Counter(task.new.group for task in tables.held_tasks if task.queue == queue)
    waiting = [
        task
        for run in tables.runs.values()
        for task in run.tasks.values()
        if task.owner is None and task.queue == queue and task.new.due_at <= now and task.new.function in known
    ]
    waiting.sort(key=lambda task: (task.priority, task.turn, task.new.due_at, task.ticket))
    ranks: collections.Counter[tuple[int, str]] = collections.Counter()
    ordered = []
    for task in waiting:
        ranks[task.priority, task.new.group] += 1
        has = held[task.new.group] + ranks[task.priority, task.new.group]
        level = 0 if claiming.oldest_first else task.priority
        ordered.append((level, has, task.turn, task.new.due_at, task.ticket, task))
    ordered.sort(key=lambda entry: entry[:5])
    left = claiming.limit if sharing.most is None else min(claiming.limit, max(0, sharing.most - held.total()))
    taken = [entry[-1] for entry in ordered[:left]]
    for task in taken:
        tables.due_tasks.drop(task)
    return taken


class _Standing:
    """How many wait in a queue, since when, and how many are held."""

    def __init__(self) -> None:
        self.waiting = self.held = 0
        self.oldest_at: int | None = None


def _stand(
    rows: dict[tuple[str, str | None], _Standing],
    queue: str,
    function: str | None,
    is_held: bool,
    due_at: int | None,
    now: int,
) -> None:
    """Count a run or a task. `due_at` is None unless it is nobody's."""
    standing = rows.setdefault((queue, function), _Standing())
    if is_held:
        standing.held += 1
    elif due_at is not None and due_at <= now:
        standing.waiting += 1
        standing.oldest_at = due_at if standing.oldest_at is None else min(standing.oldest_at, due_at)


def has_lapsed(task: Task, now: int) -> bool:
    """Whether the lease of a task that somebody holds has run out."""
    return task.lease_expires_at <= now


def _find(tables: Tables, uid: str, key: str) -> Task | None:
    run = tables.runs.get(uid)
    return None if run is None else run.tasks.get(key)


def _is_known(run: Run, key: str, attempt: int) -> bool:
    """Whether the attempt has its task, or its outcome waits to be read."""
    task = run.tasks.get(key)
    return (task is not None and task.new.attempt == attempt) or f"{key}#{attempt}" in run.message_ids


def _to_claimed(task: Task) -> ClaimedTask:
    new = task.new
    return ClaimedTask(task.run, new.key, new.attempt, new.queue, new.function, new.arguments, new.details)


def _to_row(task: Task) -> TaskRow:
    new = task.new
    return TaskRow(
        new.key, new.attempt, new.queue, new.function, new.due_at, task.owner, task.claimed_at, task.stop, task.progress
    )
