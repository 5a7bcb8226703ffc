"""The end of a run: it sweeps what is left of it, and nobody who was told "sent" waits for ever."""

from __future__ import annotations

import asyncio

import pytest

from outlast.core.states import RunStatus
from outlast.stores.store import RowChange, Send, Store, TaskOutcome, Verdict
from outlast.testing.stores.clocks import MakeStore
from outlast.testing.stores.writing import (
    HOUR,
    claim,
    claiming,
    commit,
    complete,
    end,
    entry,
    ids_in_inbox,
    inbox_of,
    land,
    message,
    own,
    row_of,
    send_to,
    task,
    wait,
)


@pytest.mark.parametrize(
    "status",
    [
        RunStatus.COMPLETED,
        RunStatus.FAILED,
        RunStatus.CANCELLED,
        RunStatus.COMPENSATED,
        RunStatus.COMPENSATION_FAILED,
    ],
)
async def test_an_end_releases_the_run_for_good(store: Store, worker: str, other: str, status: RunStatus) -> None:
    """An ended run has no owner, is not due, and is never claimed again."""
    await own(store, worker, "r")
    before = await store.now()
    await land(store, worker, end("r", status=status))
    row = await row_of(store, "r")
    assert (row.status, row.live, row.owner, row.wake_at) == (status, False, None, None)
    assert row.finished_at is not None
    assert before <= row.finished_at <= await store.now()
    assert await store.list_owned(worker) == []
    assert await claim(store, other) == []


async def test_an_end_keeps_its_error(store: Store, worker: str) -> None:
    """The summary of the error is on the row, until it is cleared."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, row=RowChange(error=b'{"type":"X"}')))
    assert (await row_of(store, "r")).error == b'{"type":"X"}'
    await land(store, worker, entry("r", 2, row=RowChange(status=RunStatus.SUSPENDED)))
    assert (await row_of(store, "r")).error == b'{"type":"X"}'
    await land(store, worker, entry("r", 3, row=RowChange(error=b"")))
    assert (await row_of(store, "r")).error is None


# PROTOCOL F20
async def test_an_end_leaves_no_message(store: Store, worker: str) -> None:
    """Messages that came before a good end and were not read go with it; who sends later is told."""
    await own(store, worker, "r")
    await store.send("r", message("m1"))
    await store.send("r", message("m2"))
    await land(store, worker, end("r", consumed=(1,)))
    assert await inbox_of(store, "r") == []
    assert (await store.send("r", message("m3"))).verdict == "ended"
    assert (await store.send("r", message("m2"))).verdict == "ended"


async def test_senders_that_cross_the_end_are_answered_truly(store: Store, worker: str, make_store: MakeStore) -> None:
    """Whoever races the end is told "sent" and was swept with it, or "ended": no message stays behind."""
    elsewhere = await make_store()
    for round in range(5):
        uid = f"r{round}"
        await own(store, worker, uid)
        crossing = [elsewhere.send(uid, message(f"m{n}")) for n in range(10)]
        first, _, last = await asyncio.gather(
            asyncio.gather(*crossing[:5]), land(store, worker, end(uid)), asyncio.gather(*crossing[5:])
        )
        answers = [*first, *last]
        assert {answer.verdict for answer in answers} <= {"sent", "ended"}
        assert await inbox_of(store, uid) == []
        row = await row_of(store, uid)
        assert (row.live, row.owner, row.wake_at) == (False, None, None)
        assert row.mail == sum(answer.verdict == "sent" for answer in answers)


# SPEC C2
async def test_the_last_entry_tells_the_parent(store: Store, worker: str) -> None:
    """A child's outcome is in its parent's inbox in the commit that ends the child."""
    await own(store, worker, "p", "c")
    await land(store, worker, end("c", sends=(Send("p", message("c#1", "child", b'{"ok":1}')),)))
    [found] = await inbox_of(store, "p")
    assert (found.id, found.kind, found.payload) == ("c#1", "child", b'{"ok":1}')


@pytest.mark.parametrize("uids", [("a", "b"), ("b", "a")], ids=["sent first", "ended first"])
async def test_a_run_that_ends_is_sent_to_in_the_same_batch(store: Store, worker: str, uids: tuple[str, str]) -> None:
    """A message to a run that ends in the same commit goes with it, in whatever order the batch has them."""
    await own(store, worker, "a", "b")
    moves = {"a": entry("a", 1, sends=(send_to("b"),)), "b": end("b")}
    await land(store, worker, *(moves[uid] for uid in uids))
    assert await inbox_of(store, "b") == []
    row = await row_of(store, "b")
    assert (row.live, row.owner, row.wake_at) == (False, None, None)


async def test_a_run_that_sends_to_itself_and_ends_leaves_no_message(store: Store, worker: str) -> None:
    """The end comes last of what an entry does."""
    await own(store, worker, "r")
    await land(store, worker, end("r", sends=(send_to("r"),), tasks=(task(),), waits_opened=(wait(),)))
    assert await inbox_of(store, "r") == []
    assert await store.list_waits() == []
    assert await store.claim_tasks(claiming(worker), ["charge"], HOUR) == []


# SPEC X6
async def test_an_end_takes_the_tasks_that_nobody_runs(store: Store, worker: str) -> None:
    """Queued steps of an ended run do not start; one that runs is told to stop, and its outcome goes nowhere."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, tasks=(task("a"), task("b"))))
    [running] = await store.claim_tasks(claiming(worker, limit=1), ["charge"], HOUR)
    await land(store, worker, end("r", 2))
    assert await store.claim_tasks(claiming(worker), ["charge"], HOUR) == []
    assert await store.renew_tasks(worker, [("r", running.key, 1, b"")], HOUR) == [("r", running.key, 1)]
    await complete(store, worker, TaskOutcome("r", running.key, 1, b"1"))
    assert await inbox_of(store, "r") == []
    assert await store.lapse_tasks() == 0


