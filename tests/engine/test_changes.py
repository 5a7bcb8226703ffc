"""Who waits for a run to move: told at once if it moves here, else by hints, else by looking (SPEC R6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from outlast.core.events import RunCompleted
from outlast.engine import changes as changes_module
from outlast.engine.changes import Changes, Watch
from outlast.stores.memory import MemoryStore
from outlast.testing.stores.writing import start

NOTHING_COMES_S = 0.005
END = RunCompleted(b"1")  # type: ignore[arg-type]  # nobody looks into it here


class HintingStore(MemoryStore):
    """Counts who asks for hints; `hint` gives one to who asked last."""

    subscribers = 0
    hint: Callable[[], None]

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        unsubscribe = super().subscribe(callback)
        self.subscribers += 1
        self.hint = callback

        def leave() -> None:
            self.subscribers -= 1
            unsubscribe()

        return leave


class Watching:
    """Changes of runs, some of which are hot here."""

    def __init__(self, store: HintingStore) -> None:
        self.store = store
        self.hot: set[str] = set()
        self.changes = Changes(store, self.hot.__contains__)

    async def is_woken(self, watch: Watch, *, is_hot: bool = True) -> bool:
        """Whether something has happened: what has not by now is taken never to."""
        try:
            async with asyncio.timeout(NOTHING_COMES_S):
                await watch.wait(is_hot=is_hot)
        except TimeoutError:
            return False
        return True


@pytest.fixture
async def watching():
    store = HintingStore()
    await store.open()
    yield Watching(store)
    await store.close()


# SPEC R6
async def test_a_run_that_moves_here_wakes_its_watchers_at_once(watching) -> None:
    """All of them, and those of no other run."""
    changes = watching.changes
    with changes.watching("a") as one, changes.watching("a") as two, changes.watching("b") as other:
        changes.moved("a", None)
        assert await watching.is_woken(one)
        assert await watching.is_woken(two)
        assert not await watching.is_woken(other)
        assert not await watching.is_woken(one), "once for each move"


async def test_who_waits_for_the_end_alone_is_woken_by_it_alone(watching) -> None:
    """A thousand steps of a run cost one who waits for its result nothing."""
    with watching.changes.watching("a", only_end=True) as watch:
        watching.changes.moved("a", None)
        assert not await watching.is_woken(watch)
        watching.changes.moved("a", END)
        assert await watching.is_woken(watch)
        assert watch.end is END


async def test_a_run_that_leaves_this_process_wakes_all_its_watchers(watching) -> None:
    """From now on another process may hear of its end first: they have to look again."""
    with watching.changes.watching("a", only_end=True) as watch:
        watching.changes.moved("a", None, left=True)
        assert await watching.is_woken(watch)
        assert watch.end is None


async def test_what_happens_between_two_waits_is_not_missed(watching) -> None:
    """A watcher that looks and then waits is woken by what came in between."""
    with watching.changes.watching("a") as watch:
        watching.changes.moved("a", None)
        watching.changes.moved("a", None)
        assert await watching.is_woken(watch)
        assert not await watching.is_woken(watch)


async def test_a_change_of_the_store_wakes_watchers_of_runs_elsewhere(watching, monkeypatch) -> None:
    """Those of hot runs hear of moves anyhow, and need no hint."""
    monkeypatch.setattr(changes_module, "FIRST_POLL_S", 60.0)
    monkeypatch.setattr(changes_module, "HINT_GAP_S", 0.001)
    watching.hot.add("here")
    with watching.changes.watching("here") as here, watching.changes.watching("there") as there:
        await watching.store.commit(None, [start("there")])
        await asyncio.wait_for(there.wait(), 20)
        assert not await watching.is_woken(here)


async def test_many_hints_are_passed_on_as_one(watching, monkeypatch) -> None:
    """A busy store hints a thousand times a second; who waits looks a hundred times at most."""
    monkeypatch.setattr(changes_module, "FIRST_POLL_S", 60.0)
    monkeypatch.setattr(changes_module, "HINT_GAP_S", 0.02)
    woken = 0

    async def count(watch: Watch) -> None:
        nonlocal woken
        while True:
            await watch.wait()
            woken += 1

    with watching.changes.watching("a") as watch:
        counting = asyncio.create_task(count(watch))
        for _ in range(20):
            watching.store.hint()
            await asyncio.sleep(0.0005)
        await asyncio.sleep(0.03)
        counting.cancel()
    assert 1 <= woken <= 5


async def test_without_hints_it_looks_slower_and_slower(watching, monkeypatch) -> None:
    """From 10 ms by 1.6 up to 1 s: all of it here in a thousandth of the time. A move makes it quick again."""
    monkeypatch.setattr(changes_module, "FIRST_POLL_S", 0.00001)
    monkeypatch.setattr(changes_module, "LAST_POLL_S", 0.001)
    with watching.changes.watching("a") as watch:
        waits = []
        for _ in range(12):
            waits.append(watch._poll_s)
            await watch.wait()
        assert waits[:3] == pytest.approx([0.00001, 0.000016, 0.0000256])
        assert waits[-1] == watch._poll_s == 0.001
        watching.changes.moved("a", None)
        await watch.wait()
        assert watch._poll_s == 0.00001


def test_the_figures_are_those_of_the_spec() -> None:
    """SPEC R6: polling from 10 ms by 1.6 up to 1 s."""
    assert (changes_module.FIRST_POLL_S, changes_module.POLL_FACTOR, changes_module.LAST_POLL_S) == (0.01, 1.6, 1.0)


async def test_the_store_is_asked_for_hints_only_while_somebody_watches(watching) -> None:
    """On some stores hints cost a poll or a connection."""
    changes, store = watching.changes, watching.store
    assert store.subscribers == 0
    with changes.watching("a"):
        with changes.watching("a"), changes.watching("b"):
            assert store.subscribers == 1
        assert store.subscribers == 1
        assert "a" in changes.watched
        assert "b" not in changes.watched
    assert (store.subscribers, list(changes.watched)) == (0, [])
    with changes.watching("a"):
        assert store.subscribers == 1
        changes.close()
        assert store.subscribers == 0


async def test_a_watcher_that_is_cancelled_leaves_nothing_behind(watching) -> None:
    """As when `result(timeout=…)` gives up."""

    async def wait() -> None:
        with watching.changes.watching("a") as watch:
            await watch.wait(is_hot=True)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    assert "a" in watching.changes.watched
    task.cancel()
    await asyncio.wait([task])
    assert (watching.store.subscribers, list(watching.changes.watched)) == (0, [])
    watching.changes.moved("a", END)
