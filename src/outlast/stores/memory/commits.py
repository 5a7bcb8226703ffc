"""The one way a run moves. Layer: stores (memory).

What always holds: everything is judged before anything is changed, so an entry and its effects happen together or not
at all; and an entry without effects touches its journal and nothing else.
"""

# ruff: noqa: D102 - a method's promise stands in stores/store.py, once for all backends

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.core.states import RunStatus
from outlast.stores.memory.mail import Mail
from outlast.stores.memory.tables import Run
from outlast.stores.store import CLIENT, KEPT, LANDED, REFUSED, STALE, Effects, Entry, Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from outlast.stores.store import NewRun, Progress, RowChange

__all__ = ["Commits"]

_NOTHING = Effects()


class Commits(Mail):
    """The store's `commit`."""

    async def commit(self, worker_id: str | None, batch: Sequence[Progress]) -> list[Outcome]:
        with self._opened() as tables:
            if worker_id is not None:
                self._require_lease(worker_id)
            else:
                _check_client(batch)
            writer = worker_id or CLIENT
            runs = tables.runs
            outcomes = []
            for progress in batch:
                run = runs.get(progress.uid)
                if progress.effects is None and run is not None and self.follows(run.journal, progress):
                    run.journal.append(_to_entry(progress, writer))  # a step's life: nothing else to judge or do
                    outcomes.append(LANDED)
                    continue
                refusal = self._judge(run, progress, progress.effects or _NOTHING)
                if refusal is None:
                    self._land(run, progress, worker_id)
                outcomes.append(refusal or LANDED)
            return outcomes

    # --- judging: nothing changes ---

    def _judge(self, run: Run | None, progress: Progress, effects: Effects) -> Outcome | None:
        """Why nothing of this may happen, or that it happened before; None: it may."""
        seq = progress.seq
        if seq < 0:
            return LANDED if run is None else None  # the park of a run that was deleted since
        if run is not None and seq < len(run.journal):
            if run.journal[seq].mark == progress.mark:
                return LANDED
            return STALE if _is_still(run, effects.unowned) else REFUSED
        if effects.start is None:
            if run is None:
                return STALE
            if not _is_still(run, effects.unowned):
                return REFUSED
            if not self.follows(run.journal, progress):
                return STALE
        if effects.start is not None or effects.children:
            return self._find_holder(progress)
        return None

    def _find_holder(self, progress: Progress) -> Outcome | None:
        """TAKEN, when another run holds an id that this would give to a new one."""
        claimed: dict[str, str] = {}
        for uid, new in self._iter_starts(progress):
            holder = self._tables.holders.get(new.id)
            if holder is not None and holder.uid != new.continues and (holder.uid != new.replaces or holder.live):
                return Outcome(Verdict.TAKEN, holder.uid)
            if claimed.get(new.id, uid) not in {uid, new.continues}:
                return Outcome(Verdict.TAKEN, claimed[new.id])
            claimed[new.id] = uid
        return None

    def _iter_starts(self, progress: Progress) -> Iterator[tuple[str, NewRun]]:
        """The runs that this would make: its own, and children that are not there yet."""
        effects = progress.effects
        if effects is None or (effects.start is not None and progress.uid in self._tables.runs):
            return
        if effects.start is not None:
            yield progress.uid, effects.start
        for child in effects.children:
            yield from self._iter_starts(child)

    # --- landing: nothing is refused any more ---

    def _land(self, run: Run | None, progress: Progress, worker_id: str | None) -> None:
        """The entry and its effects, in the order that `Effects` names."""
        effects = progress.effects or _NOTHING
        if effects.start is not None:
            run = self._start(progress.uid, effects.start, worker_id)
        assert run is not None
        if progress.seq >= 0:
            run.journal.append(_to_entry(progress, worker_id or CLIENT))
        if effects.consumed:
            self._consume(run, effects.consumed)
        for child in effects.children:
            if child.uid not in self._tables.runs:
                self._land(None, child, worker_id)
        if effects.sends:
            self._send_all(effects.sends)
        self._change_tasks_and_waits(run, effects)
        for child in effects.children:
            if child.effects is not None and child.effects.start is not None and child.effects.start.continues:
                self._move_mail(run, self._tables.runs[child.uid])
        if effects.row is not None:
            self._change_row(run, effects.row, worker_id, parks_only=progress.seq < 0)

    def _start(self, uid: str, new: NewRun, worker_id: str | None) -> Run:
        tables = self._tables
        now = tables.clock()
        run = Run(uid, new, RunStatus.QUEUED, created_at=now, updated_at=now)
        tables.runs[uid] = run
        tables.holders[new.id] = run
        if new.continues is not None:
            self._follow(run, new.continues)
        if new.claimed and worker_id is not None:
            tables.own(run, worker_id)
            run.status = RunStatus.RUNNING
            run.started_at = now
        else:
            tables.wake(run, now if new.wake_at is None else new.wake_at)
        return run

    def _follow(self, run: Run, uid: str) -> None:
        """The run is the next round of that one."""
        before = self._tables.runs[uid]
        first = before if run.new.origin is None else self._tables.runs.get(run.new.origin, before)
        before.next = first.next = run.uid
        run.queue, run.pool, run.group = before.queue, before.pool, before.group

    def _change_tasks_and_waits(self, run: Run, effects: Effects) -> None:
        if effects.stop_tasks:
            self._tables.stop_tasks(run)
        for key in effects.stopped:
            self._tables.stop_task(run, key)
        for task in effects.tasks:
            self._tables.add_task(run, task)
        for key in effects.waits_closed:
            run.waits.pop(key, None)
        for wait in effects.waits_opened:
            run.waits[wait.key] = wait

    def _change_row(self, run: Run, row: RowChange, worker_id: str | None, *, parks_only: bool) -> None:
        release = row.release
        parks = release is not None and run.live and self.may_park(run, worker_id, release)
        if parks_only and not parks:
            return
        now = self._tables.clock()
        run.updated_at = now
        if row.status is not None:
            run.status = row.status
        if row.waiting_on is not None:
            run.waiting_on = row.waiting_on
        if row.error is not None:
            run.error = row.error or None
        if row.recovered:
            run.recoveries = 0
        if row.unfit is not None and (release is None or run.mail == release.seen):
            run.unfit.add(row.unfit)
        if row.reopened:
            self._reopen(run, now)
        if row.ended:
            self._end(run, now)
        elif parks and release is not None:
            self._tables.disown(run)
            self._tables.set_wake(run, release.wake_at if run.mail == release.seen else now)
            self._tables.hints.tell()

    def _reopen(self, run: Run, now: int) -> None:
        run.live = True
        run.finished_at = None
        run.error = None
        self._tables.bring_back(run)
        if run.owner is None:
            self._tables.wake(run, now)

    def _end(self, run: Run, now: int) -> None:
        tables = self._tables
        tables.disown(run)
        tables.set_wake(run, None)
        run.live = False
        run.finished_at = now
        run.waits.clear()
        tables.stop_tasks(run)
        if self.sweeps_inbox(run):
            if self.keeps_mail(run):
                run.kept.update((no, message) for no, message in run.inbox.items() if message.kind in KEPT)
            tables.empty_inbox(run)
        tables.hints.tell()


def _to_entry(progress: Progress, writer: str) -> Entry:
    return Entry(progress.seq, progress.at, writer, progress.mark, progress.events)


def _is_still(run: Run, unowned: RunStatus | None) -> bool:
    """Whether a run that must be unowned, and as its writer saw it, is."""
    return unowned is None or (run.owner is None and run.status is unowned)


def _check_client(batch: Sequence[Progress]) -> None:
    """A client owns nothing: it starts runs, and writes to runs that nobody owns."""
    for progress in batch:
        effects = progress.effects or _NOTHING
        if effects.start is None and effects.unowned is None:
            raise ValueError(f"a client may only start a run or write with `unowned`: run {progress.uid}")
