"""Entries: what lands, what is refused, and what is recognised as landed before."""

from __future__ import annotations

import pytest

from outlast.core.states import RunStatus
from outlast.errors import Fenced
from outlast.stores.store import CLIENT, Effects, Outcome, Progress, RowChange, Send, Store, Verdict
from outlast.testing.stores.clocks import SECOND, Clock, MakeStore
from outlast.testing.stores.writing import (
    claim,
    commit,
    end,
    entry,
    ids_in_inbox,
    inbox_of,
    land,
    mark_of,
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
    wait,
)

LANDED, STALE, TAKEN, REFUSED = Verdict.LANDED, Verdict.STALE, Verdict.TAKEN, Verdict.REFUSED


async def test_an_entry_reads_back_as_it_was_sent(store: Store, worker: str) -> None:
    """An entry that landed is read back with its position, time, mark, bytes and writer."""
    await own(store, worker, "r")
    await land(store, worker, Progress("r", 1, at=12_345, mark=2**63 - 1, prev=mark_of(0), events=b'[{"a":1}]'))
    found = (await store.read_journal("r"))[1]
    assert (found.seq, found.at, found.mark, found.events, found.writer) == (1, 12_345, 2**63 - 1, b'[{"a":1}]', worker)


async def test_a_client_writes_under_its_own_name(store: Store) -> None:
    """What no worker wrote says so."""
    await queue(store, "r")
    assert [found.writer for found in await store.read_journal("r")] == [CLIENT]


async def test_outcomes_come_in_the_order_of_the_batch(store: Store, worker: str) -> None:
    """Each run of a batch has its own outcome, and one that is refused does not hinder the others."""
    await own(store, worker, "a", "b", "c")
    batch = [
        entry("c", 1),
        entry("b", 1, prev=7),
        start("d", id="id of a"),
        entry("a", 1, unowned=RunStatus.FAILED),
        start("e"),
    ]
    assert await commit(store, worker, *batch) == [LANDED, STALE, TAKEN, REFUSED, LANDED]
    assert [len(await store.read_journal(uid)) for uid in "abcde"] == [1, 1, 2, 0, 1]


async def test_an_empty_batch_is_no_error(store: Store, worker: str) -> None:
    """Nothing to commit: nothing happens."""
    assert await store.commit(worker, []) == []


async def test_a_thousand_runs_move_in_one_commit(store: Store, worker: str) -> None:
    """A batch may carry as many runs as a group commit collects."""
    uids = [f"r{n}" for n in range(1000)]
    await own(store, worker, *uids)
    await land(store, worker, *(entry(uid, 1) for uid in reversed(uids)))
    assert {len(await store.read_journal(uid)) for uid in uids} == {2}


async def test_what_landed_is_seen_by_other_processes(store: Store, worker: str, make_store: MakeStore) -> None:
    """Another process sees an entry as soon as its commit returned."""
    elsewhere = await make_store()
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1))
    assert await marks_of(elsewhere, "r") == [mark_of(0), mark_of(1)]


async def test_an_entry_of_a_run_that_is_not_there_is_stale(store: Store, worker: str) -> None:
    """A run that was deleted takes no more entries, and its park is no error."""
    assert await commit(store, worker, entry("gone", 3), park("gone")) == [STALE, LANDED]
    assert await store.find_uid("gone") is None
    assert await store.read_journal("gone") == []


