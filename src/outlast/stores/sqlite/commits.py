"""The one way a run moves. Layer: stores (sqlite).

A batch is taken at its word first: one statement adds all its entries and checks the fences as it does, and when each
landed the effects follow. Only when one did not is everything undone, and the batch judged part by part (`judging`);
what may land then does so by the same functions. What always holds: a batch is one transaction.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING

from outlast.stores.judging import Facts, Judge
from outlast.stores.sqlite.effects import apply, start_runs
from outlast.stores.sqlite.statements import load_statements
from outlast.stores.sqlite.transaction import Again, Quick
from outlast.stores.sqlite.workers import require_lease
from outlast.stores.store import CLIENT, LANDED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from outlast.stores.sqlite.transaction import Row, Transaction
    from outlast.stores.store import Outcome, Progress

__all__ = ["plan_plain", "prepare_commit"]

_sql = load_statements("journal")
_runs = load_statements("runs")

_UID = itemgetter(0)


def plan_plain(worker: str, batch: Sequence[Progress]) -> Quick[list[Outcome]] | None:
    """A step's life: entries without effects, which are one statement. None: there are effects, or too many."""
    if len(batch) == 1:
        return _plan_one(worker, batch[0])
    rows = [(p.uid, p.seq, p.at, p.mark, p.events, p.prev) for p in batch if p.effects is None]
    if len(rows) != len(batch):
        return None
    rows.sort(key=_UID)  # by uid: neighbours in the index are written together
    statements = [*_sql["insert_entries"].fill(rows, (worker, worker))]
    if len(statements) != 1:
        return None
    [(sql, values)] = statements
    return Quick(sql, values, len(rows), sum([len(row[4]) for row in rows]), [LANDED] * len(rows))


def _plan_one(worker: str, only: Progress) -> Quick[list[Outcome]] | None:
    if only.effects is not None:
        return None
    uid, seq = only.uid, only.seq
    values = (uid, seq, only.at, only.mark, only.events, worker, uid, seq - 1, only.prev, worker)
    return Quick(_sql["insert_entry"].sql, values, 1, len(only.events), [LANDED])


def prepare_commit(
    worker: str | None, batch: Sequence[Progress], *, is_plain: bool
) -> Callable[[Transaction], list[Outcome]]:
    """The work of a commit; of a plain one, what is left to do when not all of it landed."""
    if is_plain or any(progress.effects is not None and progress.effects.unowned is not None for progress in batch):
        return partial(_commit_judged, worker, batch)
    return partial(_commit_at_its_word, worker, batch)


def _commit_at_its_word(worker: str | None, batch: Sequence[Progress], tx: Transaction) -> list[Outcome]:
    if not _land(tx, worker, batch, set()):
        raise Again(partial(_commit_judged, worker, batch))
    return [LANDED] * len(batch)


def _commit_judged(worker: str | None, batch: Sequence[Progress], tx: Transaction) -> list[Outcome]:
    """Land what may, and say of the rest why it may not."""
    if worker is not None:
        require_lease(tx, worker)
    judge = Judge(_read_facts(tx, batch))
    known = set(judge.known)
    outcomes = [judge.judge(progress) for progress in batch]
    winners = [progress for progress, outcome in zip(batch, outcomes, strict=True) if outcome is None]
    if winners and not _land(tx, worker, winners, known):
        uids = ", ".join(progress.uid for progress in winners)
        raise AssertionError(f"what was judged to land did not: runs {uids}")
    return [LANDED if outcome is None else outcome for outcome in outcomes]


def _read_facts(tx: Transaction, batch: Sequence[Progress]) -> Facts:
    """All that can matter."""
    facts = Facts(batch)
    facts.fill(
        tx.fetch_rows(_sql["fetch_marks"], [*facts.positions]),
        tx.fetch_rows(_runs["fetch_states"], [(uid,) for uid in facts.uids]),
        tx.fetch_rows(_runs["fetch_holders"], [(name,) for name in facts.ids]) if facts.ids else [],
    )
    return facts


def _land(tx: Transaction, worker: str | None, batch: Sequence[Progress], known: set[str]) -> bool:
    """The entries and all their effects. False: not all could land, and some of it may have happened; undo it.

    `known` are the uids whose start is skipped, when it is a child's."""
    parts = [*_flatten(batch, known)]
    entries = [_to_row(progress) for progress in parts if progress.seq >= 0]
    if entries:
        entries.sort(key=_UID)
        if worker is not None:
            landed = tx.run_rows(_sql["insert_entries"], entries, (worker, worker))
        else:
            landed = tx.run_rows(_sql["insert_clients_entries"], entries, (CLIENT,))
        if landed != len(entries):
            return False
    elif worker is not None:
        require_lease(tx, worker)
    starts = [(part.uid, part.effects.start) for part in parts if part.effects and part.effects.start]
    if starts:
        try:
            start_runs(tx, worker, starts)
        except sqlite3.IntegrityError:
            return False
    apply(tx, worker, [(part.uid, part.seq, part.effects) for part in parts if part.effects is not None])
    return True


def _flatten(batch: Sequence[Progress], known: set[str], *, are_children: bool = False) -> Iterator[Progress]:
    """All parts, and behind each its children that are not known yet; with what is below them."""
    for progress in batch:
        if are_children and progress.uid in known:
            continue
        known.add(progress.uid)
        yield progress
        if progress.effects is not None and progress.effects.children:
            yield from _flatten(progress.effects.children, known, are_children=True)


def _to_row(progress: Progress) -> Row:
    is_first = progress.effects is not None and progress.effects.start is not None
    prev = None if is_first else progress.prev
    return progress.uid, progress.seq, progress.at, progress.mark, progress.events, prev