async def test_an_end_closes_the_waits(store: Store, worker: str) -> None:
    """Nobody is asked to decide for a run that has ended."""
    await own(store, worker, "r", "s")
    await land(
        store, worker, entry("r", 1, waits_opened=(wait("a"), wait("b"))), entry("s", 1, waits_opened=(wait("c"),))
    )
    await land(store, worker, end("r", 2))
    assert [(row.run, row.wait.key) for row in await store.list_waits()] == [("s", "c")]


async def test_nothing_moves_an_ended_run(store: Store, worker: str, other: str) -> None:
    """A late entry of a superseded owner does not overwrite an end, and neither does its failure."""
    await own(store, worker, "r")
    await land(store, other, end("r", status=RunStatus.CANCELLED))
    late = entry("r", 1, mark=9, row=RowChange(status=RunStatus.FAILED, ended=True, error=b"{}"))
    assert await commit(store, worker, late) == [Verdict.STALE]
    row = await row_of(store, "r")
    assert (row.status, row.error) == (RunStatus.CANCELLED, None)
    assert await ids_in_inbox(store, "r") == []


async def test_runs_end_in_company(store: Store, worker: str) -> None:
    """Of runs that end in one commit each is swept, whatever it leaves, and those beside them go on."""
    await own(store, worker, "bare", "mailed", "working", "waiting", "going")
    await store.send("mailed", message("m1"))
    await land(store, worker, entry("working", 1, tasks=(task("k"),)), entry("waiting", 1, waits_opened=(wait("w"),)))
    batch = [end("bare"), end("mailed"), end("working", 2), end("waiting", 2), entry("going", 1)]
    await land(store, worker, *batch)
    assert [(await row_of(store, uid)).live for uid in ("bare", "mailed", "working", "waiting", "going")] == [
        False, False, False, False, True,
    ]  # fmt: skip
    assert await inbox_of(store, "mailed") == []
    assert await store.list_tasks("working") == []
    assert await store.list_waits() == []
    assert [owned.uid for owned in await store.list_owned(worker)] == ["going"]
    assert await commit(store, worker, *batch) == [Verdict.LANDED] * 5, "a repeat is recognised"


async def test_a_late_end_takes_its_run_nowhere(store: Store, worker: str) -> None:
    """Of two ends for one position the first stands, and what came in company with the second is judged by itself."""
    await own(store, worker, "r", "s")
    await land(store, worker, end("r", status=RunStatus.CANCELLED))
    assert await commit(store, worker, end("r", mark=99), end("s")) == [Verdict.STALE, Verdict.LANDED]
    assert (await row_of(store, "r")).status is RunStatus.CANCELLED
    assert (await row_of(store, "s")).status is RunStatus.COMPLETED