async def test_plain_progress_does_not_touch_the_row(store: Store, worker: str, clock: Clock) -> None:
    """An entry without effects leaves the run's row alone: a step's life costs one row."""
    await own(store, worker, "r")
    before = await row_of(store, "r")
    await clock.advance(store, SECOND // 100)
    await land(store, worker, entry("r", 1))
    assert await row_of(store, "r") == before


# --- the position, and the mark before it -----------------------------------------------------------------------------


async def test_a_position_is_taken_once(store: Store, worker: str, other: str) -> None:
    """Of two writers of one position the first wins, and nothing of the second happens."""
    await own(store, worker, "r", "s")
    await land(store, worker, entry("r", 1, mark=5))
    late = entry("r", 1, mark=6, sends=(send_to("s"),), waits_opened=(wait(),), row=RowChange(waiting_on="late"))
    assert await commit(store, other, late) == [STALE]
    assert await marks_of(store, "r") == [mark_of(0), 5]
    assert await inbox_of(store, "s") == []
    assert await store.list_waits() == []
    assert (await row_of(store, "r")).waiting_on == ""


# PROTOCOL F2
async def test_an_entry_lands_only_behind_the_entry_its_writer_knew(store: Store, worker: str) -> None:
    """A free position is not enough: with another mark before it the writer's picture is stale."""
    await own(store, worker, "r")
    assert await commit(store, worker, entry("r", 1, prev=mark_of(0) + 1)) == [STALE]
    assert await marks_of(store, "r") == [mark_of(0)]


async def test_a_journal_has_no_gaps(store: Store, worker: str) -> None:
    """An entry ahead of its turn is stale, whatever it names as the mark before it."""
    await own(store, worker, "r")
    assert await commit(store, worker, entry("r", 2), entry("r", 5, prev=0)) == [STALE, STALE]
    assert await marks_of(store, "r") == [mark_of(0)]


async def test_two_entries_in_flight_do_not_tear_a_journal(store: Store, worker: str, other: str) -> None:
    """When another took position n, what was to follow at n+1 does not land behind it."""
    await own(store, worker, "r")
    await land(store, other, entry("r", 1, mark=7))
    assert await commit(store, worker, entry("r", 1)) == [STALE]
    assert await commit(store, worker, entry("r", 2)) == [STALE]
    assert await marks_of(store, "r") == [mark_of(0), 7]


async def test_an_entry_of_an_earlier_incarnation_does_not_land(store: Store, worker: str) -> None:
    """After a delete, a late entry of the old run does not land in the new run of the same id."""
    await own(store, worker, "old")
    await land(store, worker, entry("old", 1))
    await land(store, worker, end("old", 2))
    assert await store.delete_run("old")
    await land(store, worker, start("new", id="id of old", claimed=True))
    assert await commit(store, worker, entry("old", 3)) == [STALE]
    assert await marks_of(store, "new") == [mark_of(0)]


# --- repeats ----------------------------------------------------------------------------------------------------------


async def test_a_repeated_entry_is_recognised(store: Store, worker: str) -> None:
    """The same entry sent again is answered as landed and written once, also when the journal has gone on since."""
    await own(store, worker, "r")
    again = entry("r", 1)
    for _ in range(3):
        assert await commit(store, worker, again) == [LANDED]
    await land(store, worker, entry("r", 2))
    assert await commit(store, worker, again) == [LANDED]
    assert len(await store.read_journal("r")) == 3


async def test_a_repeated_start_is_recognised(store: Store, worker: str) -> None:
    """The same start sent again is answered as landed, also when a worker has the run by now, and when it has ended."""
    again = start("r")
    await land(store, None, again)
    await claim(store, worker)
    assert await commit(store, None, again) == [LANDED]
    await land(store, worker, end("r"))
    assert await commit(store, None, again) == [LANDED]
    assert len(await store.read_journal("r")) == 2
    assert (await row_of(store, "r")).status is RunStatus.COMPLETED


async def test_effects_of_a_repeated_entry_happen_once(store: Store, worker: str, other: str) -> None:
    """Effects landed with their entry; when the entry is repeated later they do not happen again."""
    await own(store, worker, "r", "s")
    again = entry(
        "r",
        1,
        sends=(send_to("s"),),
        children=(start("child"),),
        tasks=(task(),),
        waits_opened=(wait(),),
        row=release(),
    )
    await land(store, worker, again)
    # What the effects made is used up, then the repeat comes.
    await land(store, worker, entry("s", 1, consumed=(1,)))
    assert await claim(store, other) == ["child"]
    await land(store, other, end("child"))
    assert await store.delete_run("child")
    await store.send("r", message("wake"))
    assert await claim(store, other) == ["r"]
    await land(store, other, entry("r", 2, waits_closed=("ok?",), stop_tasks=True))

    assert await commit(store, worker, again) == [LANDED]
    assert await inbox_of(store, "s") == []
    assert (await row_of(store, "s")).mail == 1
    assert await store.find_uid("child") is None
    assert await store.list_waits() == []
    assert await store.lost_attempts("r", [("charge", 1)]) == [("charge", 1)]
    assert (await row_of(store, "r")).owner == other


async def test_a_repeat_in_a_batch_does_not_hinder_what_is_new(store: Store, worker: str) -> None:
    """A batch may hold what landed before beside what did not."""
    await own(store, worker, "a", "b")
    await land(store, worker, entry("a", 1))
    await land(store, worker, entry("a", 1), entry("b", 1))
    assert [len(await store.read_journal(uid)) for uid in "ab"] == [2, 2]


# --- the worker's own row ---------------------------------------------------------------------------------------------


# SPEC L4
async def test_a_dead_worker_writes_nothing_at_all(store: Store, worker: str, clock: Clock) -> None:
    """After a worker was marked dead its whole batch is refused: entries, starts, parks and sends alike."""
    zombie = await register(store, "zombie", clock.lease_us)
    await own(store, zombie, "r")
    await own(store, worker, "s")
    await clock.advance(store, clock.lease_us)
    assert await store.reap() is not None
    before = await row_of(store, "r")
    with pytest.raises(Fenced):
        await store.commit(zombie, [entry("r", 1, sends=(send_to("s"),)), start("t"), park("r")])
    assert await marks_of(store, "r") == [mark_of(0)]
    assert await row_of(store, "r") == before
    assert await store.find_uid("t") is None
    assert await inbox_of(store, "s") == []


async def test_an_unknown_worker_writes_nothing(store: Store) -> None:
    """Who is not registered is fenced."""
    with pytest.raises(Fenced):
        await store.commit("nobody", [start("r")])
    assert await store.find_uid("r") is None


async def test_a_dead_worker_is_not_told_that_its_entry_landed_before(store: Store, clock: Clock) -> None:
    """Fenced comes first: a dead worker has no use for the news, and acts on it no more."""
    zombie = await register(store, "zombie", clock.lease_us)
    await own(store, zombie, "r")
    await clock.advance(store, clock.lease_us)
    await store.reap()
    with pytest.raises(Fenced):
        await store.commit(zombie, [start("r", claimed=True)])


# --- messages consumed ------------------------------------------------------------------------------------------------


async def test_messages_go_with_the_entry_that_consumes_them(store: Store, worker: str) -> None:
    """Consumed messages are deleted in the entry's commit; the others stay, under their numbers."""
    await own(store, worker, "r")
    for id in ("m1", "m2", "m3"):
        await store.send("r", message(id))
    await land(store, worker, entry("r", 1, consumed=(1, 3)))
    assert [(found.no, found.id) for found in await inbox_of(store, "r")] == [(2, "m2")]


async def test_a_stale_entry_consumes_nothing(store: Store, worker: str) -> None:
    """What a refused entry would have consumed stays to be read."""
    await own(store, worker, "r")
    await store.send("r", message())
    assert await commit(store, worker, entry("r", 1, prev=0, consumed=(1,))) == [STALE]
    assert await ids_in_inbox(store, "r") == ["m1"]


async def test_known_messages_are_dropped_without_an_entry(store: Store, worker: str) -> None:
    """Messages the fold knows are deleted by effects alone; naming one that is gone is no error."""
    await own(store, worker, "r")
    await store.send("r", message())
    drop = Progress("r", -1, effects=Effects(consumed=(1, 2)))
    await land(store, worker, drop)
    await land(store, worker, drop)
    assert await inbox_of(store, "r") == []
    assert len(await store.read_journal("r")) == 1


async def test_the_outcome_of_a_start_names_the_holder(store: Store, worker: str) -> None:
    """TAKEN says who holds the id."""
    await own(store, worker, "r")
    outcomes = await store.commit(worker, [start("s", id="id of r", beside={"sends": (Send("r", message()),)})])
    assert outcomes == [Outcome(Verdict.TAKEN, "r")]
    assert await inbox_of(store, "r") == []
