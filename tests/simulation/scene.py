"""What all take part in: the time, the store, the network, and who looks that all is well.

`Glance` is the schedule's view: it sees in the tables what could be done, so that steps are not wasted on requests that
would find nothing. Workers themselves learn everything through the store's methods.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from outlast.stores.store import Effects, NewRun, Progress
from tests.simulation.audit import Audit
from tests.simulation.fixes import Fixes, WeakStore
from tests.simulation.network import Network, immediately
from tests.simulation.program import PARENT, encode

__all__ = ["Glance", "Scene"]


class Glance:
    """A look at the tables, which changes nothing."""

    def __init__(self, store: WeakStore, scene: Scene) -> None:
        self._tables = store._tables
        self._scene = scene

    def is_anybody_dead(self) -> bool:
        now = self._scene.now
        return any(each.dead_at is not None or each.expires_at <= now for each in self._tables.workers.values())

    def is_any_run_due(self) -> bool:
        now = self._scene.now
        return any(run.wake_at is not None and run.wake_at <= now for run in self._tables.runs.values())

    def owned_by(self, worker_id: str) -> list[str]:
        return list(self._tables.owned.get(worker_id, ()))

    def uids(self) -> list[str]:
        return list(self._tables.runs)

    def mail_of(self, uid: str) -> int:
        return self._tables.runs[uid].mail

    def has_ended(self, uid: str) -> bool:
        run = self._tables.runs.get(uid)
        return run is not None and not run.live

    def is_any_task_due(self) -> bool:
        return any(task.owner is None for run in self._tables.runs.values() for task in run.tasks.values())

    def is_any_task_lapsed(self) -> bool:
        now = self._scene.now
        workers = self._tables.workers
        return any(
            task.owner is not None and (task.lease_expires_at <= now or task.owner not in workers)
            for run in self._tables.runs.values()
            for task in run.tasks.values()
        )

    def describe(self) -> str:
        """How things stand, for whoever reads a failure."""
        return "; ".join(
            f"{run.uid}: {run.status} owner={run.owner} epoch={run.epoch} wake={run.wake_at} mail={run.mail} "
            f"inbox={[message.id for message in run.inbox.values()]} "
            f"tasks={[(task.new.key, task.new.attempt, task.owner) for task in run.tasks.values()]}"
            for run in self._tables.runs.values()
        )


@dataclass
class Scene:
    """One simulated world."""

    fixes: Fixes
    overlook: frozenset[str] = frozenset()
    """Rules whose violations the audit lets pass, to see what comes of them."""
    now: int = 1_700_000_000_000_000
    network: Network = field(default_factory=Network)

    def __post_init__(self) -> None:
        self.store = WeakStore(self.fixes, lambda: self.now)
        immediately(self.store.open())
        self.audit = Audit(self.store, self.overlook)
        self.glance = Glance(self.store, self)
        self.met: Counter[str] = Counter()
        """What happened that a schedule is for: refusals, losses, repeats."""
        self._marks = 0
        parent = NewRun(id=PARENT, workflow="parent", version="1")
        start = Progress(PARENT, 0, mark=self.next_mark(), events=encode([]), effects=Effects(start=parent))
        immediately(self.store.commit(None, [start]))
        self.audit.check()

    def next_mark(self) -> int:
        """Unique, and the same in every repeat of a schedule."""
        self._marks += 1
        return self._marks
