"""Reads every journal of a store and decides the invariants (DESIGN §6), one function each.

It asks the store alone, so it judges any backend; with the registry of the code it replays every run as well, and with
a ledger of what steps did in the world it compares that. What it finds is a list, empty when all is well.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from outlast.authoring.module import Module
from outlast.core.events import (
    OUTCOMES,
    AttemptStarted,
    DecisionJudged,
    DecisionMade,
    GateOpened,
    RunReopened,
    RunStarted,
    SignalReceived,
    SignalTaken,
    StepFailed,
    StepSettled,
    StepStarted,
    StepSucceeded,
    TimerFired,
    decode_events,
)
from outlast.core.fold import fold
from outlast.core.keys import invocation_id
from outlast.core.states import RunStatus, is_ended
from outlast.core.waits.events import Judgement
from outlast.stores.store import RunQuery, RunRow, Store, WaitQuery, WaitRow
from tests.crash.families import Journal, Problem, check_children, check_rounds, check_unwind, flat
from tests.crash.ledger import Mark
from tests.crash.replays import check_replay

__all__ = ["Journal", "Problem", "check_store", "read_journals"]


async def check_store(
    store: Store, *, registry: Module | None = None, marks: Sequence[Mark] = (), are_parked: bool = False
) -> list[Problem]:
    """All of it. A run that somebody owns is judged by its journal alone: its row is behind, as it may be.

    `are_parked`: those that nobody owns were parked by their owners, none taken from the dead, so their rows say what
    they wait for."""
    problems: list[Problem] = []
    rows, journals = await read_journals(store)
    workers = {worker.id for worker in await store.list_workers()}
    waits = await store.list_waits(WaitQuery(limit=100_000))
    for row in rows:
        journal = journals[row.uid]
        found = [*check_shape(journal), *check_steps(journal), *check_timers(journal), *check_answers(journal)]
        open_waits = [wait for wait in waits if wait.run == row.uid]
        found += [
            *check_row(row, journal, are_parked=are_parked),
            *check_waits(row, journal, open_waits),
            *check_is_kept(row, workers, [*await store.list_tasks(row.uid), *open_waits]),
        ]
        if registry is not None and not found:
            found += check_replay(journal, registry)
        problems += [Problem(row.uid, text) for text in found]
    problems += check_marks(journals)
    problems += check_effects(journals, marks)
    problems += check_children(journals)
    problems += check_rounds(journals)
    problems += [Problem(uid, text) for uid, journal in journals.items() for text in check_unwind(flat(journal))]
    return problems


# --- invariants 1 and 7: one line of entries, and nothing behind an end -----------------------------------------------


def check_shape(journal: Journal) -> Iterator[str]:
    """Entries without a gap, in time, from a start to at most one end."""
    if not journal:
        yield "it has no journal"
        return
    if [entry.seq for entry, _ in journal] != list(range(len(journal))):
        yield f"its entries are {[entry.seq for entry, _ in journal]}"
    times = [entry.at for entry, _ in journal]
    if times != sorted(times):
        yield "its entries go back in time"
    events = flat(journal)
    if not isinstance(events[0], RunStarted) or any(isinstance(event, RunStarted) for event in events[1:]):
        yield "it does not start once, at its beginning"
    for event, after in itertools.pairwise(events):
        if type(event) in OUTCOMES and not isinstance(after, RunReopened):
            yield f"{type(after).__name__} comes behind its end"


def check_marks(journals: Mapping[str, Journal]) -> Iterator[Problem]:
    """No two entries of a store bear the same mark."""
    counts = Counter(entry.mark for journal in journals.values() for entry, _ in journal)
    for uid, journal in journals.items():
        for entry, _ in journal:
            if counts[entry.mark] > 1 or not entry.mark:
                yield Problem(uid, f"entry {entry.seq} has a mark that is not its own")


# --- invariants 4 and 5: steps ----------------------------------------------------------------------------------------


def check_steps(journal: Journal) -> Iterator[str]:
    """A success is recorded once; an attempt's number is used once; attempts stay within their budget."""
    successes: Counter[str] = Counter()
    outcomes: Counter[tuple[str, int]] = Counter()
    numbers: dict[str, int] = {}
    used: Counter[str] = Counter()
    retries: dict[str, int] = {}
    for event in flat(journal):
        match event:
            case RunReopened():
                used.clear()
            case StepStarted() | AttemptStarted():
                if isinstance(event, StepStarted):
                    retries[event.key] = event.retries
                    if event.attempt <= numbers.get(event.key, 0):
                        continue  # no attempt: it waits for a place
                if event.attempt != numbers.get(event.key, 0) + 1:
                    yield f"attempt {event.attempt} of step {event.key} follows {numbers.get(event.key, 0)}"
                numbers[event.key] = event.attempt
                used[event.key] += 1
                if used[event.key] > retries.get(event.key, 0) + 1:
                    yield f"step {event.key} has attempt {used[event.key]}, of {retries[event.key] + 1}"
            case StepSucceeded() | StepFailed() | StepSettled():
                successes[event.key] += isinstance(event, StepSucceeded)
                outcomes[event.key, event.attempt] += 1
                if event.attempt > numbers.get(event.key, 0):
                    yield f"attempt {event.attempt} of step {event.key} has an outcome and no beginning"
    yield from (f"step {key} succeeded {count} times" for key, count in successes.items() if count > 1)
    for (key, attempt), count in outcomes.items():
        if count > 1:
            yield f"attempt {attempt} of step {key} has {count} outcomes"


