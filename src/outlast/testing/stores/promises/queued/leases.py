"""Leases of queued steps: renewed while they run, told to stop, and lost when nobody renews (L6)."""

from __future__ import annotations

from outlast.stores.store import LOST_MESSAGE, Store, TaskOutcome
from outlast.testing.stores.clocks import Clock
from outlast.testing.stores.writing import (
    HOUR,
    claiming,
    complete,
    entry,
    inbox_of,
    is_due,
    land,
    message,
    own,
    park,
    register,
    task,
)


async def hold(store: Store, holder: str, lease_us: int, *keys: str) -> None:
    """Tasks of the run `r`, which nobody owns, held by this worker."""
    keeper = await register(store, "keeper", HOUR)
    await own(store, keeper, "r")
    await land(store, keeper, entry("r", 1, tasks=tuple(task(key) for key in keys)))
    claimed = await store.claim_tasks(claiming(holder), ["charge"], lease_us)
    assert sorted(found.key for found in claimed) == sorted(keys)
    await land(store, keeper, park("r"))


async def lost(store: Store) -> list[str]:
    """Ids of what the run was told is lost."""
    found = await inbox_of(store, "r")
    assert all((message.kind, message.payload) == (LOST_MESSAGE, b"null") for message in found)
    return sorted(message.id for message in found)


