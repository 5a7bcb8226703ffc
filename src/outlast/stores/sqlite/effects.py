"""What commits do beside their entries, each kind for a whole batch at once. Layer: stores (sqlite).

What always holds: `apply` goes in the order that `Effects` names, so a park sees the mail that was sent in its own
commit, and an end sweeps all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.core.states import RunStatus
from outlast.stores.sharing import POOLED
from outlast.stores.sqlite.mail import consume, deliver, move_mail
from outlast.stores.sqlite.statements import load_statements
from outlast.stores.turns import count_turns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.stores.sqlite.transaction import Row, Transaction
    from outlast.stores.store import Effects, NewRun, NewTask, RowChange

__all__ = ["apply", "delimit", "start_runs"]

_runs = load_statements("runs")
_tasks = load_statements("tasks")
_waits = load_statements("waits")


def start_runs(tx: Transaction, worker: str | None, starts: Sequence[tuple[str, NewRun]]) -> None:
    """Add runs. Raises `sqlite3.IntegrityError` when a uid is there, or an id is held by a run that does not give it up
    to this one."""
    replaced = [(new.replaces, new.id) for _, new in starts if new.replaces is not None]
    if replaced:
        tx.run_rows(_runs["give_ids_up"], replaced)
    continued = [
        (uid, follower)
        for follower, new in starts
        if new.continues is not None
        for uid in dict.fromkeys((new.continues, new.origin))
    ]
    if continued:
        tx.run_rows(_runs["pass_ids_on"], continued)
    followers = {new.continues: follower for follower, new in starts}
    rows = [(*_to_row(uid, new, worker, tx.now), followers.get(uid), uid not in followers) for uid, new in starts]
    tx.run_rows(_runs["insert_runs"], rows, (tx.now, tx.now))
    tx.run_rows(_runs["insert_values"], [(uid, new.attributes, new.trace) for uid, new in starts])


def apply(tx: Transaction, worker: str | None, parts: Sequence[tuple[str, int, Effects]]) -> None:
    """The effects of entries that landed, by uid and position. Their runs are there already."""
    consumed = [(uid, no) for uid, _, effects in parts for no in effects.consumed]
    if consumed:
        consume(tx, consumed)
    sends = [each for _, _, effects in parts for each in effects.sends]
    if sends:
        deliver(tx, sends)
    _change_tasks(tx, parts)
    _change_waits(tx, parts)
    starts = [(each.start.continues, uid) for uid, _, each in parts if each.start is not None and each.start.continues]
    if starts:
        move_mail(tx, starts)
    rows = [(uid, seq < 0, effects.row) for uid, seq, effects in parts if effects.row is not None]
    if rows:
        _change_rows(tx, worker, rows)


def delimit(deploy: str) -> str:
    """A deploy as it stands in the list of those that cannot serve a run."""
    return f"\n{deploy}\n"


def _to_row(uid: str, new: NewRun, worker: str | None, now: int) -> Row:
    claimed = new.claimed and worker is not None
    return (
        uid,
        new.id,
        new.workflow,
        new.version,
        RunStatus.RUNNING.value if claimed else RunStatus.QUEUED.value,
        worker if claimed else None,
        1 if claimed else 0,
        None if claimed else now if new.wake_at is None else new.wake_at,
        new.deadline,
        new.priority if new.pool is None else new.priority + POOLED,
        new.queue,
        new.parent,
        new.root,
        new.user,
        now if claimed else None,
        new.origin,
        new.pool,
        new.group,
    )


def _change_tasks(tx: Transaction, parts: Sequence[tuple[str, int, Effects]]) -> None:
    stopped = [(uid,) for uid, _, effects in parts if effects.stop_tasks]
    if stopped:
        tx.run_rows(_tasks["drop_tasks"], stopped)
        tx.run_rows(_tasks["stop_tasks"], stopped)
    keys = [(uid, key) for uid, _, effects in parts for key in effects.stopped]
    if keys:
        tx.run_rows(_tasks["drop_keys"], keys)
        tx.run_rows(_tasks["stop_keys"], keys)
    queued = [(uid, new) for uid, _, effects in parts for new in effects.tasks]
    if queued:
        turns = _give_turns(tx, [new for _, new in queued])
        rows = [
            (
                *(uid, new.key, new.attempt, new.queue, new.function, new.arguments, new.details, new.due_at),
                *(new.priority, new.group, turn),
            )
            for (uid, new), turn in zip(queued, turns, strict=True)
        ]
        tx.run_rows(_tasks["insert_tasks"], rows)


def _give_turns(tx: Transaction, tasks: Sequence[NewTask]) -> list[int]:
    """The turn of each. Those of one group follow each other."""
    groups = {(new.queue, new.priority, new.group) for new in tasks if new.group}
    found = tx.fetch_rows(_tasks["fetch_turns"], sorted(groups)) if groups else []
    return count_turns(tasks, {(queue, priority, group): turn for queue, priority, group, turn in found})


def _change_waits(tx: Transaction, parts: Sequence[tuple[str, int, Effects]]) -> None:
    closed = [(uid, key) for uid, _, effects in parts for key in effects.waits_closed]
    if closed:
        tx.run_rows(_waits["delete_waits"], closed)
    opened = [
        (uid, new.key, new.kind, new.name, new.opened_at, new.deadline, new.policy)
        for uid, _, effects in parts
        for new in effects.waits_opened
    ]
    if opened:
        tx.run_rows(_waits["insert_waits"], opened)


def _change_rows(tx: Transaction, worker: str | None, rows: Sequence[tuple[str, bool, RowChange]]) -> None:
    """Each with its run, and whether it comes without an entry: then all of it depends on its release."""
    errors = []
    changes = []
    for uid, alone, row in rows:
        release = row.release
        epoch = None if release is None else release.epoch
        if alone and epoch is None:
            continue
        if row.error is not None or row.reopened:
            errors.append((uid, None if row.reopened else row.error or None, epoch if alone else None))
        status = None if row.status is None else row.status.value
        unfit = None if row.unfit is None else delimit(row.unfit)
        seen, wake_at = (None, None) if release is None else (release.seen, release.wake_at)
        changes.append(
            (uid, alone, status, row.waiting_on, row.recovered, unfit, row.reopened, row.ended, epoch, seen, wake_at)
        )
    if errors:
        tx.run_rows(_runs["set_errors"], errors, (worker,))
    if changes:
        tx.run_rows(_runs["change_rows"], changes, (worker, tx.now))
