"""What the tests of the watchdog share: a log to wait for, a drain as the engine marks it, a body that blocks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from outlast.core.loop import BodyLoop
from outlast.engine.watchdog import Watchdog

LONG_US = 60_000_000
"""A limit no test comes to."""


class Heard(logging.Handler):
    """Keeps what was logged, and lets tests wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []
        self.events: dict[str, threading.Event] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.levelname, record.getMessage()))
        self.event(record.levelname).set()

    def event(self, level: str) -> threading.Event:
        return self.events.setdefault(level, threading.Event())

    def texts(self, level: str) -> list[str]:
        return [text for name, text in self.lines if name == level]


def drain(watchdog: Watchdog, body, *, with_loop: bool = True) -> BodyLoop:
    """What the engine does for each stimulus."""
    loop = BodyLoop(start_us=0)
    loop.spawn_root(body())
    watchdog.drain_began("A-17", loop if with_loop else None)
    try:
        loop.drain()
    finally:
        try:
            watchdog.drain_ended()
        finally:
            loop.evict()
    return loop


def spin_until(is_over: Callable[[], bool]) -> None:
    """Bytecodes without an end, but for a limit that a broken watchdog runs into."""
    limit = time.monotonic() + 20
    while not is_over():
        assert time.monotonic() < limit, "nothing came"
