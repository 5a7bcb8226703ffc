"""Deletion: of runs that have ended, with all that is their own, and of nothing else (R9, F32)."""

from __future__ import annotations

import pytest

from outlast.core.states import RunStatus
from outlast.stores.progress import Progress
from outlast.stores.store import RunQuery, Store
from outlast.testing.stores.clocks import Clock
from outlast.testing.stores.writing import (
    claim,
    end,
    entry,
    inbox_of,
    land,
    message,
    own,
    park,
    queue,
    row_of,
    start,
    task,
    wait,
)

ENDED = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.CANCELLED)


async def test_a_deleted_run_leaves_nothing(store: Store, worker: str) -> None:
    """Its row, journal, inbox, tasks and waits are gone, and its id is free."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, tasks=(task(),), waits_opened=(wait(),)))
    await land(store, worker, end("r", 2))
    assert await store.delete_run("r") is True
    assert await store.find_uid("r") is None
    assert await store.find_run("id of r") is None
    assert await store.read_journal("r") == []
    assert await inbox_of(store, "r") == []
    assert await store.list_runs(RunQuery()) == []
    assert (await store.send("r", message())).verdict == "missing"
    await queue(store, "t", id="id of r")


async def test_deleting_twice_is_deleting_once(store: Store, worker: str) -> None:
    """A run that is not there is as good as deleted."""
    await own(store, worker, "r")
    await land(store, worker, end("r"))
    assert await store.delete_run("r") is True
    assert await store.delete_run("r") is True
    assert await store.delete_run("never") is True


# SPEC R9
async def test_a_run_that_has_not_ended_is_not_deleted(store: Store, worker: str) -> None:
    """Queued, running, parked, suspended: it stays as it is."""
    await queue(store, "queued")
    await own(store, worker, "running", "parked", "suspended")
    await land(store, worker, park("parked"), park("suspended", status=RunStatus.SUSPENDED))
    for uid in ("queued", "running", "parked", "suspended"):
        before = await row_of(store, uid)
        assert await store.delete_run(uid) is False
        assert await row_of(store, uid) == before
        assert len(await store.read_journal(uid)) == 1


async def test_a_run_that_is_being_undone_is_not_deleted(store: Store, worker: str) -> None:
    """A completed run that was told to unwind lives again."""
    await own(store, worker, "r")
    await land(store, worker, end("r"))
    await store.send("r", message("u", "unwind"))
    assert await store.delete_run("r") is False
    await claim(store, worker)
    assert await store.delete_run("r") is False
    assert await store.prune(ENDED, 2**62) == 0


# SPEC X5
async def test_a_child_goes_after_its_root(store: Store, worker: str) -> None:
    """While the run at the root lives, its unwind may need the journals of all below it."""
    await own(store, worker, "root")
    await land(store, worker, entry("root", 1, children=(start("child", parent="root", root="root", claimed=True),)))
    grandchild = start("grandchild", parent="child", root="root", claimed=True)
    await land(store, worker, entry("child", 1, children=(grandchild,)))
    await land(store, worker, end("child", 2), end("grandchild"))
    for uid in ("child", "grandchild"):
        assert await store.delete_run(uid) is False
    assert await store.prune(ENDED, 2**62) == 0
    await land(store, worker, end("root", 2))
    assert await store.delete_run("grandchild") is True
    assert await store.delete_run("root") is True
    assert await store.delete_run("child") is True


async def test_a_deleted_restart_leaves_the_run_before_it(store: Store, worker: str) -> None:
    """Each incarnation is deleted by its own uid; the id becomes free with its holder."""
    await own(store, worker, "r")
    await land(store, worker, end("r"))
    await land(store, worker, start("s", id="id of r", replaces="r", claimed=True))
    assert await store.delete_run("r") is True
    found = await store.find_run("id of r")
    assert found is not None
    assert found.uid == "s"
    await land(store, worker, end("s"))
    assert await store.delete_run("s") is True
    assert await store.find_run("id of r") is None


# --- retention --------------------------------------------------------------------------------------------------------


async def finish(store: Store, worker: str, uid: str, status: RunStatus = RunStatus.COMPLETED) -> int:
    await own(store, worker, uid)
    await land(store, worker, end(uid, status=status))
    finished_at = (await row_of(store, uid)).finished_at
    assert finished_at is not None
    return finished_at


async def test_prune_takes_what_is_old_enough(store: Store, worker: str, clock: Clock) -> None:
    """Runs that finished before the instant go; those at it and after it stay."""
    instants = {}
    for uid in "abc":
        instants[uid] = await finish(store, worker, uid)
        await clock.advance(store, 1000)
    assert await store.prune(ENDED, instants["b"]) == 1
    assert sorted(row.uid for row in await store.list_runs(RunQuery())) == ["b", "c"]
    assert await store.read_journal("a") == []


async def test_prune_takes_the_statuses_it_is_told(store: Store, worker: str) -> None:
    """Others stay, and so does what has not ended, whatever the statuses say."""
    await finish(store, worker, "a")
    await finish(store, worker, "b", RunStatus.FAILED)
    await own(store, worker, "c")
    assert await store.prune([RunStatus.COMPLETED, RunStatus.RUNNING], 2**62) == 1
    assert sorted(row.uid for row in await store.list_runs(RunQuery())) == ["b", "c"]
    assert await store.prune([], 2**62) == 0


# SPEC R9
async def test_prune_goes_by_bounded_batches(store: Store, worker: str) -> None:
    """One call deletes no more than its limit; calling until 0 deletes all."""
    for n in range(7):
        await finish(store, worker, f"r{n}")
    batches = []
    while count := await store.prune(ENDED, 2**62, limit=3):
        batches.append(count)
    assert batches == [3, 3, 1]
    assert await store.list_runs(RunQuery()) == []


@pytest.mark.parametrize("late", [entry("r", 2), park("r"), end("r", 2)], ids=["entry", "park", "end"])
async def test_nothing_brings_a_deleted_run_back(store: Store, worker: str, late: Progress) -> None:
    """What arrives for a run that was deleted finds no run, and makes none."""
    await finish(store, worker, "r")
    await store.delete_run("r")
    await store.commit(worker, [late])
    assert await store.find_uid("r") is None
    assert await store.read_journal("r") == []
    assert await inbox_of(store, "r") == []
