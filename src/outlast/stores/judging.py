"""What may land of a batch, and why the rest may not. Layer: stores.

For backends that read first what a judgement needs, in the transaction in which it has to hold. What always holds:
nothing is changed or read here; and the parts are judged as if each landed before the next is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.stores.progress import LANDED, REFUSED, STALE, Effects, Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from outlast.core.states import RunStatus
    from outlast.stores.progress import NewRun, Progress

__all__ = ["Facts", "Judge"]

_NOTHING = Effects()


class Facts:
    """What judging a batch needs to know: of which positions the marks, which runs, and who holds which ids."""

    def __init__(self, batch: Sequence[Progress]) -> None:
        """Says what to read; `fill` takes the answers."""
        starts = [start for progress in batch for start in _iter_starts(progress)]
        self.children = {uid for uid, _ in starts} - {progress.uid for progress in batch}
        self.positions = {(each.uid, seq) for each in batch for seq in (each.seq, each.seq - 1) if seq >= 0}
        self.positions |= {(uid, 0) for uid in self.children}
        self.uids = {each.uid for each in batch} | self.children
        self.ids = {new.id for _, new in starts}
        self.marks: dict[tuple[str, int], int] = {}
        self.runs: dict[str, tuple[str | None, str]] = {}
        self.holders: dict[str, tuple[str, bool]] = {}

    def fill(
        self,
        marks: Iterable[tuple[str, int, int]],
        runs: Iterable[tuple[str, str | None, str]],
        holders: Iterable[tuple[str, str, bool]],
    ) -> None:
        """Rows of (uid, position, mark), of (uid, owner, status), and of (id, uid of its holder, whether that lives);
        where there is none, there is no row."""
        self.marks = {(uid, seq): mark for uid, seq, mark in marks}
        self.runs = {uid: (owner, status) for uid, owner, status in runs}
        self.holders = {name: (uid, bool(live)) for name, uid, live in holders}


class Judge:
    """Of one batch. `known` are the uids that are there, or will be as far as was judged."""

    def __init__(self, facts: Facts) -> None:
        self._marks = facts.marks
        self._runs = facts.runs
        self._holders = dict(facts.holders)
        # The journal of a deleted child may still be there; it keeps its uid from being used again.
        self.known = set(facts.runs) | {uid for uid in facts.children if (uid, 0) in facts.marks}

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
            if holder is not None and holder != new.continues and (holder != new.replaces or live):
                return Outcome(Verdict.TAKEN, holder)
            if given.get(new.id, uid) not in {uid, new.continues}:
                return Outcome(Verdict.TAKEN, given[new.id])
            given[new.id] = uid
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
