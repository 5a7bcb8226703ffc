"""Why a part of a batch may not land, when not all of it did. Layer: stores (sqlite).

What always holds: nothing is changed here; and the parts are judged as if each landed before the next is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.stores.sqlite.statements import load_statements
from outlast.stores.store import LANDED, REFUSED, STALE, Effects, Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from outlast.core.states import RunStatus
    from outlast.stores.sqlite.transaction import Transaction
    from outlast.stores.store import NewRun, Progress

__all__ = ["Judge"]

_journal = load_statements("journal")
_runs = load_statements("runs")

_NOTHING = Effects()


class Judge:
    """Of one batch, in its transaction. `known` are the uids that are there, or will be as far as was judged."""

    def __init__(self, tx: Transaction, batch: Sequence[Progress]) -> None:
        """Read all that can matter."""
        starts = [start for progress in batch for start in _iter_starts(progress)]
        children = {uid for uid, _ in starts} - {progress.uid for progress in batch}
        positions = {(each.uid, seq) for each in batch for seq in (each.seq, each.seq - 1) if seq >= 0}
        positions |= {(uid, 0) for uid in children}
        uids = [(uid,) for uid in {each.uid for each in batch} | children]
        self._marks = {(uid, seq): mark for uid, seq, mark in tx.fetch_rows(_journal["fetch_marks"], [*positions])}
        self._runs = {uid: (owner, status) for uid, owner, status in tx.fetch_rows(_runs["fetch_states"], uids)}
        ids = [(name,) for name in {new.id for _, new in starts}]
        holders = tx.fetch_rows(_runs["fetch_holders"], ids) if ids else []
        self._holders = {name: (uid, bool(live)) for name, uid, live in holders}
        # The journal of a deleted child may still be there; it keeps its uid from being used again.
        self.known = set(self._runs) | {uid for uid in children if (uid, 0) in self._marks}

    def judge(self, progress: Progress) -> Outcome | None:
        """Its outcome when nothing of it may happen, or all of it has; None: it is to land."""
        uid, seq = progress.uid, progress.seq
        effects = progress.effects or _NOTHING
        if seq < 0:
            return None if uid in self._runs else LANDED  # the park of a run that was deleted since
        mark = self._marks.get((uid, seq))
        if mark is not None:
            if mark == progress.mark and uid in self._runs:
                return LANDED
            return STALE if self._is_still(uid, effects.unowned) else REFUSED
        if effects.start is None:
            if uid not in self._runs:
                return STALE
            if not self._is_still(uid, effects.unowned):
                return REFUSED
            if self._marks.get((uid, seq - 1)) != progress.prev:
                return STALE
        elif uid in self.known:  # started as another's child, in this batch
            return STALE
        return self._take_ids(progress)

    def _is_still(self, uid: str, unowned: RunStatus | None) -> bool:
        """Whether a run that must be unowned, and as its writer saw it, is."""
        return unowned is None or self._runs.get(uid) == (None, unowned.value)

    def _take_ids(self, progress: Progress) -> Outcome | None:
        """Give the ids of the runs it starts to them; TAKEN when another run holds one."""
        starts = [*_iter_starts(progress, self.known)]
        given: dict[str, str] = {}
        for uid, new in starts:
            holder, live = self._holders.get(new.id, (None, False))
            if holder is not None and (holder != new.replaces or live):
                return Outcome(Verdict.TAKEN, holder)
            if given.setdefault(new.id, uid) != uid:
                return Outcome(Verdict.TAKEN, given[new.id])
        for uid, new in starts:
            self._holders[new.id] = (uid, True)
            self.known.add(uid)
        return None


def _iter_starts(progress: Progress, known: set[str] | None = None) -> Iterator[tuple[str, NewRun]]:
    """The runs that it would start: its own, and children; but for those that are known, with all below them."""
    effects = progress.effects
    if effects is None:
        return
    if effects.start is not None:
        if known is not None and progress.uid in known:
            return
        yield progress.uid, effects.start
    for child in effects.children:
        yield from _iter_starts(child, known)
