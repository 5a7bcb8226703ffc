"""Starts: of runs, of children, under an id that one run holds at a time."""

from __future__ import annotations

import asyncio

from outlast.core.states import RunStatus
from outlast.stores.store import Outcome, RowChange, Send, Store, Verdict
from outlast.testing.stores.clocks import Clock, MakeStore
from outlast.testing.stores.writing import (
    HOUR,
    claim,
    commit,
    end,
    entry,
    ids_in_inbox,
    inbox_of,
    is_due,
    land,
    mark_of,
    marks_of,
    message,
    own,
    queue,
    register,
    release,
    row_of,
    send_to,
    start,
)

LANDED, TAKEN = Verdict.LANDED, Verdict.TAKEN


# --- runs -------------------------------------------------------------------------------------------------------------


async def test_a_run_starts_queued_and_due(store: Store) -> None:
    """A run that a client starts is there with its entry 0, owned by nobody, and due now."""
    before = await store.now()
    await queue(store, "r")
    row = await row_of(store, "r")
    assert (row.status, row.live, row.owner, row.epoch, row.mail) == (RunStatus.QUEUED, True, None, 0, 0)
    assert before <= row.created_at <= await store.now()
    assert (row.started_at, row.finished_at, row.error, row.waiting_on) == (None, None, None, "")
    assert await is_due(store, "r")
    assert await marks_of(store, "r") == [mark_of(0)]


async def test_a_run_starts_with_the_worker_that_starts_it(store: Store, worker: str, other: str) -> None:
    """A worker that starts a run and works it owns it from the first moment, under epoch 1."""
    await own(store, worker, "r")
    row = await row_of(store, "r")
    assert (row.status, row.owner, row.epoch, row.wake_at) == (RunStatus.RUNNING, worker, 1, None)
    assert row.started_at is not None
    assert await claim(store, other) == []


async def test_a_client_cannot_own_a_run(store: Store, worker: str) -> None:
    """A start that asks for ownership, and comes from no worker, starts a run that anybody may claim."""
    await land(store, None, start("r", claimed=True))
    row = await row_of(store, "r")
    assert (row.owner, row.epoch, row.status) == (None, 0, RunStatus.QUEUED)
    assert await claim(store, worker) == ["r"]


# SPEC R4
async def test_a_delayed_run_is_due_at_its_time(store: Store, worker: str, clock: Clock) -> None:
    """A run with a start time is claimed then, and not before."""
    later = await store.now() + clock.lease_us
    await queue(store, "r", wake_at=later)
    assert (await row_of(store, "r")).wake_at == later
    assert await claim(store, worker) == []
    await clock.advance(store, clock.lease_us)
    assert await claim(store, worker) == ["r"]


async def test_the_row_says_what_the_start_said(store: Store) -> None:
    """Everything a start names is on the row."""
    given = {
        "workflow": "fulfil",
        "version": "v7",
        "queue": "gpu",
        "priority": 9,
        "deadline": await store.now() + HOUR,
        "parent": "p",
        "root": "q",
        "user": "ada",
        "attributes": b'{"region":"eu"}',
        "trace": "00-abc-def-01",
    }
    await queue(store, "r", **given)
    row = await row_of(store, "r")
    assert {name: getattr(row, name) for name in given} == given
    assert (row.uid, row.id) == ("r", "id of r")


async def test_a_start_may_carry_effects(store: Store, worker: str) -> None:
    """Entry 0 can do what any entry can: the body was thought ahead. Its run may even have ended."""
    done = RowChange(status=RunStatus.COMPLETED, ended=True)
    await own(store, worker, "s")
    await land(store, worker, start("r", claimed=True, beside={"sends": (send_to("s"),), "row": done}))
    row = await row_of(store, "r")
    assert (row.status, row.live, row.owner, row.wake_at) == (RunStatus.COMPLETED, False, None, None)
    assert await ids_in_inbox(store, "s") == ["m1"]


