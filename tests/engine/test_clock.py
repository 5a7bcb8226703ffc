"""The worker's estimate of the store's time: never early, never backwards (PROTOCOL F37)."""

from __future__ import annotations

import threading
import time

from outlast.engine.clock import StoreClock, boottime_us

NOON_US = 1_751_371_200_000_000


def test_the_estimate_counts_on_from_the_stores_last_answer(boot) -> None:
    """Between two answers a clock that never jumps does the counting."""
    clock = StoreClock()
    clock.set(NOON_US)
    assert clock.now_us() == NOON_US
    boot.advance(2_500)
    assert clock.now_us() == NOON_US + 2_500


def test_the_estimate_never_runs_backwards(boot) -> None:
    """A store whose clock was set back makes it stand still until that time has come again."""
    clock = StoreClock()
    clock.set(NOON_US)
    assert clock.now_us() == NOON_US
    clock.set(NOON_US - 60_000_000)
    assert clock.now_us() == NOON_US
    boot.advance(59_999_999)
    assert clock.now_us() == NOON_US
    boot.advance(2)
    assert clock.now_us() == NOON_US + 1


def test_a_clock_set_forward_is_followed(boot) -> None:
    """Everything due is compared with the store's clock, so its jump makes due what is due."""
    clock = StoreClock()
    clock.set(NOON_US)
    clock.set(NOON_US + 3_600_000_000)
    assert clock.now_us() == NOON_US + 3_600_000_000


def test_an_old_answer_counts_only_if_it_is_ahead(boot) -> None:
    """What the store said some time ago is late by that time: the estimate does not fall back to it."""
    clock = StoreClock()
    clock.set(NOON_US)
    boot.advance(1_000)
    clock.catch_up(NOON_US + 500)
    assert clock.now_us() == NOON_US + 1_000
    clock.catch_up(NOON_US + 9_000)
    assert clock.now_us() == NOON_US + 9_000


def test_a_clock_nobody_has_set_still_gives_times_in_order(boot) -> None:
    """Before the first answer it counts this machine's time alone."""
    clock = StoreClock()
    first = clock.now_us()
    boot.advance(1)
    assert (first, clock.now_us()) == (boot.now_us - 1, boot.now_us)


def test_the_machines_own_clock_counts_microseconds() -> None:
    """Without the fake: it moves on by itself, in µs, and not backwards."""
    began, began_s = boottime_us(), time.monotonic()
    time.sleep(0.002)
    passed_us, passed_s = boottime_us() - began, time.monotonic() - began_s
    assert 2_000 <= passed_us <= passed_s * 1e6 + 1_000


def test_it_may_be_set_from_another_thread() -> None:
    """The heartbeat's thread sets it while the event loop reads it; what is read never falls."""
    clock, is_over = StoreClock(), threading.Event()
    clock.set(NOON_US)

    def set_again() -> None:
        shift = 0
        while not is_over.is_set():
            shift = (shift + 7_919) % 100_000
            clock.set(NOON_US - shift)

    setter = threading.Thread(target=set_again)
    setter.start()
    read = [clock.now_us() for _ in range(20_000)]
    is_over.set()
    setter.join()
    assert read == sorted(read)
