"""Time and timers of a body's loop."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.core.loop import BUDGET, BodyLoop, BodyTimer

START_US = 1_700_000_000_000_000
SECONDS = st.floats(min_value=0, max_value=4e9, allow_nan=False)


def arm(loop: BodyLoop, *whens: float) -> list[list[float]]:
    """Arm timers; gives the list their callbacks write to."""
    fired: list[list[float]] = []
    for when in whens:
        loop.call_at(when, lambda when=when: fired.append([when, loop.time()]))
    return fired


def test_time_is_that_of_the_stimulus_and_never_runs_backwards() -> None:
    """Seconds count from the body's start; an earlier instant leaves the time where it was."""
    loop = BodyLoop(start_us=START_US)
    assert (loop.time(), loop.now_us) == (0.0, START_US)
    loop.advance_to(START_US + 1_500_000)
    loop.advance_to(START_US + 1_000_000)
    assert (loop.time(), loop.now_us) == (1.5, START_US + 1_500_000)


def test_a_timer_fires_when_it_is_told_to_and_moves_time_to_its_due() -> None:
    """Its callback becomes ready, and runs in the next drain; the time is its due, or later if it already was."""
    loop = BodyLoop(start_us=START_US)
    fired = arm(loop, 2.0, 3.0)
    assert loop.fire_timer(1)
    assert fired == []
    loop.drain()
    assert fired == [[2.0, 2.0]]
    loop.advance_to(START_US + 9_000_000)
    assert loop.fire_timer(2)
    loop.drain()
    assert fired[1] == [3.0, 9.0]


def test_a_timer_that_fired_was_cancelled_or_never_was_does_not_fire() -> None:
    """An ordinal names one timer, for ever."""
    loop = BodyLoop(start_us=START_US)
    fired = arm(loop, 1.0)
    loop.call_later(1.0, fired.append, []).cancel()
    assert [loop.fire_timer(ordinal) for ordinal in (1, 1, 2, 3, 0)] == [True, False, False, False, False]
    loop.drain()
    assert len(fired) == 1
    assert loop.next_timer() is None


def test_a_timer_cancelled_between_firing_and_running_does_not_run() -> None:
    """As in asyncio, a callback that another one cancelled first is passed over."""
    loop = BodyLoop(start_us=START_US)
    ran: list[str] = []
    handle = loop.call_later(1, ran.append, "timer")
    loop.call_soon(handle.cancel)
    assert loop.fire_timer(handle.ordinal)
    loop.drain()
    assert ran == []


def test_timers_due_together_go_by_ordinal() -> None:
    """The earliest is told, those of one instant in the order they were armed, and a cancelled one is passed over."""
    loop = BodyLoop(start_us=START_US)
    handles = [loop.call_at(when, print) for when in (5, 3, 3, 1)]
    handles[3].cancel()
    told = []
    while (timer := loop.next_timer()) is not None:
        assert timer == loop.next_timer()
        told.append(timer)
        loop.fire_timer(timer.ordinal)
    due = [(2, 3), (3, 3), (1, 5)]
    assert told == [BodyTimer(ordinal, START_US + seconds * 1_000_000) for ordinal, seconds in due]


@given(st.lists(SECONDS, max_size=30), st.data())
def test_the_earliest_timer_is_the_earliest_whatever_was_cancelled(whens, data) -> None:
    """Like a sorted list of those that live."""
    loop = BodyLoop(start_us=START_US)
    handles = [loop.call_at(when, print) for when in whens]
    live = {handle.ordinal: handle.due_us for handle in handles}
    while live:
        expected = min((due, ordinal) for ordinal, due in live.items())
        assert loop.next_timer() == BodyTimer(expected[1], expected[0])
        ordinal = data.draw(st.sampled_from(sorted(live)))
        if data.draw(st.booleans()):
            handles[ordinal - 1].cancel()
        else:
            assert loop.fire_timer(ordinal)
        del live[ordinal]
    assert loop.next_timer() is None


@given(now=SECONDS, delay=SECONDS)
def test_a_timer_never_fires_early(now, delay) -> None:
    """When it fires, the body's clock shows its time or a little later, never a bit less by rounding."""
    loop = BodyLoop(start_us=START_US)
    loop.advance_to(START_US + round(now * 1e6))
    handle = loop.call_later(delay, print)
    assert loop.fire_timer(handle.ordinal)
    assert handle.when() <= loop.time() <= handle.when() + 2e-6


@given(st.integers(min_value=START_US, max_value=START_US + 4 * 10**15))
def test_an_instant_in_microseconds_is_kept_exactly(until_us) -> None:
    """A timer for an instant of the next century is due then to the microsecond, though asyncio counts in floats."""
    loop = BodyLoop(start_us=START_US)
    assert loop.call_at((until_us - START_US) / 1e6, print).due_us == until_us


# SPEC W1
def test_timeouts_that_are_not_needed_leave_nothing() -> None:
    """Tens of thousands of steps, each under a timeout that did not strike, hold no more than a few timers."""
    loop = BodyLoop(start_us=START_US)

    async def body() -> int:
        most = 0
        for _ in range(30_000):
            async with asyncio.timeout(3600):
                await asyncio.sleep(0)
                loop.budget = BUDGET
            most = max(most, len(loop.timers.heap))
        return most

    root = loop.spawn_root(body())
    loop.drain()
    assert root.result() <= 65
    assert loop.next_timer() is None


def test_timeouts_among_timers_that_stay_cost_no_more() -> None:
    """What is tidied is in proportion to what lives."""
    loop = BodyLoop(start_us=START_US)
    for number in range(1000):
        loop.call_later(number, print)
    for _ in range(10_000):
        loop.call_later(1, print).cancel()
    assert len(loop.timers.heap) <= 2002


def test_sleeping_for_no_time_arms_no_timer_and_for_ever_none_that_is_due() -> None:
    """`sleep(0)` is a turn of the loop. `sleep(inf)` is never due, nor is what is due after the year 9999."""
    loop = BodyLoop(start_us=START_US)
    turn = loop.spawn_root(asyncio.sleep(0, "turned"))
    loop.drain()
    assert turn.result() == "turned"
    for seconds in (math.inf, 1e12, 1e300):
        loop.spawn_root(asyncio.sleep(seconds))
    loop.drain()
    assert loop.next_timer() is None
    loop.call_later(math.inf, print).cancel()
    loop.evict()


@pytest.mark.parametrize("seconds", [0.000123, 0.1 + 0.2, 1 / 3])
def test_a_body_that_compares_clocks_sees_its_deadline_reached(seconds) -> None:
    """A loop of `while loop.time() < deadline: await sleep(deadline - loop.time())` ends after one sleep."""
    loop = BodyLoop(start_us=START_US)

    async def body() -> int:
        sleeps = 0
        deadline = loop.time() + seconds
        while loop.time() < deadline:
            await asyncio.sleep(deadline - loop.time())
            sleeps += 1
        return sleeps

    root = loop.spawn_root(body())
    loop.drain()
    while (timer := loop.next_timer()) is not None:
        loop.fire_timer(timer.ordinal)
        loop.drain()
    assert root.result() == 1
