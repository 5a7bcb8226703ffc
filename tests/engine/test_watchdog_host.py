"""The watchdog names steps that block the event loop (SPEC S6)."""

from __future__ import annotations

import asyncio
import threading
import time

from tests.engine.watching import drain, spin_until


# SPEC S6
async def test_a_step_that_blocks_the_event_loop_is_named(make_watchdog, heard) -> None:
    """One warning for each stall, with the steps under way and the stack; none while the loop ticks."""

    def blocking_step() -> None:
        assert heard.event("WARNING").wait(20)
        end = time.monotonic() + 0.1
        spin_until(lambda: time.monotonic() > end)

    loop = asyncio.get_running_loop()
    watchdog = make_watchdog(loop, stalled_us=50_000, tick_us=2_000, describe_current=lambda: "charge#2 of run A-17")
    blocking_step()
    (text,) = heard.texts("WARNING")
    assert "charge#2 of run A-17" in text
    assert "in blocking_step" in text
    heard.lines.clear()
    heard.event("WARNING").clear()
    ticked = watchdog.last_tick
    while watchdog.last_tick == ticked:
        await asyncio.sleep(0)
    assert watchdog.stalled_us < 20_000_000
    blocking_step()
    assert len(heard.texts("WARNING")) == 1


async def test_a_bodys_stall_is_not_called_a_steps(make_watchdog, heard) -> None:
    """While a body drains the host's loop cannot tick, and that is told as the body's."""
    watchdog = make_watchdog(asyncio.get_running_loop(), stalled_us=20_000, slow_drain_us=100_000, tick_us=2_000)
    warned = heard.event("WARNING")

    async def body() -> None:
        spin_until(warned.is_set)

    drain(watchdog, body)
    assert "The body of run A-17" in heard.texts("WARNING")[0]


async def test_a_watchdog_outlives_a_bad_description(make_watchdog, heard) -> None:
    """A hook that raises is logged, and the watchdog goes on."""
    calls = []

    def describe() -> str:
        calls.append(1)
        raise ValueError("no steps")

    watchdog = make_watchdog(asyncio.get_running_loop(), stalled_us=20_000, tick_us=2_000, describe_current=describe)
    for number in (1, 2):
        ticked = watchdog.last_tick
        while watchdog.last_tick == ticked:
            await asyncio.sleep(0)
        spin_until(lambda number=number: len(calls) >= number)
    assert heard.event("ERROR").wait(20)


async def test_after_its_stop_nothing_ticks_and_no_thread_is_left(make_watchdog) -> None:
    """`stop` returns when the thread has ended."""
    watchdog = make_watchdog(asyncio.get_running_loop(), tick_us=1_000)
    names = {thread.name for thread in threading.enumerate()}
    assert "outlast-watchdog" in names
    watchdog.stop()
    watchdog.stop()
    assert watchdog._thread not in threading.enumerate()
    ticked = watchdog.last_tick
    for _ in range(5):
        await asyncio.sleep(0.001)
    assert watchdog.last_tick == ticked
