"""The look of an idle worker: one cheap call that says whether there is anything to do (Q5, F40)."""

from __future__ import annotations

from outlast.stores.store import Store, TaskOutcome
from outlast.testing.stores.clocks import Clock
from outlast.testing.stores.writing import (
    HOUR,
    claim,
    claiming,
    complete,
    end,
    entry,
    land,
    message,
    own,
    park,
    queue,
    register,
    send_to,
    task,
)


# SPEC Q5; PROTOCOL F40
async def test_there_is_nothing_to_do(store: Store, worker: str) -> None:
    """With nothing due, no mail, no task and nobody dead a look says so, and the time."""
    before = await store.now()
    look = await store.look(claiming(worker))
    assert before <= look.now <= await store.now()
    assert (look.due, look.next_at, look.mail, look.tasks, look.dead) == (False, None, (), False, False)
    assert (look.stopped, look.lapsed) == (False, False)


async def test_a_look_sees_what_a_claim_would_get(store: Store, worker: str) -> None:
    """A run is due when it is of the worker's queues and its deploy is not unfit; owned and ended runs are not."""
    await queue(store, "r", queue="gpu")
    assert not (await store.look(claiming(worker))).due
    assert not (await store.look(claiming(worker, queues=()))).due
    assert (await store.look(claiming(worker, queues=("gpu",)))).due
    await claim(store, worker, queues=("gpu",))
    assert not (await store.look(claiming(worker, queues=("gpu",)))).due
    await land(store, worker, park("r", wake_at=0, unfit="deploy-1"))
    look = await store.look(claiming(worker, queues=("gpu",)))
    assert (look.due, look.next_at) == (False, None)
    assert (await store.look(claiming(worker, queues=("gpu",), deploy="deploy-2"))).due
    assert await claim(store, worker, queues=("gpu",), deploy="deploy-2") == ["r"]
    await land(store, worker, end("r"))
    assert not (await store.look(claiming(worker, queues=("gpu",), deploy="deploy-2"))).due


async def test_a_look_says_when_to_look_again(store: Store, worker: str, clock: Clock) -> None:
    """`next_at` is when the next run that the worker may claim will be due."""
    now = await store.now()
    await queue(store, "later", wake_at=now + HOUR)
    await queue(store, "soon", wake_at=now + clock.lease_us, priority=9)
    await queue(store, "sooner", wake_at=now + 1, queue="gpu")
    look = await store.look(claiming(worker))
    assert (look.due, look.next_at) == (False, now + clock.lease_us)
    await clock.advance(store, clock.lease_us)
    assert (await store.look(claiming(worker))).due
    await claim(store, worker)
    look = await store.look(claiming(worker))
    assert (look.due, look.next_at) == (False, now + HOUR)


async def test_a_look_names_the_runs_that_have_mail(store: Store, worker: str, other: str) -> None:
    """Unread messages of the worker's own runs are named by run, until they are consumed."""
    await own(store, worker, "a", "b", "c")
    await own(store, other, "d")
    await queue(store, "e")
    for uid in ("a", "b", "d", "e"):
        await store.send(uid, message("m1"))
        await store.send(uid, message("m2"))
    assert sorted((await store.look(claiming(worker))).mail) == ["a", "b"]
    assert (await store.look(claiming(other))).mail == ("d",)
    await land(store, worker, entry("a", 1, consumed=(1, 2)), entry("b", 1, consumed=(1,)))
    assert (await store.look(claiming(worker))).mail == ("b",)
    await land(store, worker, park("b"))
    assert (await store.look(claiming(worker))).mail == ()


async def test_a_look_names_500_runs_at_most(store: Store, worker: str) -> None:
    """A worker with mail for a thousand runs reads it in rounds."""
    uids = [f"r{n}" for n in range(600)]
    await own(store, worker, "s", *uids)
    await land(store, worker, entry("s", 1, sends=tuple(send_to(uid) for uid in uids)))
    mail = (await store.look(claiming(worker))).mail
    assert len(set(mail)) == len(mail) == 500
    assert set(mail) <= set(uids)


async def test_a_look_sees_due_tasks(store: Store, worker: str, clock: Clock) -> None:
    """A task of the worker's queues that nobody runs, once it is due."""
    await own(store, worker, "r")
    due_at = await store.now() + clock.lease_us
    await land(store, worker, entry("r", 1, tasks=(task("a", due_at=due_at), task("b", queue="gpu"))))
    assert not (await store.look(claiming(worker))).tasks
    await clock.advance(store, clock.lease_us)
    assert (await store.look(claiming(worker))).tasks
    await store.claim_tasks(claiming(worker), ["charge"], HOUR)
    assert not (await store.look(claiming(worker))).tasks
    await complete(store, worker, TaskOutcome("r", "a", 1, b"1"))
    assert not (await store.look(claiming(worker))).tasks


async def test_a_look_sees_the_dead(store: Store, worker: str, clock: Clock) -> None:
    """Somebody whose lease lapsed is to be reaped, until that is done."""
    await register(store, "zombie", clock.lease_us)
    await own(store, "zombie", "a", "b")
    assert not (await store.look(claiming(worker))).dead
    await clock.advance(store, clock.lease_us)
    assert (await store.look(claiming(worker))).dead
    await store.reap(limit=1)
    assert (await store.look(claiming(worker))).dead
    while await store.reap() is not None:
        pass
    assert not (await store.look(claiming(worker))).dead


async def test_a_look_sees_tasks_that_are_to_stop(store: Store, worker: str, other: str) -> None:
    """Who holds a task that was told to stop need not wait for its next renewal; the others are not bothered."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, tasks=(task("a"), task("b"))))
    await store.claim_tasks(claiming(other, limit=1), ["charge"], HOUR)
    assert not (await store.look(claiming(other))).stopped
    await land(store, worker, entry("r", 2, stopped=("a", "b")))
    assert (await store.look(claiming(other))).stopped
    assert not (await store.look(claiming(worker))).stopped
    await complete(store, other, TaskOutcome("r", "a", 1, b"1"))
    assert not (await store.look(claiming(other))).stopped


async def test_a_look_sees_tasks_whose_lease_is_over(store: Store, worker: str, other: str, clock: Clock) -> None:
    """A worker that lives may lose a task; somebody has to take it for lost."""
    await own(store, worker, "r")
    await land(store, worker, entry("r", 1, tasks=(task("a"),)))
    assert not (await store.look(claiming(worker))).lapsed
    await store.claim_tasks(claiming(other), ["charge"], clock.lease_us)
    assert not (await store.look(claiming(worker))).lapsed
    await clock.advance(store, clock.lease_us)
    assert (await store.look(claiming(worker))).lapsed
    await store.lapse_tasks()
    assert not (await store.look(claiming(worker))).lapsed
