"""Entries by who does not own the run: `retry`, under the row's lock, and the doors out of an end."""

from __future__ import annotations

import asyncio

import pytest

from outlast.core.states import RunStatus
from outlast.stores.store import Progress, RowChange, Send, Store, Verdict
from outlast.testing.stores.clocks import MakeStore
from outlast.testing.stores.writing import (
    claim,
    commit,
    end,
    entry,
    ids_in_inbox,
    is_due,
    land,
    mark_of,
    marks_of,
    message,
    own,
    park,
    queue,
    row_of,
)

LANDED, STALE, REFUSED = Verdict.LANDED, Verdict.STALE, Verdict.REFUSED
FAILED, QUEUED = RunStatus.FAILED, RunStatus.QUEUED


def retry(uid: str, seq: int, mark: int | None = None) -> Progress:
    """As `run.retry()` writes it."""
    return entry(uid, seq, mark=mark, unowned=FAILED, row=RowChange(status=QUEUED, reopened=True))


async def fail(store: Store, worker: str, uid: str) -> None:
    """A run that has failed, at position 1."""
    await own(store, worker, uid)
    await land(store, worker, entry(uid, 1, row=RowChange(status=FAILED, ended=True, error=b'{"type":"X"}')))


# SPEC R10; PROTOCOL F29
async def test_a_failed_run_is_reopened(store: Store, worker: str) -> None:
    """A retry makes a failed run live, queued and due in one commit, without finish time and error."""
    await fail(store, worker, "r")
    assert (await row_of(store, "r")).error == b'{"type":"X"}'
    await land(store, None, retry("r", 2))
    row = await row_of(store, "r")
    assert (row.status, row.live, row.finished_at, row.error) == (QUEUED, True, None, None)
    assert await is_due(store, "r")
    assert await claim(store, worker) == ["r"]
    assert (await row_of(store, "r")).status is RunStatus.RUNNING


async def test_a_run_that_somebody_owns_is_not_reopened(store: Store, worker: str) -> None:
    """While a run has an owner nobody else writes to its journal."""
    await own(store, worker, "r")
    owned = entry("r", 1, unowned=RunStatus.RUNNING, row=RowChange(status=QUEUED))
    assert await commit(store, None, owned) == [REFUSED]
    assert await marks_of(store, "r") == [mark_of(0)]
    assert (await row_of(store, "r")).status is RunStatus.RUNNING


@pytest.mark.parametrize("status", [RunStatus.COMPLETED, RunStatus.CANCELLED])
async def test_a_run_of_another_status_is_not_reopened(store: Store, worker: str, status: RunStatus) -> None:
    """A retry lands on a run that is still as its writer saw it: failed."""
    await own(store, worker, "r")
    await land(store, worker, end("r", status=status))
    before = await row_of(store, "r")
    assert await commit(store, None, retry("r", 2)) == [REFUSED]
    assert await row_of(store, "r") == before
    assert len(await store.read_journal("r")) == 2


async def test_a_retry_with_a_stale_picture_does_not_land(store: Store, worker: str) -> None:
    """Status alone does not do: the mark before it must be the one its writer read."""
    await fail(store, worker, "r")
    stale = Progress("r", 2, mark=5, prev=6, events=b"[]", effects=retry("r", 2).effects)
    assert await commit(store, None, stale) == [STALE]
    assert (await row_of(store, "r")).status is FAILED


async def test_of_two_retries_at_once_one_lands(store: Store, worker: str, make_store: MakeStore) -> None:
    """Two people who retry a run at once reopen it once."""
    await fail(store, worker, "r")
    elsewhere = await make_store()
    outcomes = await asyncio.gather(
        commit(store, None, retry("r", 2, mark=11)), commit(elsewhere, None, retry("r", 2, mark=12))
    )
    assert sorted(verdict is LANDED for [verdict] in outcomes) == [False, True]
    assert len(await store.read_journal("r")) == 3


async def test_a_repeated_retry_is_recognised(store: Store, worker: str) -> None:
    """The same retry sent again is answered as landed, also when the run is owned or has failed anew since."""
    await fail(store, worker, "r")
    await land(store, None, retry("r", 2))
    assert await commit(store, None, retry("r", 2)) == [LANDED]
    await claim(store, worker)
    assert await commit(store, None, retry("r", 2)) == [LANDED]
    await land(store, worker, end("r", 3, status=FAILED))
    assert await commit(store, None, retry("r", 2)) == [LANDED]
    assert (await row_of(store, "r")).status is FAILED
    assert len(await store.read_journal("r")) == 4


