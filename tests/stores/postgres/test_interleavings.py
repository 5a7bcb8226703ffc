"""Two transactions at once, in the orders that PROTOCOL's findings are about, with the statements that the store sends.

One of the two is held open by the test; the other is the store's, and is seen to wait before the first one goes on."""

from __future__ import annotations

import asyncio
import random

import pytest

from outlast.core.states import RunStatus
from outlast.errors import Fenced, StoreUnavailable
from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres import store as store_module
from outlast.stores.postgres.link import connect as connect_link
from outlast.stores.postgres.settings import Role, parse_url
from outlast.stores.postgres.statements import load_statements
from outlast.stores.store import Outcome, Progress, RowChange, TaskOutcome, Verdict
from outlast.testing.stores.writing import (
    HOUR,
    claiming,
    commit,
    end,
    entry,
    ids_in_inbox,
    inbox_of,
    is_due,
    land,
    marks_of,
    message,
    own,
    park,
    queue,
    register,
    release,
    row_of,
    send_to,
    start,
    task,
)
from tests.stores.postgres.sessions import Session, holding, wait_until_blocked

RAISE_MAIL = "update runs set mail = mail + 1 where uid = $1"
LOCK_RUN = "select 1 from runs where uid = $1 for no key update"


@pytest.fixture
def no_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadlock is not tried again, so that the test sees it."""
    monkeypatch.setattr(store_module, "_TRIES", 1)


# PROTOCOL F9
async def test_a_run_that_is_sent_to_in_the_commit_of_its_own_entry(store: PostgresStore, worker: str):
    """Its mail is counted and its summary is written: a row that is changed twice in one statement would lose one."""
    await own(store, worker, "r", "s")
    await land(
        store,
        worker,
        entry("r", 1, sends=(send_to("s"),)),
        entry("s", 1, row=RowChange(waiting_on="a signal", release=release().release)),
    )
    row = await row_of(store, "s")
    assert (row.mail, row.waiting_on, row.owner) == (1, "a signal", None)
    assert await is_due(store, "s"), "it was parked without having seen the message"


# PROTOCOL F1, F16
async def test_a_park_that_waits_for_a_claim_misses_it(store: PostgresStore, worker: str, holder: Session):
    """The run is taken anew while its park waits for the row: the next owner keeps it."""
    await own(store, worker, "r")
    async with holding(holder, "update runs set owner = 'next', epoch = 2 where uid = $1", "r"):
        parking = asyncio.create_task(store.commit(worker, [park("r")]))
        await wait_until_blocked(holder)
    assert [outcome.verdict for outcome in await parking] == [Verdict.LANDED]
    row = await row_of(store, "r")
    assert (row.owner, row.epoch) == ("next", 2)


# PROTOCOL F20
async def test_an_end_that_waits_for_a_sender_sweeps_its_message(store: PostgresStore, worker: str, holder: Session):
    """A message that was sent while the end waited for the row is swept with the others: nobody waits for an answer."""
    await own(store, worker, "r")
    async with holding(holder, RAISE_MAIL, "r"):
        await holder.execute("insert into inbox values ('r', 1, 'm1', 'signal', 'x', 1)")
        ending = asyncio.create_task(commit(store, worker, end("r")))
        await wait_until_blocked(holder)
    assert await ending == [Verdict.LANDED]
    assert await inbox_of(store, "r") == []


# PROTOCOL F20
async def test_a_sender_that_waits_for_an_end_is_told(store: PostgresStore, worker: str, holder: Session):
    """It is not acknowledged: the run ended before its message came."""
    await own(store, worker, "r")
    ended = "update runs set live = false, owner = null, status = 'completed' where uid = $1"
    async with holding(holder, ended, "r"):
        sending = asyncio.create_task(store.send("r", message()))
        await wait_until_blocked(holder)
    assert (await sending).verdict == "ended"
    assert await inbox_of(store, "r") == []


# PROTOCOL F15
async def test_a_park_that_waits_for_a_sender_sees_the_message(store: PostgresStore, worker: str, holder: Session):
    """The send came first: the run is due at once, though its owner had seen no message."""
    await own(store, worker, "r")
    async with holding(holder, RAISE_MAIL, "r"):
        parking = asyncio.create_task(store.commit(worker, [park("r", seen=0)]))
        await wait_until_blocked(holder)
    await parking
    assert await is_due(store, "r")


# PROTOCOL F15
async def test_a_sender_that_waits_for_a_park_makes_the_run_due(store: PostgresStore, worker: str, holder: Session):
    """The park came first: the send finds nobody who owns the run, and makes it due."""
    await own(store, worker, "r")
    async with holding(holder, "update runs set owner = null, wake_at = null where uid = $1", "r"):
        sending = asyncio.create_task(store.send("r", message()))
        await wait_until_blocked(holder)
    assert (await sending).verdict == "sent"
    assert await is_due(store, "r")


# PROTOCOL F19
async def test_numbers_follow_the_order_of_commits(store: PostgresStore, worker: str, holder: Session):
    """A slow sender that was first has the lower number, and a reader that saw the higher one saw it too."""
    await own(store, worker, "r")
    async with holding(holder, RAISE_MAIL, "r"):
        sending = asyncio.create_task(store.send("r", message("fast")))
        await wait_until_blocked(holder)
        await holder.execute("insert into inbox values ('r', 1, 'slow', 'signal', 'x', 1)")
        assert await inbox_of(store, "r") == []
    assert (await sending).no == 2
    assert await ids_in_inbox(store, "r") == ["slow", "fast"]


# PROTOCOL F18
async def test_the_same_message_sent_twice_at_once_is_there_once(store: PostgresStore, worker: str, holder: Session):
    """Two tries cross: the second waits for the first, and finds its message there."""
    await own(store, worker, "r")
    async with holding(holder, LOCK_RUN, "r"):
        sending = [asyncio.create_task(store.send("r", message("m"))) for _ in range(2)]
        await wait_until_blocked(holder)
    assert sorted([(await each).verdict for each in sending]) == ["duplicate", "sent"]
    assert await ids_in_inbox(store, "r") == ["m"]
    assert (await row_of(store, "r")).mail == 1


# PROTOCOL F1
async def test_a_reaper_waits_for_what_its_worker_has_in_flight(store: PostgresStore, holder: Session, no_second_try):
    """A commit that began before the reap is wholly before it: the reaper sees what it did. A renewal does not wait."""
    await register(store, "zombie", HOUR)
    await own(store, "zombie", "r")
    fence = "select 1 from workers where id = 'zombie' and dead_at is null for key share"
    async with holding(holder, fence):
        assert await asyncio.to_thread(store.renew, "zombie", HOUR) is not None
        await holder.execute(
            "update workers set expires_at = 0"
        )  # of the same transaction, which a reaper waits for too
        await holder.execute("update runs set waiting_on = 'seen' where uid = 'r'")
    async with holding(holder, fence):
        reaping = asyncio.create_task(store.reap())
        await wait_until_blocked(holder)
        await holder.execute("update runs set waiting_on = 'seen' where uid = 'r'")
    reaped = await reaping
    assert reaped is not None
    row = await row_of(store, "r")
    assert (reaped.runs, row.owner, row.waiting_on) == (1, None, "seen")


# PROTOCOL F1, F3
@pytest.mark.parametrize("work", ["commit", "claim"])
async def test_what_waits_for_a_reaper_is_refused(store: PostgresStore, holder: Session, work: str):
    """The worker is marked dead while its request waits: nothing of the request happens."""
    await register(store, "zombie", HOUR)
    await own(store, "zombie", "r")
    await queue(store, "due")
    async with holding(holder, "select 1 from workers where id = 'zombie' for update"):
        if work == "commit":
            asking: asyncio.Task[object] = asyncio.create_task(store.commit("zombie", [entry("r", 1)]))
        else:
            asking = asyncio.create_task(store.claim(claiming("zombie")))
        await wait_until_blocked(holder)
        await holder.execute("update workers set dead_at = 1 where id = 'zombie'")
    with pytest.raises(Fenced):
        await asking
    assert len(await marks_of(store, "r")) == 1
    assert (await row_of(store, "due")).owner is None


# PROTOCOL F14
@pytest.mark.parametrize("first_lands", [True, False])
async def test_two_starts_of_one_id_at_once(store: PostgresStore, holder: Session, first_lands: bool):
    """The second waits for the first: it is told who holds the id; or it starts, when the first came to nothing."""
    await queue(store, "model")
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute(
        "insert into runs select 'first', 'the id', holds, workflow, version, status, waiting_on, live, owner, epoch, "
        "wake_at, deadline, mail, priority, queue, unfit, parent, root, user_id, recoveries, created_at, started_at, "
        "updated_at, finished_at from runs where uid = 'model'"
    )
    starting = asyncio.create_task(store.commit(None, [start("second", id="the id")]))
    await wait_until_blocked(holder)
    await (transaction.commit() if first_lands else transaction.rollback())
    expected = Outcome(Verdict.TAKEN, "first") if first_lands else Outcome(Verdict.LANDED)
    assert await starting == [expected]
    assert len(await store.read_journal("second")) == (0 if first_lands else 1)


# PROTOCOL F26
async def test_a_stop_that_waits_for_a_claim_leaves_the_task_to_it(store: PostgresStore, worker: str, holder: Session):
    """A task that was being claimed counts as running: it is told to stop, and not deleted under its worker's feet."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, tasks=(task(),)))
    async with holding(holder, "update tasks set owner = 'other', lease_expires_at = 9e15, claimed_at = 1"):
        stopping = asyncio.create_task(commit(store, worker, entry("r", 2, stop_tasks=True)))
        await wait_until_blocked(holder)
    assert await stopping == [Verdict.LANDED]
    [row] = await store.list_tasks("r")
    assert (row.owner, row.stop) == ("other", True)


