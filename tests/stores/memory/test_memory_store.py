"""What is the in-memory store's own: names, threads, and fences that can be taken away."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest

from outlast.errors import InvalidSetting
from outlast.stores.memory import MemoryStore
from outlast.stores.memory.tables import Tables
from outlast.stores.store import Effects, NewRun, Progress, WorkerRow
from outlast.testing.stores.writing import HOUR, claiming, entry, land, own, queue, register, row_of
from tests.simulation.fixes import ALL_FIXES, WeakStore
from tests.simulation.simulation import Simulation


async def opened(url: str = "memory://") -> MemoryStore:
    store = MemoryStore(url)
    await store.open()
    return store


async def test_a_nameless_store_is_the_objects_own():
    """Two apps on `memory://` have nothing in common."""
    first, second = await opened(), await opened()
    await queue(first, "r")
    assert await second.find_uid("r") is None


async def test_a_name_is_shared_in_the_process():
    """Apps on the same name see the same runs, and find them again after all of them were closed."""
    first = await opened("memory://shared by name")
    await queue(first, "r")
    await first.close()
    second = await opened("memory://shared by name")
    assert (await row_of(second, "r")).id == "id of r"
    assert await (await opened("memory://another name")).find_uid("r") is None


def test_another_scheme_is_refused():
    """A URL of another store says so at once."""
    with pytest.raises(InvalidSetting, match="memory://"):
        MemoryStore("sqlite:///x.db")


async def test_a_handle_reopens():
    """A closed handle can be opened again, on the data it had."""
    store = await opened()
    await queue(store, "r")
    await store.close()
    await store.open()
    assert await store.find_uid("r") is not None


async def test_the_clock_may_be_a_tests():
    """The store's time is what the given clock says."""
    now = 5
    store = MemoryStore(clock=lambda: now)
    await store.open()
    assert await store.now() == 5
    now = 7
    assert await store.now() == 7


def test_threads_share_a_store():
    """Apps in several threads, each with an event loop of its own, commit to one store without losing an entry."""
    url = "memory://of several threads"
    failures: list[BaseException] = []

    async def work(number: int) -> None:
        store = await opened(url)
        worker = await register(store, f"w{number}", HOUR)
        await own(store, worker, f"r{number}")
        for seq in range(1, 200):
            await land(store, worker, entry(f"r{number}", seq, sends=()))
            await queue(store, f"q{number}-{seq}")
            assert store.renew(worker, HOUR) is not None
            await store.claim(claiming(worker, limit=1))

    def run(number: int) -> None:
        try:
            asyncio.run(work(number))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    check_tables(MemoryStore(url)._tables)


async def test_a_hint_crosses_threads():
    """Who listens in one thread hears what happens in another, on their own event loop."""
    store = await opened("memory://heard across threads")
    told = asyncio.Event()
    here = threading.get_ident()
    threads: list[int] = []

    def on_hint() -> None:
        threads.append(threading.get_ident())
        told.set()

    stop = store.subscribe(on_hint)

    async def elsewhere() -> None:
        await queue(await opened("memory://heard across threads"), "r")

    await asyncio.to_thread(lambda: asyncio.run(elsewhere()))
    await asyncio.wait_for(told.wait(), 20)
    stop()
    assert set(threads) == {here}


async def test_hints_are_gathered():
    """A burst of changes is one call, after the burst."""
    store = await opened()
    calls: list[int] = []
    store.subscribe(lambda: calls.append(1))
    for n in range(100):
        await queue(store, f"r{n}")
    assert calls == []
    await asyncio.sleep(0)
    assert calls == [1]
    await store.close()


def test_a_loop_that_died_is_no_harm():
    """A listener whose event loop was closed without leaving is forgotten, and the change happens."""
    store = MemoryStore("memory://with a dead listener")

    async def listen() -> None:
        await store.open()
        store.subscribe(lambda: None)

    async def change() -> None:
        await queue(store, "r")
        assert await store.find_uid("r") is not None

    asyncio.run(listen())
    asyncio.run(change())


# PROTOCOL F3
async def test_orphans_are_taken_back():
    """Runs whose owner has no row are released when the sweep asks for them: the second line behind the fences."""
    now = 0
    store = WeakStore(ALL_FIXES.without("worker_fence"), lambda: now)
    await store.open()
    await store.register(WorkerRow("alive", "host", 1), HOUR)
    start = Effects(start=NewRun("a", "w", "1", claimed=True))
    await store.commit("never registered", [Progress("r", 0, mark=1, events=b"[]", effects=start)])
    assert await store.reap() is None
    reaped = await store.reap(orphans=True)
    assert reaped is not None
    assert (reaped.runs, reaped.done) == (1, True)
    row = await row_of(store, "r")
    assert (row.owner, row.recoveries, row.wake_at) == (None, 1, 0)
    assert await store.reap(orphans=True) is None


# --- the tables -------------------------------------------------------------------------------------------------------


def check_tables(tables: Tables) -> None:
    """What `tables.py` says always holds."""
    for run in tables.runs.values():
        assert (run.owner is not None) == (run.uid in tables.owned.get(run.owner or "", {}))
        assert (run.ticket != 0) == (run.wake_at is not None)
        assert run.wake_at is None or (run.live and run.owner is None)
        assert (run.uid in tables.unread) == bool(run.inbox)
        assert {message.id: no for no, message in run.inbox.items()} == run.message_ids
        assert [entry.seq for entry in run.journal] == list(range(len(run.journal)))
        for task in run.tasks.values():
            assert (task.ticket != 0) == (task.owner is None)
            assert (task in tables.held_tasks) == (task.owner is not None)
    assert all(run.tasks[task.new.key] is task for task, run in tables.held_tasks.items())
    assert all(runs for runs in tables.owned.values())
    assert sum(map(len, tables.owned.values())) == sum(run.owner is not None for run in tables.runs.values())
    assert {uid for uid, run in tables.runs.items() if tables.holders.get(run.new.id) is run} == {
        run.uid for run in tables.holders.values()
    }


@pytest.mark.parametrize("seed", range(20))
def test_the_indexes_follow_the_rows(seed: int):
    """Whatever workers, clients and misfortunes do: the indexes say what the rows say."""
    simulation = Simulation(ALL_FIXES, random.Random(seed))
    for _ in range(80):
        simulation.perform(simulation.choose())
        check_tables(simulation.scene.store._tables)
