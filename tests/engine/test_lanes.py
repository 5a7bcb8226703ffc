"""Lanes: short attempts share a task, and no attempt notices that it does."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable

import pytest

from outlast.engine.attempts.lanes import Lanes

Item = Callable[[], Awaitable[None]]

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


class Track:
    """Lanes whose items are functions; notes in which task each began, and who ended in which order."""

    def __init__(self) -> None:
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.ended: list[str] = []
        self.cancelled: list[str] = []
        self.lanes: Lanes[tuple[str, Item]] = Lanes(asyncio.get_running_loop(), self._execute)

    def run(self, name: str, item: Item) -> None:
        self.lanes.run((name, item), contextvars.copy_context())

    async def until_ended(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.ended) < count:
                await asyncio.sleep(0)

    async def _execute(self, named: tuple[str, Item], lane: asyncio.Task[None]) -> None:
        name, item = named
        assert lane is asyncio.current_task()
        self.tasks[name] = lane
        try:
            await item()
        except asyncio.CancelledError:
            self.cancelled.append(name)
        self.ended.append(name)


async def no_wait() -> None:
    pass


async def test_what_does_not_wait_shares_a_task() -> None:
    """One task for all three, and none is left behind."""
    track = Track()
    for name in "abc":
        track.run(name, no_wait)
    await track.until_ended(3)
    assert track.ended == ["a", "b", "c"]
    assert len(set(track.tasks.values())) == 1
    assert track.lanes.open is None


async def test_what_waits_holds_nobody_up() -> None:
    """Those behind it go on in another task; two that wait have one each."""
    track, gate = Track(), asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    for name, item in {"a": no_wait, "b": wait, "c": no_wait, "d": wait, "e": no_wait}.items():
        track.run(name, item)
    await track.until_ended(3)
    assert track.ended == ["a", "c", "e"]
    gate.set()
    await track.until_ended(5)
    assert track.tasks["b"] is not track.tasks["d"]


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


async def test_each_has_a_context_of_its_own_also_behind_a_wait() -> None:
    """What one sets, the next in its lane does not see, and it sees it again when it goes on."""
    track = Track()
    seen: list[tuple[str, str]] = []

    def become(name: str, *, waits: bool) -> Item:
        async def item() -> None:
            before = WHO.get()
            WHO.set(name)
            if waits:
                await asyncio.sleep(0.01)
            seen.append((before, WHO.get()))

        return item

    for name in "abcd":
        track.run(name, become(name, waits=name in "bd"))
    await track.until_ended(4)
    assert sorted(seen) == [("nobody", "a"), ("nobody", "b"), ("nobody", "c"), ("nobody", "d")]
    assert WHO.get() == "nobody"


async def test_the_tools_of_asyncio_work_within() -> None:
    """A time-out and a group cancel the task they are in: it must be the item's own by then."""
    track = Track()
    caught: list[str] = []

    async def time_out() -> None:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            caught.append("timeout")

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError

    async def group() -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(fail())
                await asyncio.Event().wait()
        except* ValueError:
            caught.append("group")

    for name, item in {"a": time_out, "b": group, "c": no_wait}.items():
        track.run(name, item)
    await track.until_ended(3)
    assert (sorted(caught), track.cancelled, track.ended[0]) == (["group", "timeout"], [], "c")


async def test_what_gets_out_of_one_stops_no_other() -> None:
    """The lane fails with it; what stood behind it has a new one."""
    track = Track()

    async def fail() -> None:
        raise ValueError("of the first")

    track.run("a", fail)
    track.run("b", no_wait)
    lane = track.lanes.open
    assert lane is not None
    with pytest.raises(ValueError, match="of the first"):
        await lane
    await track.until_ended(1)
    assert track.ended == ["b"]


async def test_what_is_begun_by_another_follows_in_the_same_lane() -> None:
    """No task is made for it."""
    track = Track()

    async def begin_another() -> None:
        track.run("b", no_wait)

    track.run("a", begin_another)
    await track.until_ended(2)
    assert track.tasks["a"] is track.tasks["b"]


async def test_a_lane_that_was_cancelled_before_it_began_is_followed_by_another() -> None:
    """By code that cancels every task it finds. What stood in it is carried out with what comes next."""
    track = Track()
    track.run("a", no_wait)
    lane = track.lanes.open
    assert lane is not None
    lane.cancel()
    await asyncio.wait([lane])
    track.run("b", no_wait)
    await track.until_ended(2)
    assert track.ended == ["a", "b"]
