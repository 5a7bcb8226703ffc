"""Workers as people get to see them, and how they are asked to drain. Layer: run.

What always holds: what a worker holds is counted up to a limit, and listed in parts; and who asks a worker to drain
gets its answer from the store, whether the worker hears of it now or with its next renewal.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from outlast.core.instants import to_datetime
from outlast.core.keys import check_name
from outlast.errors import WorkerNotFound
from outlast.run.options import check_limit

if TYPE_CHECKING:
    from outlast.engine.engine import Engine
    from outlast.stores.store import Held, HeldTask, Store, WorkerRow

__all__ = ["HeldStep", "WorkerInfo", "WorkerState", "Workers"]

MOST_COUNTED = 1000
"""Past it, what a worker holds is not counted any more where workers are listed."""


class WorkerState(enum.StrEnum):
    """How a worker stands."""

    SERVING = "serving"
    DRAINING = "draining"
    """It was asked to drain, or told to stop: it claims no more, and lets its steps end."""
    STOPPED = "stopped"
    """It left by itself; the last of what it held is just being handed back."""
    LOST = "lost"
    """Its lease lapsed: others take over from it."""


class WorkerInfo(msgspec.Struct, frozen=True):
    """A worker, as its row says, and how much it holds."""

    id: str
    """New each time it starts, or comes back after its lease was lost."""
    host: str
    pid: int
    queues: tuple[str, ...]
    functions: tuple[str, ...]
    """Names of the steps and workflows it knows."""
    deploy: str
    """Fingerprint of its code."""
    python: str
    started_at: datetime
    expires_at: datetime
    """When its lease ends, if it is not renewed."""
    is_alive: bool
    state: WorkerState = WorkerState.SERVING
    drain_asked_at: datetime | None = None
    """When it was first asked to drain, or began to."""
    renewed_at: datetime | None = None
    """Its last sign of life. None: it is of an older release."""
    release: str = ""
    """Of outlast, that it runs."""
    held_runs: int = 0
    """Runs it holds now, counted up to 1,000."""
    held_steps: int = 0
    """Queued steps it carries out now, likewise."""


class HeldStep(msgspec.Struct, frozen=True):
    """A queued step that a worker carries out."""

    run_id: str
    run_uid: str
    workflow: str
    key: str
    attempt: int
    queue: str
    function: str
    taken_at: datetime
    user: str | None = None
    """Whose run it is."""


class Workers:
    """The part of an app that looks after workers."""

    def _here(self, call: str) -> Engine:
        """The engine. Raises AppNotOpen."""
        raise NotImplementedError

    async def workers(self) -> list[WorkerInfo]:
        """The workers of this store: those that are alive, and those nobody has taken over from yet.

        The runs that one holds are `app.runs(worker=ID)`, its queued steps `app.held_steps(ID)`.
        """
        return await _describe(self._here("app.workers()").store)

    async def held_steps(self, worker: str, *, limit: int = 100) -> list[HeldStep]:
        """Queued steps that a worker carries out now, the first ones taken first. Raises WorkerNotFound."""
        store = self._here("app.held_steps()").store
        found = await store.list_held_tasks(check_name("worker", worker), limit=check_limit(limit))
        if not found and all(row.id != worker for row in await store.list_workers()):
            raise WorkerNotFound(worker)
        return [_describe_held(task) for task in found]

    async def drain(self, worker: str) -> datetime:
        """Ask a worker to drain, as a SIGTERM to its process would: it claims no more, gives its steps their grace,
        hands the rest back, and ends. Gives when it was first asked: asked twice is asked once.

        It hears of it with its next renewal, a third of its lease later at most. A worker that dies meanwhile, or loses
        its lease, is as lost as any other: what was asked of it is not asked of whoever comes after it, under another
        id. Raises WorkerNotFound where no worker of this id holds a lease.
        """
        asked_at = await self._here("app.drain()").store.ask_drain(check_name("worker", worker))
        if asked_at is None:
            raise WorkerNotFound(worker)
        # CRASH: it is on record, and whoever asked does not know; the worker drains, and asking again is harmless.
        # [test_a_drain_outlives_whoever_asked_for_it]
        return to_datetime(asked_at)


async def _describe(store: Store) -> list[WorkerInfo]:
    rows = await store.list_workers()
    held = await store.count_held([row.id for row in rows], most=MOST_COUNTED)
    return describe_workers(rows, held, await store.now())


def describe_workers(rows: Sequence[WorkerRow], held: Sequence[Held], now_us: int) -> list[WorkerInfo]:
    """Workers' rows, each with how much it holds; one is alive while its lease lasts."""
    return [
        WorkerInfo(
            id=row.id,
            host=row.host,
            pid=row.pid,
            queues=row.queues,
            functions=row.functions,
            deploy=row.deploy,
            python=row.python,
            started_at=to_datetime(row.started_at),
            expires_at=to_datetime(row.expires_at),
            is_alive=row.dead_at is None and row.expires_at > now_us,
            state=state_of(row, now_us),
            drain_asked_at=None if row.drain_asked_at is None else to_datetime(row.drain_asked_at),
            renewed_at=to_datetime(row.renewed_at) if row.renewed_at else None,
            release=row.release,
            held_runs=holds.runs,
            held_steps=holds.tasks,
        )
        for row, holds in zip(rows, held, strict=True)
    ]


def state_of(row: WorkerRow, now_us: int) -> WorkerState:
    """Who is marked dead before its lease ended has left by itself: others wait for that."""
    if row.dead_at is not None and row.dead_at < row.expires_at:
        return WorkerState.STOPPED
    if row.dead_at is not None or row.expires_at <= now_us:
        return WorkerState.LOST
    return WorkerState.SERVING if row.drain_asked_at is None else WorkerState.DRAINING


def _describe_held(task: HeldTask) -> HeldStep:
    return HeldStep(
        run_id=task.run_id,
        run_uid=task.run,
        workflow=task.workflow,
        key=task.key,
        attempt=task.attempt,
        queue=task.queue,
        function=task.function,
        taken_at=to_datetime(task.claimed_at),
        user=task.user,
    )