# --- what must not deadlock -------------------------------------------------------------------------------------------


# PROTOCOL F11
async def test_group_commits_that_cross_do_not_deadlock(store: PostgresStore, worker, other, make_store, no_second_try):
    """Two workers whose groups send to each other's runs, in any order, wait for each other and never in a ring."""
    elsewhere = await make_store()
    mine, theirs = [f"a{n}" for n in range(12)], [f"b{n}" for n in range(12)]
    await own(store, worker, *mine)
    await own(elsewhere, other, *theirs)

    async def write(through: PostgresStore, who: str, own_uids: list[str], seed: int) -> None:
        dice = random.Random(seed)
        for seq in range(1, 16):
            targets = dice.sample(mine + theirs, 8)
            batch = [
                entry(uid, seq, sends=(send_to(to, f"{uid} {seq}"),), row=RowChange(waiting_on=f"{seq}"))
                for uid, to in zip(dice.sample(own_uids, len(own_uids)), targets + targets, strict=False)
            ]
            await land(through, who, *batch)

    await asyncio.gather(write(store, worker, mine, 1), write(elsewhere, other, theirs, 2))
    mails = [(await row_of(store, uid)).mail for uid in mine + theirs]
    assert sum(mails) == 2 * 15 * 12
    assert mails == [len(await inbox_of(store, uid)) for uid in mine + theirs]


