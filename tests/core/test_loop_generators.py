"""Async generators of a body: closed by its loop, never by the collector."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

from outlast.core.loop import BodyLoop


async def count(
    log: list[str], name: str, *, error: Exception | None = None, waits: bool = False
) -> AsyncIterator[int]:
    try:
        yield 1
        yield 2
    finally:
        if waits:
            await asyncio.sleep(1)
        log.append(f"{name} on {type(asyncio.get_running_loop()).__name__}")
        if error is not None:
            raise error


async def leave_early(log: list[str], *names: str, **how) -> None:
    for name in names:
        async for _ in count(log, name, **how):
            break


def test_a_generator_left_early_stays_open_until_the_body_ends() -> None:
    """The collector does not close it; the loop does, in the body, oldest first."""
    log: list[str] = []
    loop = BodyLoop(start_us=0)
    loop.spawn_root(leave_early(log, "first", "second"))
    loop.drain()
    gc.collect()
    assert log == []
    loop.close_generators()
    loop.drain()
    assert log == ["first on BodyLoop", "second on BodyLoop"]
    assert loop.live_tasks() == []
    loop.close_generators()
    assert loop.live_tasks() == []


def test_a_generators_end_may_wait() -> None:
    """While a `finally` waits, the closing task is alive: the run has not ended."""
    log: list[str] = []
    loop = BodyLoop(start_us=0)
    loop.spawn_root(leave_early(log, "first", "second", waits=True))
    loop.drain()
    loop.close_generators()
    for expected in (["first on BodyLoop"], ["first on BodyLoop", "second on BodyLoop"]):
        loop.drain()
        assert len(loop.live_tasks()) == 1
        timer = loop.next_timer()
        assert timer is not None
        loop.fire_timer(timer.ordinal)
        loop.drain()
        assert log == expected
    assert loop.live_tasks() == []


def test_a_generator_that_fails_to_close_does_not_keep_the_others_open() -> None:
    """The error is noted, and the next is closed."""
    log: list[str] = []
    loop = BodyLoop(start_us=0)
    loop.spawn_root(leave_early(log, "first", error=ValueError("no")))
    loop.spawn_root(leave_early(log, "second"))
    loop.drain()
    loop.close_generators()
    loop.drain()
    assert log == ["first on BodyLoop", "second on BodyLoop"]
    assert [str(unhandled.error) for unhandled in loop.unhandled] == ["no"]


def test_a_generator_that_ends_is_not_kept() -> None:
    """A body that runs through many generators holds few."""
    loop = BodyLoop(start_us=0)

    async def body() -> int:
        total = 0
        for _ in range(1000):
            async for number in count([], "x"):
                total += number
        return total

    root = loop.spawn_root(body())
    loop.drain()
    assert root.result() == 3000
    assert len(loop._generators._held) <= 17


def test_the_hosts_generators_are_the_hosts() -> None:
    """One that the host began is finished by the host when it is dropped; a body's waits for its own loop."""
    log: list[str] = []

    async def host() -> None:
        loop = BodyLoop(start_us=0)
        loop.spawn_root(leave_early(log, "body's"))
        loop.drain()
        await leave_early(log, "host's")
        await asyncio.sleep(0)
        gc.collect()
        await asyncio.sleep(0)
        assert [line.split()[0] for line in log] == ["host's"]
        loop.evict()

    asyncio.run(host())
    assert [line.split()[0] for line in log] == ["host's", "body's"]
