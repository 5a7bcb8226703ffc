"""The watchdog stops bodies that block their worker (SPEC P6)."""

from __future__ import annotations

import asyncio
import time

import pytest

from outlast.core.loop import BodyLoop
from outlast.errors import BodyBlocked
from tests.engine.watching import LONG_US, drain, spin_until


# SPEC P6
def test_a_body_that_blocks_is_stopped(make_watchdog, host, heard) -> None:
    """After its time BodyBlocked is raised in the middle of it, with the run, the time and the stack."""
    watchdog = make_watchdog(host, blocked_us=40_000)

    async def body() -> None:
        spin_until(lambda: False)

    with pytest.raises(BodyBlocked) as caught:
        drain(watchdog, body)
    error = caught.value
    assert type(error) is BodyBlocked
    assert (error.code, error.id) == ("BODY_BLOCKED", "A-17")
    assert 0.04 <= error.seconds < 20
    assert "in spin_until" in error.stack
    assert "in drain" not in error.stack, "the stack is the body's alone"
    assert heard.event("ERROR").wait(20)
    assert "A-17" in heard.texts("ERROR")[0]


# SPEC P6
def test_a_lease_shorter_than_the_limit_is_the_limit(make_watchdog, host) -> None:
    """A worker whose lease is shorter than ten seconds cannot wait that long."""
    watchdog = make_watchdog(host, blocked_us=LONG_US, lease_us=40_000)

    async def body() -> None:
        spin_until(lambda: False)

    with pytest.raises(BodyBlocked):
        drain(watchdog, body)


@pytest.mark.parametrize("with_loop", [True, False])
def test_a_body_that_swallows_it_is_stopped_all_the_same(make_watchdog, host, with_loop) -> None:
    """It is raised again and again while the body runs on, and the end of the drain raises it in any case."""
    watchdog = make_watchdog(host, blocked_us=40_000)
    swallowed: list[str] = []

    async def body() -> None:
        for _ in range(3):
            try:
                spin_until(lambda: False)
            except BaseException as error:
                swallowed.append(type(error).__name__)

    with pytest.raises(BodyBlocked):
        drain(watchdog, body, with_loop=with_loop)
    assert swallowed == ["BodyBlocked"] * 3


def test_a_body_that_swallows_it_and_awaits_gets_no_further(make_watchdog, host) -> None:
    """Its loop raises it before the next callback."""
    watchdog = make_watchdog(host, blocked_us=40_000)
    reached: list[str] = []

    async def body() -> None:
        try:
            spin_until(lambda: False)
        except BaseException:
            reached.append("swallowed")
        await asyncio.sleep(0)
        reached.append("beyond")

    with pytest.raises(BodyBlocked):
        drain(watchdog, body)
    assert reached == ["swallowed"]


def test_a_body_that_is_slow_is_told_of_once(make_watchdog, host, heard) -> None:
    """Before it is stopped, one warning says which run it is, and where it is."""
    watchdog = make_watchdog(host, slow_drain_us=20_000)
    warned = heard.event("WARNING")

    async def body() -> None:
        spin_until(warned.is_set)
        looks = time.monotonic() + 0.05
        spin_until(lambda: time.monotonic() > looks)

    drain(watchdog, body)
    (text,) = heard.texts("WARNING")
    assert "A-17" in text
    assert "spin_until" in text
    assert heard.texts("ERROR") == []


def test_each_drain_has_its_own_time(make_watchdog, host, heard) -> None:
    """Many drains in a row, each short, are not one long drain."""
    watchdog = make_watchdog(host, slow_drain_us=200_000, blocked_us=400_000)

    async def body() -> None:
        end = time.monotonic() + 0.002
        spin_until(lambda: time.monotonic() > end)

    end = time.monotonic() + 0.6
    while time.monotonic() < end:
        drain(watchdog, body)
    assert heard.lines == []


def test_the_engine_itself_is_not_shot(make_watchdog, host, heard) -> None:
    """What takes long between the marks and is no body (a long fold, an end that nobody marked) is let be."""
    watchdog = make_watchdog(host, slow_drain_us=10_000, blocked_us=20_000)
    watchdog.drain_began("A-17", BodyLoop(start_us=0))
    assert heard.event("WARNING").wait(20)
    end = time.monotonic() + 0.1
    spin_until(lambda: time.monotonic() > end)
    watchdog.drain_ended()
    assert heard.texts("ERROR") == []


def test_a_frozen_process_blames_no_body(make_watchdog, host, heard) -> None:
    """A gap between two looks, as after SIGSTOP or a closed lid, counts as two looks at most."""
    watchdog = make_watchdog(host, tick_us=LONG_US)
    watchdog.stop()
    watchdog._blocked_s, watchdog._slow_s = 10.0, 2.0
    watchdog.drain_began("A-17")
    now = watchdog._looked_at
    for gap in (0.25, 0.25, 3600, 0.25):
        now += gap
        watchdog._look(now)
    assert heard.lines == []
    for _ in range(8):
        now += 0.25
        watchdog._look(now)
    assert [level for level, _ in heard.lines] == ["WARNING"]
    watchdog.drain_ended()
