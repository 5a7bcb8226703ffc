"""Parks: a run is given up for this ownership only, and no message is left unread without a wake."""

from __future__ import annotations

import pytest

from outlast.core.states import RunStatus
from outlast.errors import Fenced
from outlast.stores.store import Progress, RowChange, Store
from outlast.testing.stores.clocks import Clock
from outlast.testing.stores.writing import (
    HOUR,
    claim,
    claiming,
    end,
    entry,
    is_due,
    land,
    message,
    own,
    park,
    register,
    release,
    row_of,
    send_to,
)


# SPEC L11, W1
async def test_a_parked_run_sleeps_until_its_time(store: Store, worker: str, other: str, clock: Clock) -> None:
    """A run parked on a timer is nobody's until the timer is due, then anybody's."""
    await own(store, worker, "r")
    later = await store.now() + clock.lease_us
    await land(store, worker, park("r", wake_at=later, waiting_on="sleep"))
    row = await row_of(store, "r")
    assert (row.owner, row.wake_at, row.waiting_on, row.epoch, row.status) == (
        None,
        later,
        "sleep",
        1,
        RunStatus.RUNNING,
    )
    assert await claim(store, other) == []
    await clock.advance(store, clock.lease_us)
    assert await claim(store, other) == ["r"]


async def test_a_parked_run_may_wait_for_a_message_alone(store: Store, worker: str) -> None:
    """Without a time the run is due when a message comes, and not before."""
    await own(store, worker, "r")
    await land(store, worker, park("r", waiting_on="signal"))
    assert (await row_of(store, "r")).wake_at is None
    assert await claim(store, worker) == []
    await store.send("r", message())
    assert await claim(store, worker) == ["r"]


async def test_a_park_may_ride_with_an_entry(store: Store, worker: str) -> None:
    """Entry and park are one commit."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, row=release(waiting_on="approval")))
    row = await row_of(store, "r")
    assert (row.owner, row.waiting_on) == (None, "approval")
    assert len(await store.read_journal("r")) == 2


async def test_what_a_run_waits_for_is_cleared(store: Store, worker: str) -> None:
    """An empty text clears `waiting_on`; None leaves it."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, row=RowChange(waiting_on="approval")))
    await land(store, worker, entry("r", 2, row=RowChange(status=RunStatus.SUSPENDED)))
    assert (await row_of(store, "r")).waiting_on == "approval"
    await land(store, worker, entry("r", 3, row=RowChange(waiting_on="")))
    assert (await row_of(store, "r")).waiting_on == ""


# --- a park and a message that cross (F15) ----------------------------------------------------------------------------


async def test_a_message_before_the_park_is_not_slept_over(store: Store, worker: str) -> None:
    """Mail that came and was not seen makes the run due at once, whatever timer it wanted."""
    await own(store, worker, "r")
    seen = (await store.read_inbox("r")).mail
    await store.send("r", message())
    await land(store, worker, park("r", seen=seen, wake_at=await store.now() + HOUR))
    assert await is_due(store, "r")


async def test_a_message_after_the_park_wakes(store: Store, worker: str) -> None:
    """The other order: the message finds the run parked and makes it due, earlier than its timer."""
    await own(store, worker, "r")
    await land(store, worker, park("r", wake_at=await store.now() + HOUR))
    await store.send("r", message())
    assert await is_due(store, "r")


async def test_a_message_to_a_run_that_is_due_leaves_it_due(store: Store, worker: str) -> None:
    """A message never puts a wake off."""
    await own(store, worker, "r")
    await land(store, worker, park("r", wake_at=1))
    await store.send("r", message())
    assert await is_due(store, "r")


async def test_mail_left_unread_on_purpose_does_not_wake(store: Store, worker: str) -> None:
    """A run that has seen its mail may park on it: a suspended run does not spin over messages it keeps for later."""
    await own(store, worker, "r")
    await store.send("r", message())
    await land(store, worker, park("r", seen=1))
    assert not await is_due(store, "r")
    await store.send("r", message("m2"))
    assert await is_due(store, "r")