# PROTOCOL F25
async def test_outcomes_and_stops_do_not_deadlock(store: PostgresStore, worker, other, make_store, no_second_try):
    """An outcome takes its run's row before its task, as a stop does."""
    elsewhere = await make_store()
    uids = [f"r{n}" for n in range(8)]
    await own(store, worker, *uids)
    for seq in range(1, 9, 2):
        await land(store, worker, *(entry(uid, seq, tasks=(task("k", seq),)) for uid in uids))
        await elsewhere.claim_tasks(claiming(other), ["charge"], HOUR)
        outcomes = [TaskOutcome(uid, "k", seq, b"1") for uid in reversed(uids)]
        stops: list[Progress] = [
            entry(uid, seq + 1, stop_tasks=True, sends=(send_to(uids[0], f"{uid} {seq}"),)) for uid in uids
        ]
        done, verdicts = await asyncio.gather(
            elsewhere.complete_tasks(other, outcomes), commit(store, worker, *reversed(stops))
        )
        assert done == [True] * 8
        assert verdicts == [Verdict.LANDED] * 8


# --- who dies while it holds a lock -----------------------------------------------------------------------------------


# PROTOCOL F10
async def test_a_client_that_froze_holds_nobody_up(store: PostgresStore, worker: str, url: str):
    """Its session is ended by the server when it has been idle in a transaction for a sixth of its lease."""
    await own(store, worker, "r", "s")
    frozen = await connect_link(parse_url(url).with_lease(3_000_000), Role.WORK)

    async def freeze() -> None:
        async with frozen.transaction():
            await frozen.fetch(load_statements("runs")["lock"], uids=["s"])
            await land(store, worker, entry("r", 1, sends=(send_to("s"),)))
            await frozen.fetch(load_statements("runs")["lock"], uids=["r"])

    with pytest.raises(StoreUnavailable):
        await freeze()
    assert not frozen.is_usable
    assert (await row_of(store, "s")).mail == 1


async def test_a_status_that_changes_under_a_retry_refuses_it(store: PostgresStore, worker: str, holder: Session):
    """A retry lands only on a run that is failed still when the row is its own to change."""
    await own(store, worker, "r")
    await land(store, worker, end("r", status=RunStatus.FAILED))
    again = entry("r", 2, unowned=RunStatus.FAILED, row=RowChange(status=RunStatus.QUEUED, reopened=True))
    async with holding(holder, "update runs set status = 'queued', live = true where uid = $1", "r"):
        retrying = asyncio.create_task(commit(store, None, again))
        await wait_until_blocked(holder)
    assert await retrying == [Verdict.REFUSED]
    assert len(await marks_of(store, "r")) == 2
