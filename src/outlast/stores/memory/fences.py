"""The rules that make late, lost and repeated requests harmless, one method each. Layer: stores (memory).

They are apart, and small, so that the simulation can take one away and show what breaks (`tests/simulation`). The names
in brackets are PROTOCOL's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.stores.store import REOPENING, is_kept_at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.stores.memory.tables import Run, Task, Worker
    from outlast.stores.store import Entry, Progress, Release

__all__ = ["Fences"]


class Fences:
    """What a store refuses, and what it sweeps."""

    def is_fenced(self, worker: Worker | None) -> bool:
        """A worker that somebody marked dead writes nothing at all [F1, F3]."""
        return worker is None or worker.dead_at is not None

    def may_renew(self, worker: Worker, now: int) -> bool:
        """A lease that lapsed never revives [F5]."""
        return worker.dead_at is None and worker.expires_at > now

    def follows(self, journal: Sequence[Entry], progress: Progress) -> bool:
        """An entry lands only behind the entry that its writer knew [F2]."""
        seq = progress.seq
        return seq == len(journal) and (seq == 0 or journal[-1].mark == progress.prev)

    def may_park(self, run: Run, worker_id: str | None, release: Release) -> bool:
        """A park is for this ownership and no later one [F16]."""
        return run.owner == worker_id and run.epoch == release.epoch and worker_id is not None

    def takes_message(self, run: Run, kind: str) -> bool:
        """A run that ended takes no message, but a completed one the call to undo itself [F20, F28]."""
        return run.live or REOPENING.get(kind) is run.status

    def sweeps_inbox(self, run: Run) -> bool:  # noqa: ARG002 - a rule may look at the run it is for
        """The end of a run leaves no message behind whose sender would wait for ever [F20]."""
        return True

    def keeps_mail(self, run: Run) -> bool:
        """What people sent outlives an end that a retry can take back."""
        return is_kept_at(run.status, is_child=run.new.parent is not None)

    def holds_task(self, task: Task | None, worker_id: str, attempt: int) -> bool:
        """An outcome counts only while its task is there, under this owner and attempt [F25, F26]."""
        return task is not None and task.owner == worker_id and task.new.attempt == attempt