# PROTOCOL F9
async def test_a_park_sees_what_its_own_entry_sends(store: Store, worker: str) -> None:
    """A run that sends to itself and parks is due at once."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, sends=(send_to("r"),), row=release(seen=0, wake_at=None)))
    row = await row_of(store, "r")
    assert (row.owner, row.mail) == (None, 1)
    assert await is_due(store, "r")


# PROTOCOL F9
@pytest.mark.parametrize("uids", [("a", "b"), ("b", "a")], ids=["sent first", "parked first"])
async def test_a_park_sees_what_is_sent_in_its_batch(store: Store, worker: str, uids: tuple[str, str]) -> None:
    """A run parks and another of the same commit sends to it: it is due, in whatever order the batch has them."""
    await own(store, worker, "a", "b")
    moves = {"a": entry("a", 1, sends=(send_to("b"),)), "b": entry("b", 1, row=release(seen=0, wake_at=None))}
    await land(store, worker, *(moves[uid] for uid in uids))
    assert (await row_of(store, "b")).mail == 1
    assert await is_due(store, "b")


async def test_two_runs_that_send_to_each_other_and_park_are_both_due(store: Store, worker: str) -> None:
    """Crossing sends in one commit wake both."""
    await own(store, worker, "a", "b")
    await land(
        store,
        worker,
        entry("a", 1, sends=(send_to("b"),), row=release()),
        entry("b", 1, sends=(send_to("a"),), row=release()),
    )
    assert sorted(await claim(store, worker)) == ["a", "b"]


# --- late parks (F16) -------------------------------------------------------------------------------------------------


async def test_a_late_park_misses_the_next_owner(store: Store, worker: str, other: str) -> None:
    """A park that arrives when another worker has the run by now changes nothing."""
    await own(store, worker, "r")
    await land(store, worker, park("r", wake_at=0))
    await claim(store, other)
    before = await row_of(store, "r")
    await land(store, worker, park("r", wake_at=0, waiting_on="late", status=RunStatus.SUSPENDED, unfit="deploy-1"))
    assert await row_of(store, "r") == before


async def test_a_late_park_misses_the_same_workers_next_ownership(store: Store, worker: str) -> None:
    """The owner alone is not enough: the same worker may have taken the run anew, under another epoch."""
    await own(store, worker, "r")
    await land(store, worker, park("r", wake_at=0))
    assert [claimed.epoch for claimed in await store.claim(claiming(worker))] == [2]
    await land(store, worker, park("r", epoch=1, waiting_on="late"))
    row = await row_of(store, "r")
    assert (row.owner, row.epoch, row.waiting_on) == (worker, 2, "")


async def test_a_repeated_park_does_nothing(store: Store, worker: str) -> None:
    """The repeat of a park that landed neither changes the wake-up nor makes the run due."""
    await own(store, worker, "r")
    first = park("r", wake_at=await store.now() + HOUR, waiting_on="sleep")
    await land(store, worker, first)
    before = await row_of(store, "r")
    await land(store, worker, first)
    await land(store, worker, park("r", wake_at=0, waiting_on="late"))
    assert await row_of(store, "r") == before


async def test_an_entry_lands_without_the_park_that_rides_too_late(store: Store, worker: str) -> None:
    """A park for an earlier ownership is left out; the entry it rides with lands, with its other changes."""
    await own(store, worker, "r")
    await store.adopt(worker, "r", 1)
    await land(store, worker, entry("r", 1, row=release(epoch=1, status=RunStatus.SUSPENDED)))
    row = await row_of(store, "r")
    assert (row.owner, row.epoch, row.status) == (worker, 2, RunStatus.SUSPENDED)


async def test_a_park_of_an_ended_run_does_nothing(store: Store, worker: str) -> None:
    """An end absorbs."""
    await own(store, worker, "r")
    await land(store, worker, end("r"))
    before = await row_of(store, "r")
    await land(store, worker, park("r", wake_at=0))
    assert await row_of(store, "r") == before
    assert await claim(store, worker) == []


async def test_a_dead_workers_park_is_refused(store: Store, clock: Clock) -> None:
    """A park that arrives after its worker was marked dead changes nothing: its run is for the reaper to release."""
    zombie = await register(store, "zombie", clock.lease_us)
    await own(store, zombie, "a", "b")
    await clock.advance(store, clock.lease_us)
    await store.reap(limit=1)
    before = [await row_of(store, uid) for uid in "ab"]
    with pytest.raises(Fenced):
        await store.commit(zombie, [park("a"), park("b")])
    assert [await row_of(store, uid) for uid in "ab"] == before


# PROTOCOL F33
async def test_progress_resets_the_count_of_recoveries(store: Store, clock: Clock) -> None:
    """A run that moves is no suspect any more."""
    zombie = await register(store, "zombie", clock.lease_us)
    await own(store, zombie, "r")
    await clock.advance(store, clock.lease_us)
    await store.reap()
    taker = await register(store, "taker", HOUR)
    assert [claimed.recoveries for claimed in await store.claim(claiming(taker))] == [1]
    await land(store, taker, entry("r", 1))
    assert (await row_of(store, "r")).recoveries == 1
    await land(store, taker, entry("r", 2, row=RowChange(recovered=True)))
    assert (await row_of(store, "r")).recoveries == 0


async def test_effects_alone_leave_the_journal_alone(store: Store, worker: str) -> None:
    """A park without an entry writes no entry."""
    await own(store, worker, "r")
    await land(store, worker, Progress("r", -1, mark=77, effects=park("r").effects))
    assert len(await store.read_journal("r")) == 1