async def test_a_run_can_be_parked_by_its_start(store: Store, worker: str) -> None:
    """A run that begins by waiting is never hot: its start parks it."""
    await land(store, worker, start("r", claimed=True, beside={"row": release(waiting_on="signal")}))
    row = await row_of(store, "r")
    assert (row.owner, row.wake_at, row.waiting_on, row.status) == (None, None, "signal", RunStatus.RUNNING)


# --- ids --------------------------------------------------------------------------------------------------------------


# SPEC R3
async def test_an_id_is_held_by_one_run(store: Store) -> None:
    """The second start under an id is told who holds it, and nothing of it happens."""
    await queue(store, "r", id="A-17")
    assert await store.commit(None, [start("s", id="A-17")]) == [Outcome(TAKEN, "r")]
    assert await store.find_uid("s") is None
    assert await store.read_journal("s") == []
    found = await store.find_run("A-17")
    assert found is not None
    assert found.uid == "r"


async def test_an_id_is_held_beyond_the_end(store: Store, worker: str) -> None:
    """A run that has ended holds its id still."""
    await own(store, worker, "r")
    await land(store, worker, end("r"))
    assert await store.commit(None, [start("s", id="id of r")]) == [Outcome(TAKEN, "r")]


async def test_of_two_starts_in_a_batch_one_gets_the_id(store: Store) -> None:
    """A group commit with two starts of an id starts one run."""
    outcomes = await store.commit(None, [start("r", id="A-17"), start("s", id="A-17")])
    assert sorted(outcome.verdict.value for outcome in outcomes) == ["landed", "taken"]
    winner = "rs"[outcomes.index(Outcome(LANDED))]
    assert Outcome(TAKEN, winner) in outcomes


# PROTOCOL F14
async def test_of_many_starts_at_once_one_gets_the_id(make_store: MakeStore) -> None:
    """Processes that start the same id at once all learn of the same run."""
    stores = [await make_store() for _ in range(4)]
    outcomes = await asyncio.gather(
        *(store.commit(None, [start(f"r{n}", id="A-17")]) for n, store in enumerate(stores * 3))
    )
    winners = [f"r{n}" for n, [outcome] in enumerate(outcomes) if outcome.verdict is LANDED]
    assert len(winners) == 1
    assert [outcome.holder for [outcome] in outcomes if outcome.verdict is TAKEN] == winners * 11
    held = await stores[0].find_run("A-17")
    assert held is not None
    assert held.uid == winners[0]


# PROTOCOL F13
async def test_an_ended_run_gives_its_id_up(store: Store, worker: str) -> None:
    """A restart takes the id; the old run keeps its uid, its history and the text of its id."""
    await own(store, worker, "r")
    await land(store, worker, end("r"))
    await land(store, None, start("s", id="id of r", replaces="r"))
    holder = await store.find_run("id of r")
    assert holder is not None
    assert holder.uid == "s"
    assert (await row_of(store, "r")).id == "id of r"
    assert len(await store.read_journal("r")) == 2


async def test_only_the_ended_holder_gives_its_id_up(store: Store, worker: str) -> None:
    """A restart is refused when the run it would replace lives, or when another holds the id by now."""
    await own(store, worker, "r")
    assert await store.commit(None, [start("s", id="id of r", replaces="r")]) == [Outcome(TAKEN, "r")]
    await land(store, worker, end("r"))
    await land(store, None, start("s", id="id of r", replaces="r"))
    assert await store.commit(None, [start("t", id="id of r", replaces="r")]) == [Outcome(TAKEN, "s")]
    assert await store.find_uid("t") is None


async def test_a_restart_of_a_deleted_run_is_a_start(store: Store, worker: str) -> None:
    """When the run to be replaced is gone its id is free."""
    await own(store, worker, "r")
    await land(store, worker, end("r"))
    await store.delete_run("r")
    await land(store, None, start("s", id="id of r", replaces="r"))
    assert await store.find_run("id of r") is not None