async def test_a_retry_of_a_run_that_is_gone_does_not_land(store: Store) -> None:
    """A retry that crosses a delete finds nothing."""
    [verdict] = await commit(store, None, retry("gone", 2))
    assert verdict in {STALE, REFUSED}
    assert await store.read_journal("gone") == []


# --- the other door: a completed child is told to undo itself ---------------------------------------------------------


# SPEC X5; PROTOCOL F28
async def test_a_completed_run_takes_the_call_to_unwind(store: Store, worker: str) -> None:
    """The message `unwind` makes a completed run live and due; whoever claims it writes the reopening."""
    await own(store, worker, "r")
    await land(store, worker, end("r"))
    assert (await store.send("r", message("u", "unwind"))).verdict == "sent"
    row = await row_of(store, "r")
    assert (row.live, row.status) == (True, RunStatus.COMPLETED)
    assert await is_due(store, "r")
    assert await claim(store, worker) == ["r"]
    reopening = RowChange(status=RunStatus.COMPENSATING, reopened=True)
    await land(store, worker, entry("r", 2, consumed=(1,), row=reopening))
    row = await row_of(store, "r")
    assert (row.status, row.owner, row.finished_at, row.wake_at) == (RunStatus.COMPENSATING, worker, None, None)
    await land(store, worker, end("r", 3, status=RunStatus.COMPENSATED))
    assert not (await row_of(store, "r")).live


async def test_an_unwind_is_sent_in_the_parents_entry(store: Store, worker: str, other: str) -> None:
    """A parent's unwind reaches its completed child as an effect of the parent's entry."""
    await own(store, worker, "p", "c")
    await land(store, worker, end("c"))
    await land(store, worker, entry("p", 1, sends=(Send("c", message("u", "unwind")),)))
    assert await ids_in_inbox(store, "c") == ["u"]
    assert await claim(store, other) == ["c"]


# SPEC R10
async def test_a_failed_run_takes_the_call_to_go_on(store: Store, worker: str) -> None:
    """The message `retry`, which a parent sends with its own, makes a failed run live and due, and no other."""
    await own(store, worker, "r", "done")
    await land(store, worker, end("r", status=FAILED), end("done"))
    assert (await store.send("r", message("u", "retry"))).verdict == "sent"
    assert (await store.send("done", message("u", "retry"))).verdict == "ended"
    row = await row_of(store, "r")
    assert (row.live, row.status) == (True, FAILED)
    assert await claim(store, worker) == ["r"]
    reopening = RowChange(status=RunStatus.RUNNING, reopened=True)
    await land(store, worker, entry("r", 2, consumed=(1,), row=reopening))
    row = await row_of(store, "r")
    assert (row.status, row.owner, row.finished_at) == (RunStatus.RUNNING, worker, None)


# SPEC R10
async def test_a_cancelled_run_is_revived(store: Store, worker: str) -> None:
    """The message `revive` makes a cancelled run live and due, and no other."""
    await own(store, worker, "r", "failed")
    await land(store, worker, end("r", status=RunStatus.CANCELLED), end("failed", status=FAILED))
    assert (await store.send("r", message("u", "revive"))).verdict == "sent"
    assert (await store.send("failed", message("u", "revive"))).verdict == "ended"
    assert (await row_of(store, "r")).live
    assert await claim(store, worker) == ["r"]


@pytest.mark.parametrize("status", [FAILED, RunStatus.CANCELLED, RunStatus.COMPENSATED])
async def test_only_a_completed_run_is_told_to_unwind(store: Store, worker: str, status: RunStatus) -> None:
    """Other ends absorb: there is nothing to undo."""
    await own(store, worker, "r")
    await land(store, worker, end("r", status=status))
    assert (await store.send("r", message("u", "unwind"))).verdict == "ended"
    assert not (await row_of(store, "r")).live


async def test_a_client_does_not_write_to_runs_that_are_owned_by_others(store: Store, worker: str) -> None:
    """A client owns nothing: it starts runs, and writes where nobody owns. All else is a mistake of the caller."""
    await queue(store, "r")
    with pytest.raises(ValueError, match="client"):
        await store.commit(None, [entry("r", 1)])
    with pytest.raises(ValueError, match="client"):
        await store.commit(None, [park("r")])
    assert len(await store.read_journal("r")) == 1
