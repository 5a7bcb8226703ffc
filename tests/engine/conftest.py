"""A watchdog for the thread of the test, and what it logs."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from typing import Any

import pytest

from outlast.engine.watchdog import Watchdog
from tests.engine.watching import LONG_US, Heard


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
