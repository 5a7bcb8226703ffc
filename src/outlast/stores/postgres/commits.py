"""The one way a run moves. Layer: stores (postgres).

Most commits are one statement, which is a transaction by itself: a step's life (entries without effects), starts, and
ends of which nothing but the end is to be written.
Others are a transaction that takes the batch at its word: each statement is for the whole batch, and when one of them
does less than it should, all is undone. Only then is the batch judged part by part, and what may land does so by the
same functions; when somebody else was quicker once more, it is judged anew. What always holds: the order of locks is
workers, runs, journal, what is new, the rest (PROTOCOL 1), and a repeat of what landed changes nothing.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import msgspec

from outlast.errors import Fenced, StoreBusy, StoreRefused
from outlast.stores.judging import Facts, Judge
from outlast.stores.postgres.effects import Runs, apply, start_runs
from outlast.stores.postgres.errors import breaks_constraint
from outlast.stores.postgres.mail import follow
from outlast.stores.postgres.statements import columns, load_statements
from outlast.stores.store import LANDED, STAYING, Effects, Progress, Release, RowChange

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from outlast.stores.postgres.link import Link
    from outlast.stores.store import Outcome, Send

__all__ = ["commit", "is_news", "write_nothing"]

_sql = load_statements("journal")
_starts = load_statements("starts")
_runs = load_statements("runs")

_ROUNDS = 20
"""How often a batch is judged anew before it is given up: each time another writer landed something meanwhile."""


class _Otherwise(Exception):
    """Not all of it can land as it is: undo it."""


async def commit(link: Link, worker: str | None, batch: Sequence[Progress]) -> list[Outcome]:
    """The store's `commit`."""
    if not batch:
        return []
    if await _land_quickly(link, worker, batch):
        return [LANDED] * len(batch)
    for _ in range(_ROUNDS):
        try:
            async with link.transaction():
                return await _judge_and_land(link, worker, batch)
        except _Otherwise:
            continue
    raise StoreBusy(link.settings.url, f"others were quicker {_ROUNDS} times, at the same runs")


async def write_nothing(link: Link) -> None:
    """All that a step's life and a park need, of a worker that is not there: nothing lands, all is prepared."""
    nothing = Progress("", 1)
    await _insert_entry(link, "", nothing)
    await _insert_entries(link, "", [nothing])
    await _end_runs(link, "", [nothing])
    async with link.transaction():
        await link.fetch(_runs["lock_for_worker"], worker="", uids=[])
        await apply(link, "", Runs(()), [Progress("", -1, effects=Effects(row=RowChange(release=Release(0, 0))))])


def is_news(progress: Progress) -> bool:
    """Whether it may make work for somebody, or end a wait: others are to be told."""
    effects = progress.effects
    if effects is None:
        return False
    is_own_start = effects.start is not None and effects.start.claimed
    return not is_own_start or bool(effects.sends or effects.children or effects.tasks or effects.row)


async def _land_quickly(link: Link, worker: str | None, batch: Sequence[Progress]) -> bool:
    """Take the batch at its word. False: not all of it has landed; of one statement, maybe a part."""
    try:
        if worker is not None and len(batch) == 1 and batch[0].effects is None:
            return await _insert_entry(link, worker, batch[0]) == 1
        if worker is not None and all(progress.effects is None for progress in batch):
            return await _insert_entries(link, worker, batch) == len(batch)
        if worker is not None and all(progress.effects is None or _is_plain_end(progress) for progress in batch):
            return await _end_runs(link, worker, batch) == len(batch)
        if all(_is_plain_start(progress) for progress in batch):
            return await start_runs(link, worker, batch) == len(batch)
        async with link.transaction():
            await _land(link, worker, await _lock(link, worker, batch), batch, set())
    except _Otherwise:
        return False
    except StoreRefused as error:
        if not breaks_constraint(error):
            raise
        return False
    return True


def _is_plain_start(progress: Progress) -> bool:
    """Nothing but a start, of a run whose id is free."""
    effects = progress.effects
    if effects is None or effects.start is None or effects.start.replaces is not None:
        return False
    return not (
        effects.consumed
        or effects.sends
        or effects.children
        or effects.tasks
        or effects.stop_tasks
        or effects.stopped
        or effects.waits_opened
        or effects.waits_closed
        or effects.row is not None
    )


def _is_plain_end(progress: Progress) -> bool:
    """An entry of its owner's that ends its run, and does nothing else."""
    effects = progress.effects
    if effects is None or effects.row is None or progress.seq < 0:
        return False
    row = effects.row
    is_plain = row.ended and row.status is not None and row.error is None and row.unfit is None and not row.reopened
    return is_plain and effects == Effects(row=row)


async def _insert_entry(link: Link, worker: str, entry: Progress) -> int:
    return await link.run(
        _sql["insert_entry"],
        worker=worker,
        uid=entry.uid,
        seq=entry.seq,
        at=entry.at,
        mark=entry.mark,
        prev=entry.prev,
        events=entry.events,
    )


async def _insert_entries(link: Link, worker: str | None, entries: Sequence[Progress]) -> int:
    """How many of them are there now, that were not."""
    return await link.run(
        _sql["insert_entries"],
        worker=worker,
        uid=[each.uid for each in entries],
        seq=[each.seq for each in entries],
        at=[each.at for each in entries],
        mark=[each.mark for each in entries],
        prev=[each.prev for each in entries],
        events=[each.events for each in entries],
    )


