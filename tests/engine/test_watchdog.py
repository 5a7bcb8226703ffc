"""The watchdog: bodies that block their worker (SPEC P6), steps that block the event loop (SPEC S6)."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from typing import Any

import pytest

from outlast.core.loop import BodyLoop
from outlast.engine import watchdog as watchdog_module
from outlast.engine.watchdog import Watchdog
from outlast.errors import BodyBlocked
from tests.engine.watching import Heard, drain, spin_until

LONG_US = 60_000_000
"""A limit no test comes to."""


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def make_watchdog(heard):
    """Watchdogs of this thread, that are stopped in the end. Limits nobody names are far away."""
    log = logging.getLogger("outlast.test.watchdog")
    log.addHandler(heard)
    made: list[Watchdog] = []

    def make(loop: asyncio.AbstractEventLoop, *, lease_us: int = LONG_US, **limits: Any) -> Watchdog:
        limits = {"slow_drain_us": LONG_US, "blocked_us": LONG_US, "stalled_us": LONG_US, **limits}
        watchdog = Watchdog(threading.get_ident(), lease_us=lease_us, log=log, **limits)
        made.append(watchdog)
        watchdog.start(loop)
        return watchdog

    yield make
    for watchdog in made:
        watchdog.stop()
    log.removeHandler(heard)


@pytest.fixture
def host():
    """A host loop that is not run: enough for what happens in one callback of it."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def quick_switches():
    """Threads take turns every 0.1 ms, so that the watchdog may shoot at any moment."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


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


# SPEC P6
@pytest.mark.slow
def test_nothing_is_raised_once_a_drain_has_ended(make_watchdog, host, quick_switches) -> None:
    """Drains that end at the very moment of the shot: whatever comes, comes before `drain_ended` has returned."""
    watchdog = make_watchdog(host, blocked_us=4_000)
    stopped = 0

    def drain_for(seconds: float) -> bool:
        """Whether it was stopped."""
        end = time.monotonic() + seconds

        async def body() -> None:
            while time.monotonic() < end:
                pass

        try:
            drain(watchdog, body)
        except BodyBlocked:
            watchdog.drain_ended()
            return True
        return False

    for number in range(150):
        stopped += drain_for(0.003 + number % 30 * 0.0002)
        after = time.monotonic() + 0.001
        while time.monotonic() < after:  # a late shot would be raised here, and fail the test
            pass
    assert 0 < stopped < 150, "the drains were not around the limit"


@pytest.mark.parametrize("place", ["before the end is marked", "before it settles", "before", "after"])
def test_a_shot_that_lands_on_the_way_out_is_settled(make_watchdog, host, monkeypatch, place) -> None:
    """It may be raised as the end of the drain is marked, until it is taken back: it gets out as what it is, and the
    next drain has nothing of it."""
    watchdog = make_watchdog(host)
    loop = BodyLoop(start_us=0)
    landed: list[str] = []

    def land(at: str) -> None:
        if at == place and not landed:
            landed.append(at)
            raise BodyBlocked("A-17", 1)

    def settle() -> BodyBlocked | None:
        land("before it settles")
        return type(watchdog)._settle(watchdog)

    def take_back(*args: object) -> None:
        land("before")
        original(*args)
        land("after")

    def shoot() -> None:
        assert watchdog._drain is not None
        watchdog._shoot(watchdog._drain)

    def drain_ended() -> None:
        land("before the end is marked")
        watchdog.drain_ended()

    original = watchdog_module._take_back
    monkeypatch.setattr(watchdog_module, "_take_back", take_back)
    monkeypatch.setattr(watchdog, "_settle", settle)
    watchdog.drain_began("A-17", loop)
    loop.call_soon(shoot)
    with pytest.raises(BodyBlocked):
        loop.drain()
    with pytest.raises(BodyBlocked):
        drain_ended()
    watchdog.drain_began("B-1", loop)
    watchdog.drain_ended()
    assert landed == [place]
    assert watchdog._shot is None
    assert not watchdog._lock.locked()


def test_a_ctrl_c_is_not_turned_into_a_blocked_body(make_watchdog, host) -> None:
    """A KeyboardInterrupt on its way out stays one."""
    watchdog = make_watchdog(host, blocked_us=40_000)

    async def body() -> None:
        try:
            spin_until(lambda: False)
        except BodyBlocked:
            raise KeyboardInterrupt from None

    with pytest.raises(KeyboardInterrupt):
        drain(watchdog, body)
    watchdog.drain_began("B-1")
    watchdog.drain_ended()


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


# --- the host ---------------------------------------------------------------------------------------------------------


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


@pytest.mark.process
def test_marking_a_drain_costs_next_to_nothing(make_watchdog, host) -> None:
    """Both marks together take about a microsecond: they are made for every stimulus."""
    watchdog = make_watchdog(host)
    loop = BodyLoop(start_us=0)
    best = 1.0
    for _ in range(50):
        began = time.perf_counter()
        for _ in range(200):
            watchdog.drain_began("A-17", loop)
            watchdog.drain_ended()
        best = min(best, (time.perf_counter() - began) / 200)
    assert best < 5e-6
