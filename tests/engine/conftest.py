"""A watchdog for the thread of the test, and a writer on a store that fails on demand."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from outlast.engine import clock as clock_module
from outlast.engine import writer as writer_module
from outlast.engine.watchdog import Watchdog
from tests.engine.faulty import FaultyStore
from tests.engine.ticking import BootClock
from tests.engine.watching import LONG_US, Heard
from tests.engine.writing import Writing


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


@pytest.fixture
async def writing(monkeypatch) -> AsyncIterator[Writing]:
    """Its writer tries again after 1 ms, and every 4 ms at last."""
    monkeypatch.setattr(writer_module, "FIRST_RETRY_S", 0.001)
    monkeypatch.setattr(writer_module, "LAST_RETRY_S", 0.004)
    store = FaultyStore()
    await store.open()
    writing = Writing(store)
    writing.writer.open()
    yield writing
    await writing.writer.close()
    await store.close()


@pytest.fixture
def boot(monkeypatch) -> BootClock:
    """This machine's clock stands still until the test moves it."""
    clock = BootClock()
    monkeypatch.setattr(clock_module, "_read_ns", clock)
    return clock