def check_timers(journal: Journal) -> Iterator[str]:
    """A timer fires once, and not before it is due (SPEC L11)."""
    fired: set[int] = set()
    for event in flat(journal):
        if isinstance(event, RunReopened):
            fired.clear()  # what lay behind the cut is armed anew
        elif isinstance(event, TimerFired):
            if event.timer in fired:
                yield f"timer {event.timer} fired twice"
            if event.at < event.due:
                yield f"timer {event.timer} fired {event.due - event.at} µs early"
            fired.add(event.timer)


# --- invariants 2 and 3: rows -----------------------------------------------------------------------------------------


def check_row(row: RunRow, journal: Journal, *, are_parked: bool) -> Iterator[str]:
    """The row of a run that nobody moves says what its journal says."""
    view = fold(journal)
    if row.live == is_ended(row.status):
        yield f"its row is {row.status}, and live is {row.live}"
    if row.owner is not None and row.live:
        return
    status = view.status
    if status is RunStatus.QUEUED and row.status is RunStatus.RUNNING:
        status = RunStatus.RUNNING  # a claim alone writes no entry
    if status is not row.status:
        yield f"its row is {row.status}, its journal says {view.status}"
    is_shown = view.status is not RunStatus.QUEUED  # that journal does not show yet that anybody had it
    if (are_parked or row.status is RunStatus.SUSPENDED) and is_shown and row.waiting_on != view.waiting_on:
        yield f"its row waits on {row.waiting_on!r}, its journal says {view.waiting_on!r}"
    if not row.live and (row.waiting_on or row.wake_at is not None or row.owner is not None):
        yield f"it has ended, and its row has {row.waiting_on=} {row.wake_at=} {row.owner=}"


def check_waits(row: RunRow, journal: Journal, waits: Sequence[WaitRow]) -> Iterator[str]:
    """The rows of waits are those that the journal has open, whoever owns the run."""
    shown = {wait.wait.key: (wait.wait.kind, wait.wait.opened_at, wait.wait.deadline) for wait in waits}
    told = {key: (wait.kind, wait.opened_at, wait.deadline) for key, wait in fold(journal).waits.items()}
    if shown != told:
        yield f"its rows of waits are {shown}, its journal says {told}"