async def _end_runs(link: Link, worker: str, batch: Sequence[Progress]) -> int:
    """How many of these entries are there now, with what an end does for those that are one."""
    rows = []
    for each in batch:
        row = None if each.effects is None else each.effects.row
        end = (None, None, False) if row is None else (row.status, row.waiting_on, row.recovered)
        rows.append((each.uid, each.seq, each.at, each.mark, each.prev, each.events, *end))
    names = "uid seq at mark prev events status waiting_on recovered"
    [(landed,)] = await link.fetch(_runs["end_runs"], worker=worker, **columns(names, rows))
    return int(landed)


async def _lock(link: Link, worker: str | None, batch: Sequence[Progress]) -> Runs:
    """The fence, and all rows of runs that are there and may be changed, in one order. Raises `Fenced`."""
    uids = sorted({uid for progress in batch for uid in _iter_touched(progress)})
    if worker is None:
        return Runs(await link.fetch(_runs["lock"], uids=uids))
    rows = await link.fetch(_runs["lock_for_worker"], worker=worker, uids=uids)
    if not rows:
        raise Fenced(worker)
    return Runs([row for row in rows if row[0] is not None])


def _iter_touched(progress: Progress) -> Iterator[str]:
    """Runs whose row it changes, or depends on."""
    effects = progress.effects
    if effects is None:
        return
    if effects.row is not None or effects.unowned is not None:
        yield progress.uid
    if effects.start is not None:
        new = effects.start
        yield from (uid for uid in (new.replaces, new.continues and new.origin) if uid)
    for send in effects.sends:
        yield send.to
    for child in effects.children:
        yield from _iter_touched(child)


async def _judge_and_land(link: Link, worker: str | None, batch: Sequence[Progress]) -> list[Outcome]:
    """Land what may, and say of the rest why it may not. Raises `_Otherwise` when that is true no longer."""
    batch = await _follow(link, batch)
    runs = await _lock(link, worker, batch)
    judge = Judge(await _read_facts(link, batch))
    known = set(judge.known)
    outcomes = [judge.judge(progress) for progress in batch]
    winners = [progress for progress, outcome in zip(batch, outcomes, strict=True) if outcome is None]
    if winners:
        try:
            await _land(link, worker, runs, winners, known)
        except StoreRefused as error:
            if not breaks_constraint(error):
                raise
            raise _Otherwise from error
    return [LANDED if outcome is None else outcome for outcome in outcomes]


async def _follow(link: Link, batch: Sequence[Progress]) -> Sequence[Progress]:
    """What they send to runs that went on is for their last rounds. One look for all of them."""
    sends = [send for progress in batch if progress.effects is not None for send in progress.effects.sends]
    if not sends:
        return batch
    onward = iter(await follow(link, sends))
    return [_redirect(progress, onward) for progress in batch]


def _redirect(progress: Progress, onward: Iterator[Send]) -> Progress:
    effects = progress.effects
    if effects is None or not effects.sends:
        return progress
    sends = tuple(itertools.islice(onward, len(effects.sends)))
    return msgspec.structs.replace(progress, effects=msgspec.structs.replace(effects, sends=sends))


async def _read_facts(link: Link, batch: Sequence[Progress]) -> Facts:
    """All that can matter."""
    facts = Facts(batch)
    marks = await link.fetch(_sql["fetch_marks"], **columns("uid seq", [*facts.positions])) if facts.positions else []
    states = await link.fetch(_runs["fetch_states"], uids=[*facts.uids])
    holders = await link.fetch(_starts["fetch_holders"], id=[*facts.ids]) if facts.ids else []
    facts.fill(
        ((uid, seq, mark) for uid, seq, mark in marks),
        ((uid, owner, status) for uid, owner, status in states),
        ((name, uid, live) for name, uid, live in holders),
    )
    return facts


async def _land(link: Link, worker: str | None, runs: Runs, batch: Sequence[Progress], known: set[str]) -> None:
    """The entries and all their effects. Raises `_Otherwise` when not all could land: undo it.

    `known` are the uids whose start is skipped, when it is a child's."""
    for progress in batch:
        if progress.effects is not None and progress.effects.unowned is not None:
            run = runs.find(progress.uid)
            if run is None or run.owner is not None or run.status != progress.effects.unowned:
                raise _Otherwise
        sends = () if progress.effects is None else progress.effects.sends
        if any(send.to in runs.last and send.message.kind not in STAYING for send in sends):
            raise _Otherwise  # the row of another run is to be locked
    parts = [*_flatten(batch, known)]
    starts = [part for part in parts if part.effects is not None and part.effects.start is not None]
    entries = [part for part in parts if part.seq >= 0 and (part.effects is None or part.effects.start is None)]
    if entries and await _insert_entries(link, worker, entries) != len(entries):
        raise _Otherwise
    if starts and await start_runs(link, worker, starts) != len(starts):
        raise _Otherwise
    for part in starts:
        runs.add(part)
    await apply(link, worker, runs, [part for part in parts if part.effects is not None])


def _flatten(batch: Sequence[Progress], known: set[str], *, are_children: bool = False) -> Iterator[Progress]:
    """All parts, and behind each its children that are not known yet; with what is below them."""
    for progress in batch:
        if are_children and progress.uid in known:
            continue
        known.add(progress.uid)
        yield progress
        if progress.effects is not None and progress.effects.children:
            yield from _flatten(progress.effects.children, known, are_children=True)