async def test_a_renewed_task_does_not_lapse(store: Store, worker: str, clock: Clock) -> None:
    """One call renews all tasks that a worker holds; none is to be given up."""
    await hold(store, worker, clock.lease_us, "a", "b")
    for progress in (b"1", b"2", b"3"):
        await clock.advance(store, clock.lease_us // 2)
        held = [("r", "a", 1, progress), ("r", "b", 1, progress)]
        assert await store.renew_tasks(worker, held, clock.lease_us) == []
    assert await store.lapse_tasks() == 0
    assert await inbox_of(store, "r") == []


# SPEC L6
async def test_a_task_that_nobody_renews_is_lost(store: Store, worker: str, clock: Clock) -> None:
    """Its run is told, once, and is due; the task is gone, and its holder's late outcome is dropped."""
    await hold(store, worker, clock.lease_us, "a")
    await clock.advance(store, clock.lease_us)
    assert await store.lapse_tasks() == 1
    assert await store.lapse_tasks() == 0
    assert await lost(store) == ["a#1"]
    assert await is_due(store, "r")
    assert not await complete(store, worker, TaskOutcome("r", "a", 1, b"1"))
    assert await store.renew_tasks(worker, [("r", "a", 1, b"")], HOUR) == [("r", "a", 1)]
    assert await lost(store) == ["a#1"]


async def test_tasks_lapse_in_pages(store: Store, worker: str, clock: Clock) -> None:
    """Many lost tasks are several transactions."""
    await hold(store, worker, clock.lease_us, *(f"k{n}" for n in range(5)))
    await clock.advance(store, clock.lease_us)
    assert [await store.lapse_tasks(limit=2) for _ in range(4)] == [2, 2, 1, 0]
    assert await lost(store) == [f"k{n}#1" for n in range(5)]


# SPEC L3
async def test_tasks_of_a_reaped_worker_lapse_at_once(store: Store, clock: Clock) -> None:
    """A dead worker's tasks do not wait for leases of their own, however long."""
    zombie = await register(store, "zombie", clock.lease_us)
    await hold(store, zombie, 1000 * HOUR, "a", "b")
    assert await store.lapse_tasks() == 0
    await clock.advance(store, clock.lease_us)
    while await store.reap() is not None:
        pass
    assert await store.lapse_tasks() == 2
    assert await lost(store) == ["a#1", "b#1"]


async def test_tasks_of_a_worker_lapse_while_it_is_reaped(store: Store, clock: Clock) -> None:
    """From the moment a worker is marked dead its tasks are lost, though runs of it are still to be released."""
    zombie = await register(store, "zombie", clock.lease_us)
    await own(store, zombie, "x", "y")
    await hold(store, zombie, 1000 * HOUR, "a")
    await clock.advance(store, clock.lease_us)
    reaped = await store.reap(limit=1)
    assert reaped is not None
    assert not reaped.done
    assert await store.lapse_tasks() == 1
    assert await lost(store) == ["a#1"]


async def test_tasks_of_a_retired_worker_lapse_at_once(store: Store, worker: str) -> None:
    """A claimed attempt counts as started: what a worker still held when it left is lost, and not handed on."""
    await hold(store, worker, 1000 * HOUR, "a")
    await store.retire(worker)
    assert await store.lapse_tasks() == 1
    assert await lost(store) == ["a#1"]


async def test_who_lost_a_task_is_told_so(store: Store, worker: str, other: str) -> None:
    """A renewal names what is to be given up: what is another's, another attempt's, or nowhere."""
    await hold(store, worker, HOUR, "a")
    held = [("r", "a", 1, b""), ("r", "a", 2, b""), ("r", "b", 1, b""), ("gone", "a", 1, b"")]
    assert await store.renew_tasks(worker, held, HOUR) == [("r", "a", 2), ("r", "b", 1), ("gone", "a", 1)]
    assert await store.renew_tasks(other, [("r", "a", 1, b"")], HOUR) == [("r", "a", 1)]
    assert await store.renew_tasks(worker, [], HOUR) == []


async def test_another_workers_renewal_does_not_keep_a_task(
    store: Store, worker: str, other: str, clock: Clock
) -> None:
    """Only the holder extends a lease."""
    await hold(store, worker, clock.lease_us, "a")
    await store.renew_tasks(other, [("r", "a", 1, b"")], HOUR)
    await clock.advance(store, clock.lease_us)
    assert await store.lapse_tasks() == 1


# --- stopping ---------------------------------------------------------------------------------------------------------


# SPEC X6
# SPEC D2
async def test_a_task_that_is_given_back_is_as_if_nobody_had_claimed_it(
    store: Store, worker: str, other: str, clock: Clock
) -> None:
    """Whoever cannot carry it out leaves it to others: the same attempt is due again, after a while; its run hears
    nothing of it, and the lease of before does not end it."""
    await hold(store, worker, clock.lease_us, "a", "b")
    pause = clock.lease_us // 4
    assert await store.release_tasks(worker, [("r", "a", 1)], pause) == []
    assert await store.claim_tasks(claiming(other), ["charge"], HOUR) == []
    assert [(row.key, row.owner is None) for row in await store.list_tasks("r")] == [("a", True), ("b", False)]
    await clock.advance(store, pause)
    [claimed] = await store.claim_tasks(claiming(other), ["charge"], HOUR)
    assert (claimed.key, claimed.attempt) == ("a", 1)
    await clock.advance(store, clock.lease_us)
    assert await store.lapse_tasks() == 1
    assert await lost(store) == ["b#1"]
    assert not await complete(store, worker, TaskOutcome("r", "a", 1, b"1"))
    assert await complete(store, other, TaskOutcome("r", "a", 1, b"1"))


async def test_only_a_holder_gives_a_task_back(store: Store, worker: str, other: str, clock: Clock) -> None:
    """What is another's, has another attempt, or is gone stays as it is; so does what is told to stop, of which its run
    waits to hear."""
    await hold(store, worker, clock.lease_us, "a", "b")
    held = [("r", "a", 1), ("gone", "a", 1)]
    assert await store.release_tasks(other, held, 0) == held
    assert await store.release_tasks(worker, [("r", "a", 2)], 0) == [("r", "a", 2)]
    assert await store.release_tasks(worker, [], 0) == []
    await store.send("r", message("wake"))
    [claimed] = await store.claim(claiming("keeper"))
    await land(store, "keeper", entry("r", 2, consumed=(1,), stopped=("a",)))
    assert claimed.uid == "r"
    assert await store.release_tasks(worker, [("r", "a", 1), ("r", "b", 1)], 0) == [("r", "a", 1)]
    assert [found.key for found in await store.claim_tasks(claiming(other), ["charge"], HOUR)] == ["b"]
    assert await complete(store, worker, TaskOutcome("r", "a", 1, b"1"))


async def test_a_stopped_runs_tasks_do_not_start(store: Store, worker: str) -> None:
    """Tasks nobody runs are deleted by a stop; the holder of one that runs is told at its next renewal."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, tasks=(task("a"), task("b"), task("c"))))
    [running] = await store.claim_tasks(claiming(worker, limit=1), ["charge"], HOUR)
    await land(store, worker, entry("r", 2, stop_tasks=True))
    assert await store.claim_tasks(claiming(worker), ["charge"], HOUR) == []
    assert await store.renew_tasks(worker, [("r", running.key, 1, b"")], HOUR) == [("r", running.key, 1)]
    rest = sorted({"a", "b", "c"} - {running.key})
    assert sorted(await store.lost_attempts("r", [("a", 1), ("b", 1), ("c", 1)])) == [(key, 1) for key in rest]


async def test_a_step_that_is_given_up_stops_alone(store: Store, worker: str) -> None:
    """Tasks of the keys that are named stop, as all do when the run stops; the others go on, and a newer attempt of the
    same key that comes with it does too."""
    await own(store, worker, "r", "s")
    await land(store, worker, entry("r", 1, tasks=(task("a"), task("b"), task("c"), task("d"))))
    await land(store, worker, entry("s", 1, tasks=(task("a"),)))
    held = await store.claim_tasks(claiming(worker, limit=5), ["charge"], HOUR)
    await land(store, worker, entry("r", 2, tasks=(task("e"), task("f"))))
    assert len(held) == 5
    await land(store, worker, entry("r", 3, stopped=("b", "e", "d", "gone"), tasks=(task("d", 2),)))
    leases = [("r", key, 1, b"") for key in "abc"]
    assert await store.renew_tasks(worker, leases, HOUR) == [("r", "b", 1)]
    assert await store.renew_tasks(worker, [("s", "a", 1, b"")], HOUR) == []
    claimed = await store.claim_tasks(claiming(worker), ["charge"], HOUR)
    assert sorted((found.key, found.attempt) for found in claimed) == [("d", 2), ("f", 1)]


async def test_a_stopped_task_may_still_have_its_outcome(store: Store, worker: str, clock: Clock) -> None:
    """A stop does not settle what runs: it ends with its outcome, or is lost, and the run is told either way."""
    await hold(store, worker, clock.lease_us, "a", "b")
    await store.send("r", message("wake"))
    [claimed] = await store.claim(claiming("keeper"))
    await land(store, "keeper", entry("r", 2, consumed=(1,), stop_tasks=True))
    assert claimed.uid == "r"
    assert await complete(store, worker, TaskOutcome("r", "a", 1, b"1"))
    await clock.advance(store, clock.lease_us)
    assert await store.lapse_tasks() == 1
    assert sorted(message.id for message in await inbox_of(store, "r")) == ["a#1", "b#1"]


async def test_a_stop_leaves_the_tasks_of_other_runs(store: Store, worker: str) -> None:
    """A stop is one run's."""
    await own(store, worker, "r", "s")
    await land(store, worker, entry("r", 1, tasks=(task(),)), entry("s", 1, tasks=(task(),)))
    await land(store, worker, entry("r", 2, stop_tasks=True))
    assert [found.run for found in await store.claim_tasks(claiming(worker), ["charge"], HOUR)] == ["s"]


async def test_a_stop_leaves_the_tasks_that_come_with_it(store: Store, worker: str) -> None:
    """The entry that stops a body may queue the first compensation."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, tasks=(task("charge"),)))
    await land(store, worker, entry("r", 2, stop_tasks=True, tasks=(task("refund"),)))
    assert [found.key for found in await store.claim_tasks(claiming(worker), ["charge"], HOUR)] == ["refund"]


# --- at load ----------------------------------------------------------------------------------------------------------


# PROTOCOL F17
async def test_an_attempt_without_task_and_message_is_lost(store: Store, worker: str) -> None:
    """A taker learns which open attempts nobody works on and nobody will report."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, tasks=(task("queued"), task("running"), task("done"), task("second", 2))))
    await store.claim_tasks(claiming(worker, limit=4), ["charge"], HOUR)
    await complete(store, worker, TaskOutcome("r", "done", 1, b"1"))
    open_attempts = [("queued", 1), ("running", 1), ("done", 1), ("never", 1), ("second", 1), ("second", 2)]
    assert await store.lost_attempts("r", open_attempts) == [("never", 1), ("second", 1)]
    assert await store.lost_attempts("r", []) == []
    assert await store.lost_attempts("gone", [("a", 1)]) == [("a", 1)]
