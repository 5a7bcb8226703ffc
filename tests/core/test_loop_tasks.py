"""The tasks of a body: their contexts, names and order, and where they wait."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import weakref
from collections.abc import AsyncIterator

from outlast.core.loop import BodyLoop
from tests.core.loop_bodies import pause, run_body

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def test_nothing_of_the_starters_context_leaks_into_a_body() -> None:
    """The root starts in an empty context, a child in a copy of its parent's, and neither changes the host's."""

    async def child() -> str:
        before = variable.get()
        variable.set("child")
        return before

    async def body() -> list[str]:
        seen = [variable.get()]
        variable.set("body")
        seen.append(await asyncio.create_task(child()))
        return [*seen, variable.get()]

    variable.set("starter")
    assert run_body(body).result() == ["unset", "body", "body"]
    assert variable.get() == "starter"
    loop = BodyLoop(start_us=0)
    root = loop.spawn_root(body(), context=contextvars.copy_context())
    loop.drain()
    assert root.result() == ["starter", "body", "body"]


def test_tasks_are_named_and_counted_by_run() -> None:
    """Names and hashes are ordinals of the run: the same in every process, whatever else the process runs."""

    async def body() -> list[object]:
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(pause()), loop.create_task(pause(), name="mine")]
        futures = [loop.create_future(), asyncio.gather(*tasks)]
        await futures[1]
        return [*(task.get_name() for task in tasks), *(hash(it) for it in (*tasks, *futures))]

    first, second = (run_body(body).result() for _ in range(2))
    assert first == second == ["task-2", "mine", 2, 3, 4, 5]


def test_two_tasks_with_one_hash_are_two() -> None:
    """Tasks of two runs share ordinals; each is equal to itself alone."""
    loops = [BodyLoop(start_us=0) for _ in range(2)]
    one, other = (loop.spawn_root(pause()) for loop in loops)
    assert hash(one) == hash(other)
    assert one != other
    assert len({one, other}) == 2
    for loop in loops:
        loop.evict()


def test_the_host_does_not_see_a_bodys_tasks_and_the_body_sees_its_own() -> None:
    """`asyncio.all_tasks()` of the host is not filled with bodies; in a body it is that body's."""

    async def body() -> set[asyncio.Task | None]:
        task = asyncio.create_task(pause())
        return asyncio.all_tasks() ^ {task, asyncio.current_task()}

    async def host() -> int:
        loop = BodyLoop(start_us=0)
        root = loop.spawn_root(body())
        seen = len(asyncio.all_tasks())
        loop.drain()
        assert root.result() == set()
        return seen

    assert asyncio.run(host()) == 1


def test_a_task_is_held_until_it_is_done_and_not_much_longer() -> None:
    """A task nobody else holds lives on; of those that are done only a few are kept."""
    loop = BodyLoop(start_us=0)
    waiting = weakref.ref(loop.spawn_root(asyncio.Event().wait()))
    done = []
    for _ in range(200):
        done.append(weakref.ref(loop.spawn_root(pause())))
        loop.drain()
    gc.collect()
    assert waiting() in loop.live_tasks()
    assert sum(ref() is not None for ref in done) < 20
    loop.evict()


def test_the_others_are_cancelled_oldest_first() -> None:
    """When the root has ended, its tasks are cancelled in the order they were made; the root is not."""
    loop = BodyLoop(start_us=0)
    ended: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    root, *_ = [loop.spawn_root(wait(number)) for number in range(5)]
    loop.drain()
    loop.cancel_others(root)
    loop.drain()
    assert ended == [1, 2, 3, 4]
    assert loop.live_tasks() == [root]
    loop.evict()


def test_stacks_say_where_each_task_waits() -> None:
    """A stack goes through all that is awaited, generators too, down to the innermost frame."""

    async def innermost() -> None:
        await asyncio.Event().wait()

    async def numbers() -> AsyncIterator[int]:
        await innermost()
        yield 1

    async def outermost() -> None:
        async for _ in numbers():
            pass

    loop = BodyLoop(start_us=0)
    loop.spawn_root(outermost())
    loop.drain()
    loop.spawn_root(pause())
    stacks = loop.task_stacks()
    names = [line.rpartition(" in ")[2] for line in stacks.splitlines() if line.startswith("  File")]
    assert names == ["outermost", "numbers", "innermost", "wait", "pause"]
    assert stacks.index("task-1:") < stacks.index("in outermost") < stacks.index("task-2:")
    loop.evict()