def check_answers(journal: Journal) -> Iterator[str]:
    """A message is an event once; a signal is taken once, a decision judged once, an approval accepted once. A retry
    begins anew with what it drops."""
    messages: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    for event in flat(journal):
        if isinstance(event, RunReopened):
            taken.clear()
            accepted.clear()
        elif isinstance(event, SignalReceived | DecisionMade | GateOpened):
            messages[event.message] += 1
        elif isinstance(event, SignalTaken | DecisionJudged):
            taken[event.message] += 1
            if isinstance(event, DecisionJudged) and event.verdict is Judgement.ACCEPTED:
                accepted[event.key] += 1
    for what, counts in (("recorded", messages), ("answered", taken), ("accepted", accepted)):
        yield from (f"{name} is {what} {count} times" for name, count in counts.items() if count > 1)


def check_is_kept(row: RunRow, workers: set[str], kept_by: Sequence[object]) -> Iterator[str]:
    """A run that has not ended is owned by somebody, or due, or has a queued step or an open wait, or is suspended with
    its reason."""
    if not row.live:
        return
    if row.owner is not None:
        if row.owner not in workers:
            yield f"its owner {row.owner} is not there"
        if row.wake_at is not None:
            yield "it is owned, and due as well"
    elif row.wake_at is None and row.status is not RunStatus.SUSPENDED and not kept_by:
        yield "nobody owns it and nothing will wake it"


# --- the world --------------------------------------------------------------------------------------------------------


def check_effects(journals: Mapping[str, Journal], marks: Sequence[Mark]) -> Iterator[Problem]:
    """Every effect had its attempt on record before it, under the step's one invocation id; every success had one."""
    done = {(mark.uid, mark.key, mark.attempt) for mark in marks if mark.what == "after"}
    begun: Counter[tuple[str, str, int]] = Counter()
    for mark in marks:
        if mark.what == "before":
            begun[mark.uid, mark.key, mark.attempt] += 1
            if mark.recorded is False:
                yield Problem(mark.uid, f"attempt {mark.attempt} of {mark.key} had its effect before it was on record")
        if mark.invocation != invocation_id(mark.uid, mark.key):
            yield Problem(mark.uid, f"step {mark.key} called itself {mark.invocation}")
    for (uid, key, attempt), count in begun.items():
        if count > 1:
            yield Problem(uid, f"attempt {attempt} of step {key} ran {count} times")
    if marks:
        for uid, journal in journals.items():
            events = flat(journal)
            runs = {event.key for event in events if isinstance(event, StepStarted) and event.is_elsewhere}
            for event in events:
                if (
                    isinstance(event, StepSucceeded)
                    and event.key not in runs
                    and (uid, event.key, event.attempt) not in done
                ):
                    yield Problem(uid, f"step {event.key} succeeded at attempt {event.attempt}, without an effect")
    yield from _check_overlaps(marks)


def _check_overlaps(marks: Sequence[Mark]) -> Iterator[Problem]:
    """One process never runs two attempts of a step at once, but for a thread that it gave up."""
    open_attempts: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for mark in marks:
        if mark.threaded:
            continue
        here = open_attempts[mark.uid, mark.key, mark.pid]
        if mark.what == "before":
            if here:
                yield Problem(mark.uid, f"attempts {sorted(here)} and {mark.attempt} of step {mark.key} ran at once")
            here.add(mark.attempt)
        else:
            here.discard(mark.attempt)


# --- reading ----------------------------------------------------------------------------------------------------------


async def read_journals(store: Store) -> tuple[list[RunRow], dict[str, Journal]]:
    """Every run, and the journals by uid."""
    rows = await _list_rows(store)
    return rows, {row.uid: await _read(store, row.uid) for row in rows}


async def _list_rows(store: Store) -> list[RunRow]:
    rows: list[RunRow] = []
    while True:
        after = (rows[-1].created_at, rows[-1].uid) if rows else None
        page = await store.list_runs(RunQuery(limit=500, after=after))
        rows += page
        if len(page) < 500:
            return rows


async def _read(store: Store, uid: str) -> Journal:
    journal: Journal = []
    while True:
        page = await store.read_journal(uid, after=len(journal) - 1, limit=1000)
        journal += [(entry, decode_events(entry.events)) for entry in page]
        if len(page) < 1000:
            return journal
