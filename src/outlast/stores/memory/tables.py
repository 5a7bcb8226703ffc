"""The rows, and the indexes over them. Layer: stores (memory).

What always holds, between two calls of the store:

- `holders` names the one run that holds an id; `owned` has exactly the runs with an owner, by owner.
- A run is in the `due` index (in `pools`, if it is of one) exactly when it has a `wake_at`: live, and owned by nobody.
- A task is in `due_tasks` exactly when nobody owns it, and in `held_tasks` exactly when somebody does.
- `unread` has exactly the runs whose inbox is not empty.
- An entry stands in its journal at the index that is its `seq`.

All dicts, because they iterate in the order things happened: the simulation must be the same for the same seed.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import msgspec

from outlast.stores.memory.due import DueIndex
from outlast.stores.memory.hints import Hints
from outlast.stores.store import RunRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.core.states import RunStatus
    from outlast.stores.store import Entry, Message, NewRun, NewTask, NewWait, VersionRow, WorkerRow

__all__ = ["Run", "Tables", "Task", "Worker"]


@dataclass(slots=True, eq=False)
class Worker:
    """A worker's row; its lease is what changes."""

    row: WorkerRow
    expires_at: int
    renewed_at: int
    dead_at: int | None = None
    drain_asked_at: int | None = None


@dataclass(slots=True, eq=False)
class Task:
    """One attempt of a queued step."""

    run: str
    new: NewTask
    owner: str | None = None
    claimed_at: int | None = None
    lease_expires_at: int = 0
    stop: bool = False
    progress: bytes = b""
    queue: str = field(init=False)
    priority: int = field(init=False)
    turn: int = 0
    ticket: int = 0

    def __post_init__(self) -> None:
        self.queue = self.new.queue
        self.priority = self.new.priority


@dataclass(slots=True, eq=False)
class Run:
    """A run's row, with all that is its own."""

    uid: str
    new: NewRun
    status: RunStatus
    created_at: int
    updated_at: int
    live: bool = True
    waiting_on: str = ""
    owner: str | None = None
    epoch: int = 0
    wake_at: int | None = None
    mail: int = 0
    recoveries: int = 0
    started_at: int | None = None
    finished_at: int | None = None
    error: bytes | None = None
    next: str | None = None
    unfit: set[str] = field(default_factory=set)
    journal: list[Entry] = field(default_factory=list)
    inbox: dict[int, Message] = field(default_factory=dict)
    message_ids: dict[str, int] = field(default_factory=dict)
    """Numbers of the messages in the inbox, by their ids."""
    kept: dict[int, Message] = field(default_factory=dict)
    """Of a run that ended: what its inbox had, and is there again should it be live again."""
    tasks: dict[str, Task] = field(default_factory=dict)
    waits: dict[str, NewWait] = field(default_factory=dict)
    queue: str = field(init=False)
    priority: int = field(init=False)
    pool: str | None = field(init=False)
    group: str = field(init=False)
    ticket: int = 0

    def __post_init__(self) -> None:
        self.queue = self.new.queue
        self.priority = self.new.priority
        self.pool = self.new.pool
        self.group = self.new.group

    def to_row(self) -> RunRow:
        """As others may see it: it does not change with the run."""
        new = self.new
        return RunRow(
            uid=self.uid,
            id=new.id,
            workflow=new.workflow,
            version=new.version,
            status=self.status,
            waiting_on=self.waiting_on,
            live=self.live,
            owner=self.owner,
            epoch=self.epoch,
            wake_at=self.wake_at,
            deadline=new.deadline,
            mail=self.mail,
            priority=new.priority,
            queue=self.queue,
            parent=new.parent,
            root=new.root,
            user=new.user,
            recoveries=self.recoveries,
            created_at=self.created_at,
            started_at=self.started_at,
            updated_at=self.updated_at,
            finished_at=self.finished_at,
            attributes=new.attributes,
            trace=new.trace,
            error=self.error,
            origin=new.origin,
            next=self.next,
            pool=self.pool,
            group=self.group,
        )


