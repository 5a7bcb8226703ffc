"""Lanes: a cancel hits the one it is for, whenever it comes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest

from tests.engine.lanes import Item, Track, no_wait


async def test_a_cancel_hits_the_one_that_waits_and_no_other() -> None:
    """Two wait; one is told to stop."""
    track, gate = Track(), asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    for name, item in {"a": wait, "b": no_wait, "c": wait}.items():
        track.run(name, item)
    await track.until_ended(1)
    track.tasks["a"].cancel()
    await track.until_ended(2)
    gate.set()
    await track.until_ended(3)
    assert track.cancelled == ["a"]


async def test_who_cancels_his_own_task_and_ends_takes_nobody_with_him() -> None:
    """The cancel would reach the task at its next wait, which is somebody else's."""
    track = Track()

    async def cancel_myself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def wait() -> None:
        await asyncio.sleep(0)

    for name, item in {"a": cancel_myself, "b": wait, "c": no_wait}.items():
        track.run(name, item)
    await track.until_ended(3)
    assert track.cancelled == []


async def test_a_lane_that_was_cancelled_while_it_was_nobodys_is_followed_by_another() -> None:
    """By code that cancels every task it finds."""
    track = Track()
    track.run("a", no_wait)
    track.lanes.begin()
    track.tasks["a"].cancel()
    track.run("b", no_wait)
    track.lanes.begin()
    await asyncio.wait([track.tasks["a"]])
    track.run("c", no_wait)
    track.lanes.begin()
    assert track.ended == ["a", "b", "c"]
    assert track.cancelled == []
    assert track.tasks["b"] is track.tasks["c"]


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_a_cancel_that_comes_at_once_is_heard(turns: int) -> None:
    """Before the task knows what it waits for, and after: what it waits for is cancelled, as asyncio does."""
    track = Track()
    inner: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        await inner

    track.run("a", wait)
    track.lanes.begin()
    for _ in range(turns):
        await asyncio.sleep(0)
    track.tasks["a"].cancel("enough")
    await track.until_ended(1)
    assert track.cancelled == ["a"]
    assert inner.cancelled()


async def test_who_cancels_his_own_task_hears_it_at_his_next_wait() -> None:
    """Whether that is a future, or only a turn of the loop; and may go on behind it."""
    track = Track()

    def cancel_myself(waiting: Callable[[], Awaitable[None]]) -> Item:
        async def item() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await waiting()
                track.ended.append("not heard")
            task.uncancel()
            await asyncio.sleep(0)

        return item

    async def give_way() -> None:
        await asyncio.sleep(0)

    async def wait() -> None:
        await asyncio.Event().wait()

    track.run("a", cancel_myself(give_way))
    track.run("b", cancel_myself(wait))
    await track.until_ended(2)
    assert sorted(track.ended) == ["a", "b"]
    assert track.cancelled == []


@pytest.mark.parametrize("turns", [0, 1, 3])
async def test_a_cancel_that_was_taken_back_reaches_nobody(turns: int) -> None:
    """As a group of tasks does whose first one fails at once: neither him nor the next who would have had the lane."""
    track = Track()

    async def cancel_and_take_back() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        task.uncancel()

    async def and_wait() -> None:
        await cancel_and_take_back()
        await asyncio.sleep(0.001)

    async def wait() -> None:
        await asyncio.sleep(0.001)

    track.run("a", no_wait)
    track.lanes.begin()
    await asyncio.sleep(0)
    for name, item in {"b": cancel_and_take_back, "c": wait}.items():
        track.run(name, item)
        track.lanes.begin()
        for _ in range(turns):
            await asyncio.sleep(0)
    track.run("d", no_wait)
    track.lanes.begin()
    await asyncio.sleep(0)
    track.run("e", and_wait)
    track.lanes.begin()
    await track.until_ended(5)
    assert track.cancelled == []
