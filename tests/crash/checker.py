"""Decides the invariants (DESIGN §6) of a store in which processes died, from all that is left.

What journals and rows say is judged by the checker that users have (`outlast doctor --verify`); with the registry of
the code every run is replayed as well, and with a ledger of what steps did in the world that is compared. What it finds
is a list, empty when all is well.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from outlast.authoring.module import Module
from outlast.core.events import RunStarted, StepStarted, StepSucceeded
from outlast.core.keys import invocation_id
from outlast.core.states import RunStatus
from outlast.core.verifying import Broken, Rule, answers, flatten, shape, steps
from outlast.engine.verifying import Journal, Problem, read_journal, verify_store
from outlast.engine.verifying import rows as beside
from outlast.engine.verifying.picture import Picture
from outlast.payloads import Payloads
from outlast.stores.store import RunQuery, RunRow, Store, WaitRow
from tests.crash.families import check_rounds
from tests.crash.ledger import Mark
from tests.crash.replays import check_replay

__all__ = [
    "Journal",
    "Problem",
    "check_answers",
    "check_is_kept",
    "check_row",
    "check_shape",
    "check_steps",
    "check_store",
    "check_timers",
    "check_waits",
    "read_journals",
]


async def check_store(
    store: Store,
    *,
    registry: Module | None = None,
    marks: Sequence[Mark] = (),
    are_parked: bool = False,
    payloads: Payloads | None = None,
) -> list[Problem]:
    """All of it. A run that somebody owns is judged by its journal alone: its row is behind, as it may be.

    `are_parked`: those that nobody owns were parked by their owners, none taken from the dead, so their rows say what
    they wait for. With `payloads` a replay is of what was sealed by them."""
    journals: dict[str, Journal] = {}

    def judge(journal: Journal) -> Iterator[Broken]:
        started = journal[0][1][0]
        assert isinstance(started, RunStarted)
        journals[started.uid] = journal
        if registry is not None:
            if payloads is not None:
                journal = [(entry, payloads.decode_events(started.uid, entry.events)) for entry, _ in journal]
            yield from (Broken(Rule.JOURNAL, text) for text in check_replay(journal, registry))

    verifying = verify_store(store, are_parked=are_parked, are_all_kept=True, judge=judge)
    problems = [problem async for problem in verifying]
    return [*problems, *check_effects(journals, marks), *check_rounds(journals)]


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
            events = flatten(journal)
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
    rows: list[RunRow] = []
    while page := await store.list_runs(
        RunQuery(limit=500, after=(rows[-1].created_at, rows[-1].uid) if rows else None)
    ):
        rows += page
    return rows, {row.uid: await read_journal(store, row.uid) for row in rows}


# --- one thing at a time, for the simulation, which looks after every commit ------------------------------------------


def check_shape(journal: Journal) -> list[str]:
    """Entries without a gap, in time, from a start to at most one end."""
    return [broken.text for broken in shape.check_shape(journal)]


def check_steps(journal: Journal) -> list[str]:
    """A success is recorded once; an attempt's number is used once; attempts stay within their budget."""
    return [broken.text for broken in steps.check_steps(flatten(journal))]


def check_timers(journal: Journal) -> list[str]:
    """A timer fires once, and not before it is due (SPEC L11)."""
    return [broken.text for broken in steps.check_timers(flatten(journal))]


def check_answers(journal: Journal) -> list[str]:
    """A message is an event once; a signal is taken once, a decision judged once, an approval accepted once."""
    return [broken.text for broken in answers.check_answers(flatten(journal))]


def check_row(row: RunRow, journal: Journal, *, are_parked: bool) -> list[str]:
    """The row of a run that nobody moves says what its journal says."""
    return [broken.text for broken in beside.check_row(Picture(row, journal, 0), are_parked=are_parked)]


def check_waits(row: RunRow, journal: Journal, waits: Sequence[WaitRow]) -> list[str]:
    """The rows of waits are those that the journal has open."""
    return [broken.text for broken in beside.check_waits(Picture(row, journal, 0, waits=list(waits)))]


def check_is_kept(row: RunRow, workers: set[str], kept_by: Sequence[object]) -> Iterator[str]:
    """A run that has not ended is owned by somebody, or due, or has a queued step, an open wait or a child, or is
    suspended with its reason."""
    if not row.live:
        return
    if row.owner is not None:
        if row.owner not in workers:
            yield f"its owner {row.owner} is not there"
        if row.wake_at is not None:
            yield "it is owned, and due as well"
    elif row.wake_at is None and row.status is not RunStatus.SUSPENDED and not kept_by:
        yield "nobody owns it and nothing will wake it"
