"""The thirteen rules that the protocol rests on, each of which can be taken away.

Those of the store are predicates of the in-memory store, overridden here; those of a worker are asked for by
`ModelWorker`. The names in brackets are PROTOCOL's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

from outlast.stores.memory import MemoryStore
from outlast.stores.memory.tables import Run, Task, Worker
from outlast.stores.store import Entry, Progress, Release

__all__ = ["ALL_FIXES", "FIX_NAMES", "Fixes", "WeakStore"]


@dataclass(frozen=True)
class Fixes:
    """Which of the rules hold."""

    # --- the store's ---
    worker_fence: bool = True
    """Every transaction of a worker stops when somebody marked the worker dead [F1, F3]."""
    predecessor: bool = True
    """An entry names the mark of the entry before it [F2]."""
    park_fenced: bool = True
    """A park is for one owner and epoch [F16]."""
    final_sweep: bool = True
    """The last commit empties the inbox, and later senders are told [F20]."""
    outcome_fenced: bool = True
    """A task's outcome counts only while the task is there, under this owner and attempt [F25, F26]."""
    # --- of both ---
    fresh_id: bool = True
    """A fenced worker comes back under a new id; a lapsed lease is never renewed [F5]."""
    # --- the worker's ---
    reread: bool = True
    """An entry was refused: look who owns the run; reload it if it is still mine, else drop it [F1]."""
    reconcile: bool = True
    """Runs that are mine in the store and unknown in memory are adopted [F4]."""
    one_flight: bool = True
    """At most one entry of a run is in flight [F2]."""
    seen_first: bool = True
    """Mail and inbox are read in one snapshot [F15]."""
    dedup_fold: bool = True
    """The fold keeps the ids of messages that were read [F18]."""
    park_idle: bool = True
    """A run is not parked while an attempt of it runs here [F17]."""
    lease_at_act: bool = True
    """The lease is looked at right before user code [F6]."""

    def without(self, *names: str) -> Fixes:
        return replace(self, **dict.fromkeys(names, False))


ALL_FIXES = Fixes()
FIX_NAMES = tuple(field.name for field in fields(Fixes))


class WeakStore(MemoryStore):
    """The in-memory store without the rules that are off."""

    def __init__(self, fixes: Fixes, clock: Callable[[], int]) -> None:
        super().__init__(clock=clock)
        self.fixes = fixes

    def is_fenced(self, worker: Worker | None) -> bool:
        return self.fixes.worker_fence and super().is_fenced(worker)

    def follows(self, journal: Sequence[Entry], progress: Progress) -> bool:
        if self.fixes.predecessor:
            return super().follows(journal, progress)
        return progress.seq >= len(journal)

    def may_park(self, run: Run, worker_id: str | None, release: Release) -> bool:
        return not self.fixes.park_fenced or super().may_park(run, worker_id, release)

    def takes_message(self, run: Run, kind: str) -> bool:
        return not self.fixes.final_sweep or super().takes_message(run, kind)

    def sweeps_inbox(self, run: Run) -> bool:
        return self.fixes.final_sweep and super().sweeps_inbox(run)

    def holds_task(self, task: Task | None, worker_id: str, attempt: int) -> bool:
        return not self.fixes.outcome_fenced or super().holds_task(task, worker_id, attempt)

    def may_renew(self, worker: Worker, now: int) -> bool:
        return not self.fixes.fresh_id or super().may_renew(worker, now)