async def test_nobody_holds_an_id_nobody_started(store: Store) -> None:
    """An unknown id or uid finds nothing."""
    assert await store.find_run("A-17") is None
    assert await store.find_uid("A-17") is None


# --- children ---------------------------------------------------------------------------------------------------------


# SPEC C1
async def test_a_child_starts_in_its_parents_entry(store: Store, worker: str, other: str) -> None:
    """A child is there, with its entry 0, as soon as the entry that starts it landed."""
    await own(store, worker, "p")
    await land(store, worker, entry("p", 1, children=(start("c", parent="p", root="p"),)))
    row = await row_of(store, "c")
    assert (row.parent, row.root, row.status, row.owner) == ("p", "p", RunStatus.QUEUED, None)
    assert await marks_of(store, "c") == [mark_of(0)]
    assert await claim(store, other) == ["c"]


async def test_a_child_may_start_with_its_parents_worker(store: Store, worker: str) -> None:
    """A worker with a free place starts the child for itself."""
    await own(store, worker, "p")
    await land(store, worker, entry("p", 1, children=(start("c", claimed=True),)))
    row = await row_of(store, "c")
    assert (row.owner, row.epoch, row.status) == (worker, 1, RunStatus.RUNNING)


async def test_a_refused_entry_starts_no_child(store: Store, worker: str) -> None:
    """No orphans: without the parent's entry there is no child."""
    await own(store, worker, "p")
    assert await commit(store, worker, entry("p", 1, prev=0, children=(start("c"),))) == [Verdict.STALE]
    assert await store.find_uid("c") is None
    assert await store.read_journal("c") == []


async def test_a_child_that_exists_is_left_as_it_is(store: Store, worker: str) -> None:
    """A child whose uid is there already is skipped; its siblings and the parent's entry land."""
    await own(store, worker, "p", "c")
    await land(store, worker, entry("c", 1))
    before = await row_of(store, "c")
    await land(store, worker, entry("p", 1, children=(start("b"), start("c"), start("d"))))
    assert await row_of(store, "c") == before
    assert len(await store.read_journal("c")) == 2
    assert await store.find_uid("b") is not None
    assert await store.find_uid("d") is not None


async def test_a_child_under_a_held_id_is_taken(store: Store, worker: str) -> None:
    """A child whose id another run holds fails its parent's entry, which says who; nothing of the entry happens."""
    await own(store, worker, "p", "r")
    asked = entry("p", 1, children=(start("b"), start("c", id="id of r")), sends=(send_to("r"),))
    assert await store.commit(worker, [asked]) == [Outcome(TAKEN, "r")]
    assert await marks_of(store, "p") == [mark_of(0)]
    assert await store.find_uid("b") is None
    assert await inbox_of(store, "r") == []


async def test_two_children_of_an_entry_do_not_share_an_id(store: Store, worker: str) -> None:
    """Children that ask for one id in one entry: the second is told of the first, and nothing of the entry happens."""
    await own(store, worker, "p")
    asked = entry("p", 1, children=(start("b", id="A-17"), start("c", id="A-17")))
    assert await store.commit(worker, [asked]) == [Outcome(TAKEN, "b")]
    assert await marks_of(store, "p") == [mark_of(0)]
    assert await store.find_run("A-17") is None


async def test_a_child_can_be_sent_to_in_the_entry_that_starts_it(store: Store, worker: str) -> None:
    """A body may start a child and cancel it at once."""
    await own(store, worker, "p")
    await land(store, worker, entry("p", 1, children=(start("c"),), sends=(Send("c", message("x", "cancel")),)))
    assert await ids_in_inbox(store, "c") == ["x"]
    assert (await row_of(store, "c")).mail == 1


async def test_many_children_start_at_once(store: Store, worker: str) -> None:
    """A fan-out of a thousand children is one entry."""
    await own(store, worker, "p")
    await land(store, worker, entry("p", 1, children=tuple(start(f"c{n}") for n in range(1000))))
    second = await register(store, "worker-9", HOUR)
    assert len(await claim(store, second, limit=5000)) == 1000
