"""What commits do beside their entries, each kind for a whole batch at once. Layer: stores (postgres).

What always holds: `apply` goes in the order that `Effects` names, so a park sees the mail that was sent in its own
commit, and an end sweeps all; every row of a run that it changes was locked before, in another statement.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from outlast.core.states import RunStatus
from outlast.stores.delivery import Recipient
from outlast.stores.postgres.mail import bring_back, deliver, move_mail
from outlast.stores.postgres.statements import columns, load_statements
from outlast.stores.sharing import POOLED
from outlast.stores.turns import count_turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from outlast.stores.postgres.link import Link, Record
    from outlast.stores.postgres.statements import Row, Statement
    from outlast.stores.store import Effects, NewTask, Progress

__all__ = ["Runs", "apply", "start_runs"]

_starts = load_statements("starts")
_runs = load_statements("runs")
_mail = load_statements("mail")
_tasks = load_statements("tasks")
_waits = load_statements("waits")


class _Run(NamedTuple):
    owner: str | None
    status: str


class Runs:
    """The runs that a transaction has locked, as their rows are, and those that it has started."""

    def __init__(self, rows: Iterable[Record]) -> None:
        self.recipients: dict[str, Recipient] = {}
        self._runs: dict[str, _Run] = {}
        self.last: dict[str, str] = {}
        """Of those that went on, which round of theirs is known as the last."""
        for uid, live, status, mail, name, owner, last in rows:
            if last is not None:
                self.last[uid] = last
            self.recipients[uid] = Recipient(live, status, mail, name)
            self._runs[uid] = _Run(owner, status)

    def find(self, uid: str) -> _Run | None:
        """Its owner and status."""
        return self._runs.get(uid)

    def add(self, part: Progress) -> None:
        """A run that the transaction has started: it may be sent to."""
        assert part.effects is not None
        assert part.effects.start is not None
        self.recipients[part.uid] = Recipient(True, RunStatus.QUEUED, 0, part.effects.start.id)


async def start_runs(link: Link, worker: str | None, parts: Sequence[Progress]) -> int:
    """Add runs and their first entries; how many of them. Raises `StoreRefused` for a broken constraint when a run's
    journal is there without it."""
    starts = [(part, part.effects.start) for part in parts if part.effects is not None and part.effects.start]
    replaced = [(new.replaces, new.id) for _, new in starts if new.replaces is not None]
    if replaced:
        await link.run(_starts["give_ids_up"], **columns("uid id", replaced))
    continued = [
        (uid, part.uid)
        for part, new in starts
        if new.continues is not None
        for uid in dict.fromkeys((new.continues, new.origin))
    ]
    if continued:
        await link.run(_starts["pass_ids_on"], **columns("uid next", continued))
    followers = {new.continues: part.uid for part, new in starts}
    rows = [
        (
            part.uid,
            new.id,
            new.workflow,
            new.version,
            new.claimed and worker is not None,
            new.wake_at,
            new.deadline,
            new.priority if new.pool is None else new.priority + POOLED,
            new.queue,
            new.parent,
            new.root,
            new.user,
            new.attributes,
            new.trace,
            new.origin,
            new.pool,
            new.group,
            followers.get(part.uid),
            part.at,
            part.mark,
            part.events,
        )
        for part, new in starts
    ]
    names = (
        "uid id workflow version claimed wake_at deadline priority queue parent root user attributes trace origin pool"
    )
    return await link.run(_starts["start_runs"], worker=worker, **columns(f"{names} share next at mark events", rows))


async def apply(link: Link, worker: str | None, runs: Runs, parts: Sequence[Progress]) -> None:
    """The effects of entries that landed. Their runs are there already."""
    effects = [(part.uid, part.effects) for part in parts if part.effects is not None]
    consumed = [(uid, no) for uid, each in effects for no in each.consumed]
    if consumed:
        await link.run(_mail["delete_messages"], **columns("uid no", consumed))
    sends = [send for _, each in effects for send in each.sends]
    if sends:
        await deliver(link, runs.recipients, sends)
    await _change_tasks(link, effects)
    await _change_waits(link, effects)
    starts = [(each.start.continues, uid) for uid, each in effects if each.start is not None and each.start.continues]
    if starts:
        await move_mail(link, starts)
    await _change_rows(link, worker, parts)


async def _change_tasks(link: Link, effects: Sequence[tuple[str, Effects]]) -> None:
    stopped = [uid for uid, each in effects if each.stop_tasks]
    if stopped and await _has_unowned(link, _tasks["stop_tasks"], stopped):
        await link.run(_tasks["drop_tasks"], uids=stopped)
    keys = [(uid, key) for uid, each in effects for key in each.stopped]
    if keys:
        pairs = columns("uid key", keys)
        [(has_unowned,)] = await link.fetch(_tasks["stop_keys"], **pairs)
        if has_unowned:
            await link.run(_tasks["drop_keys"], **pairs)
    queued = [(uid, new) for uid, each in effects for new in each.tasks]
    if queued:
        turns = await _give_turns(link, [new for _, new in queued])
        rows = [
            (
                *(uid, new.key, new.attempt, new.queue, new.function, new.arguments, new.details, new.due_at),
                *(new.priority, new.group, turn),
            )
            for (uid, new), turn in zip(queued, turns, strict=True)
        ]
        names = "uid key attempt queue function arguments details due_at priority share turn"
        await link.run(_tasks["insert_tasks"], **columns(names, rows))


async def _give_turns(link: Link, tasks: Sequence[NewTask]) -> list[int]:
    """The turn of each. Those of one group follow each other."""
    groups = sorted({(new.queue, new.priority, new.group) for new in tasks if new.group})
    found = await link.fetch(_tasks["fetch_turns"], **columns("queue priority share", groups)) if groups else []
    return count_turns(tasks, {(queue, priority, group): turn for queue, priority, group, turn in found})


async def _change_waits(link: Link, effects: Sequence[tuple[str, Effects]]) -> None:
    closed = [(uid, key) for uid, each in effects for key in each.waits_closed]
    if closed:
        await link.run(_waits["delete_waits"], **columns("uid key", closed))
    opened = [
        (uid, new.key, new.kind, new.name, new.opened_at, new.deadline, new.policy)
        for uid, each in effects
        for new in each.waits_opened
    ]
    if opened:
        await link.run(_waits["insert_waits"], **columns("uid key kind name opened_at deadline policy", opened))


async def _change_rows(link: Link, worker: str | None, parts: Sequence[Progress]) -> None:
    """Summaries, parks and ends. What comes without an entry depends on its release altogether."""
    errors: list[Row] = []
    changes: list[Row] = []
    ended: list[str] = []
    reopened: list[str] = []
    for part in parts:
        row = None if part.effects is None else part.effects.row
        if row is None:
            continue
        alone, release = part.seq < 0, row.release
        if alone and release is None:
            continue
        epoch, seen, wake_at = (None, None, None) if release is None else (release.epoch, release.seen, release.wake_at)
        if row.error is not None or row.reopened:
            errors.append((part.uid, None if row.reopened else row.error or None, epoch if alone else None))
        summary = (row.status and row.status.value, row.waiting_on, row.recovered, row.unfit, row.reopened, row.ended)
        changes.append((part.uid, alone, *summary, epoch, seen, wake_at))
        if row.ended:
            ended.append(part.uid)
        elif row.reopened:
            reopened.append(part.uid)
    if errors:
        await link.run(_runs["set_errors"], worker=worker, **columns("uid error epoch", errors))
    if changes:
        names = "uid alone status waiting_on recovered unfit reopened ended epoch seen next_at"
        if reopened:
            await bring_back(link, reopened)
        changed = await link.fetch(_runs["change_rows"], worker=worker, **columns(names, changes))
        if ended:
            dead = {uid for uid, live in changed if not live}
            await _sweep(link, [uid for uid in ended if uid in dead])


async def _sweep(link: Link, ended: Sequence[str]) -> None:
    if ended and await _has_unowned(link, _runs["sweep_ended"], ended):
        await link.run(_tasks["drop_tasks"], uids=ended)


async def _has_unowned(link: Link, stopping: Statement, uids: Sequence[str]) -> bool:
    """Stop what is to be stopped of these runs; whether tasks are left that nobody has claimed."""
    [(has_unowned,)] = await link.fetch(stopping, uids=uids)
    return bool(has_unowned)