class Tables:
    """What all handles of one `memory://name` share. Who touches it does so in a `with` statement: one at a time."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self._lock = threading.Lock()
        self.hints = Hints()
        self.workers: dict[str, Worker] = {}
        self.runs: dict[str, Run] = {}
        self.holders: dict[str, Run] = {}
        self.owned: dict[str, dict[str, Run]] = {}
        self.unread: dict[str, Run] = {}
        self.due: DueIndex[Run] = DueIndex()
        self.pools: dict[tuple[str, str], dict[str, Run]] = {}
        """By queue and pool, the runs that are due now or later."""
        self.served: dict[tuple[str, str], int] = {}
        """When a group of a pool was last given a place."""
        self.due_tasks: DueIndex[Task] = DueIndex()
        self.held_tasks: dict[Task, Run] = {}
        self.versions: dict[tuple[str, str], VersionRow] = {}

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._lock.release()

    def own(self, run: Run, worker_id: str) -> None:
        """Give the run to a worker, under a new epoch."""
        self.disown(run)
        self.set_wake(run, None)
        run.owner = worker_id
        run.epoch += 1
        self.owned.setdefault(worker_id, {})[run.uid] = run

    def disown(self, run: Run) -> None:
        """Nobody's from now on, whoever it was; when it is due is for the caller to say."""
        if run.owner is None:
            return
        runs = self.owned[run.owner]
        del runs[run.uid]
        if not runs:
            del self.owned[run.owner]
        run.owner = None

    def set_wake(self, run: Run, at: int | None) -> None:
        """Have an unowned run claimed at this instant, or not before a message comes."""
        run.wake_at = at
        if run.pool is not None:
            self._set_pooled(run, run.pool)
        elif at is None:
            self.due.drop(run)
        else:
            self.due.put(run, at)

    def _set_pooled(self, run: Run, pool: str) -> None:
        lane = run.queue, pool
        if run.wake_at is not None:
            self.pools.setdefault(lane, {})[run.uid] = run
            return
        waiting = self.pools.get(lane, {})
        waiting.pop(run.uid, None)
        if not waiting:
            self.pools.pop(lane, None)

    def set_pool(self, run: Run, pool: str | None, group: str = "") -> None:
        """Have it claimed with that pool, or with none."""
        at = run.wake_at
        self.set_wake(run, None)
        run.pool, run.group = pool, group
        if at is not None:
            self.set_wake(run, at)

    def wake(self, run: Run, at: int) -> None:
        """Have an unowned, live run claimed at this instant at the latest."""
        self.set_wake(run, at if run.wake_at is None else min(run.wake_at, at))
        self.hints.tell()

    def add_task(self, run: Run, new: NewTask) -> None:
        """Queue an attempt, in the place of an older one."""
        self.drop_task(run, new.key)
        task = run.tasks[new.key] = Task(run.uid, new)
        task.turn = self._next_turn(new) if new.group else 0
        self.due_tasks.put(task, new.due_at)
        self.hints.tell()

    def _next_turn(self, new: NewTask) -> int:
        """One behind the last of its group, and not before the first of all that wait."""
        turns = [
            (task.new.group, task.turn)
            for run in self.runs.values()
            for task in run.tasks.values()
            if task.owner is None and task.ticket and task.new.group
            and (task.queue, task.priority) == (new.queue, new.priority)
        ]  # fmt: skip
        last = max((turn + 1 for group, turn in turns if group == new.group), default=0)
        return max(last, min((turn for _, turn in turns), default=0))

    def drop_task(self, run: Run, key: str) -> None:
        """Forget the attempt that is queued or running under this key, if one is."""
        task = run.tasks.pop(key, None)
        if task is not None:
            self.due_tasks.drop(task)
            self.held_tasks.pop(task, None)

    def release_task(self, task: Task, due_at: int) -> None:
        """Nobody has it any more, and it is due then."""
        del self.held_tasks[task]
        task.owner = task.claimed_at = None
        task.lease_expires_at, task.progress = 0, b""
        task.new = msgspec.structs.replace(task.new, due_at=due_at)
        self.due_tasks.put(task, due_at)

    def stop_tasks(self, run: Run) -> None:
        """Nobody starts them any more; who runs one is told at its next renewal."""
        for key in list(run.tasks):
            self.stop_task(run, key)

    def stop_task(self, run: Run, key: str) -> None:
        """The same for the task of this key, if there is one."""
        task = run.tasks.get(key)
        if task is None:
            return
        if task.owner is None:
            self.drop_task(run, key)
        else:
            task.stop = True
            self.hints.tell()

    def empty_inbox(self, run: Run) -> None:
        """Leave no message unread."""
        run.inbox.clear()
        run.message_ids.clear()
        self.unread.pop(run.uid, None)

    def bring_back(self, run: Run) -> None:
        """It is live again: so is what was kept of its inbox."""
        if run.kept:
            run.inbox = dict(sorted({**run.kept, **run.inbox}.items()))
            run.message_ids = {message.id: no for no, message in run.inbox.items()}
            run.kept = {}
            self.unread[run.uid] = run

    def drop_run(self, run: Run) -> None:
        """Forget the run and all that is its own."""
        for key in list(run.tasks):
            self.drop_task(run, key)
        self.empty_inbox(run)
        self.set_wake(run, None)
        if self.holders.get(run.new.id) is run:
            del self.holders[run.new.id]
        del self.runs[run.uid]
