"""Lanes: short attempts share a task, and no attempt notices that it does."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import types
from collections.abc import Awaitable, Generator
from typing import Any

import pytest

from outlast.engine.attempts.lanes import Lanes
from tests.engine.lanes import WHO, Item, Track, no_wait


async def test_what_does_not_wait_shares_a_task() -> None:
    """One task for all three, and none is left behind when no more are to come."""
    track = Track()
    for name in "abc":
        track.run(name, no_wait)
    await track.until_ended(3)
    assert track.ended == ["a", "b", "c"]
    (lane,) = set(track.tasks.values())
    track.lanes.close()
    await asyncio.wait([lane])
    assert lane.cancelled()


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
    track.lanes.begin()
    assert track.ended == ["b"]
    with pytest.raises(ValueError, match="of the first"):
        await track.tasks["a"]


async def test_what_is_begun_by_another_follows_in_the_same_lane() -> None:
    """No task is made for it."""
    track = Track()

    async def begin_another() -> None:
        track.run("b", no_wait)

    track.run("a", begin_another)
    await track.until_ended(2)
    assert track.tasks["a"] is track.tasks["b"]


async def test_all_begin_where_they_are_told_to() -> None:
    """No turn of the event loop lies between, and whose task it was is current again."""
    track, here = Track(), asyncio.current_task()

    async def wait() -> None:
        await asyncio.sleep(0)

    for name, item in {"a": no_wait, "b": wait, "c": no_wait, "d": wait}.items():
        track.run(name, item)
    track.lanes.begin()
    assert track.ended == ["a", "c"]
    assert asyncio.current_task() is here
    assert here not in track.tasks.values()
    await track.until_ended(4)


async def test_two_may_wait_for_the_same() -> None:
    """One that has just begun and tasks that began before wait for one future, whoever came first."""
    track = Track()
    shared: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def wait() -> None:
        await shared

    track.run("a", wait)
    track.lanes.begin()
    other = asyncio.ensure_future(wait())
    track.run("b", wait)
    track.lanes.begin()
    await asyncio.sleep(0.01)
    shared.set_result(None)
    await track.until_ended(2)
    await other
    assert track.cancelled == []


async def test_who_waits_for_what_is_no_future_is_told() -> None:
    """By his task, as anywhere in asyncio."""
    track = Track()
    told: list[str] = []

    @types.coroutine
    def yield_a_word() -> Generator[str, None, None]:
        yield "word"

    async def item() -> None:
        try:
            await yield_a_word()
        except RuntimeError as error:
            told.append(str(error))

    track.run("a", item)
    track.lanes.begin()
    await track.until_ended(1)
    assert "bad yield" in told[0]


async def test_task_factories_may_wrap_a_lane() -> None:
    """As those of tracing do: what waits goes on in it, and is cancelled in it."""
    loop = asyncio.get_running_loop()

    async def wrap(coroutine: Awaitable[None]) -> None:
        await coroutine

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        return asyncio.Task(wrap(coroutine), loop=loop, **options)

    loop.set_task_factory(factory)
    try:
        track = Track()

        async def wait() -> None:
            for _ in range(3):
                await asyncio.sleep(0.001)

        async def wait_for_ever() -> None:
            await loop.create_future()

        for name, item in {"a": wait, "b": wait_for_ever, "c": no_wait}.items():
            track.run(name, item)
        track.lanes.begin()
        await track.until_ended(2)
        track.tasks["b"].cancel()
        await track.until_ended(3)
        assert (track.ended, track.cancelled) == (["c", "a", "b"], ["b"])
        track.lanes.close()
        await asyncio.sleep(0)
    finally:
        loop.set_task_factory(None)


async def test_what_is_dropped_while_it_waits_is_closed_in_its_context() -> None:
    """A loop that is gone leaves tasks behind: what they held is cleaned up as itself."""
    track = Track()
    seen: list[str] = []

    async def item() -> None:
        WHO.set("a")
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            seen.append(WHO.get())

    async def execute(_: object, __: object) -> None:
        await item()

    lanes: Lanes[object] = Lanes(asyncio.get_running_loop(), execute)
    lanes.run(None, contextvars.copy_context())
    lanes.begin()
    await asyncio.sleep(0)
    lost = [task for task in asyncio.all_tasks() if task.get_name() == "outlast-lane"]
    assert len(lost) == 1
    lost[0]._log_destroy_pending = False  # type: ignore[attr-defined]
    lost.clear()
    del track
    gc.collect()
    assert seen == ["a"]
