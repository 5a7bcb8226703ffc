"""What the engine gets from the machine, replaced for a simulation: clocks, chance, and threads.

Nothing else of the engine is replaced: worker, machine, writer, hot runs, sweeper, queued steps and loads are the real
ones. What always holds: behind `simulated` everything is as it was before.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
from asyncio import events
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

from outlast.engine import clock, ids, worker
from outlast.engine.attempts.threads import ThreadPool
from outlast.engine.heartbeat import Heartbeat
from outlast.engine.watchdog import Watchdog
from outlast.errors import StoreError
from tests.simulation.engine.world import Host, World

__all__ = ["host_here", "simulated"]

R = TypeVar("R")


_worlds: list[World] = []


def host_here() -> Host:
    """The process whose code runs, be it in its event loop or in what stands for a thread of it."""
    host = _worlds[-1].running
    assert host is not None
    return host


class SimulatedHeartbeat(Heartbeat):
    """Renews as the thread does, called by the scheduler."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._host = host_here()

    def start(self) -> None:
        self._later(self._lease_us / 3e6)

    def _later(self, seconds: float) -> None:
        host = self._host
        host.world.at(host.world.now_us + round(seconds * 1e6), self._tick, host)

    def _tick(self) -> None:
        if not self._stop_now.is_set():
            wait_s = self.beat()
            if wait_s is not None:
                self._later(wait_s)


class SimulatedWatchdog(Watchdog):
    """Knows for how long its loop was blocked, and shoots nobody: bodies here take no time."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._host = host_here()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        pass

    def stop(self) -> None:
        pass

    @property
    def stalled_us(self) -> int:
        host = self._host
        if host.world.now_us < host.blocked_until_us:
            return host.world.now_us - host.blocked_at_us
        return 0


class SimulatedThreads(ThreadPool):
    """Plain functions take their time, and are carried out at one moment of it."""

    async def run(self, context: contextvars.Context, function: Callable[[], R]) -> R:
        rng = host_here().world.rng
        await asyncio.sleep(rng.uniform(0, 0.02))
        loop = events._get_running_loop()
        events._set_running_loop(None)
        try:
            value: Any = context.run(function)
            error = None
        except BaseException as raised:
            value, error = None, raised
        finally:
            events._set_running_loop(loop)
        await asyncio.sleep(rng.uniform(0, 0.02))  # given up meanwhile: what came of it is dropped
        if error is not None:
            raise error
        return value


class SeededBytes:
    """In place of the system's random bytes."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def take(self, count: int) -> bytes:
        return self._rng.randbytes(count)


class Eavesdropper(logging.Handler):
    """The engine catches what must not end a worker, and logs it with its traceback: here it is a problem."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._problems = problems

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, StoreError):
            self._problems.append(f"logged: {record.getMessage()}: {error!r}")


@contextmanager
def simulated(world: World, seed: object) -> Iterator[None]:
    """The engine in this world."""
    rng = random.Random(f"{seed}/ids")
    before, logger = random.getstate(), logging.getLogger("outlast")
    handler, level = Eavesdropper(world.problems), logger.level
    with ExitStack() as stack:
        for where, name, what in (
            (clock, "_read_ns", world.read_ns),
            (ids, "_get_mark", rng.getrandbits),
            (ids, "_bytes", SeededBytes(rng)),
            (worker, "Heartbeat", SimulatedHeartbeat),
            (worker, "Watchdog", SimulatedWatchdog),
            (worker, "ThreadPool", SimulatedThreads),
        ):
            stack.enter_context(patch.object(where, name, what))
        _worlds.append(world)
        stack.callback(_worlds.pop)
        random.seed(f"{seed}/jitter")
        stack.callback(random.setstate, before)
        logger.addHandler(handler)
        stack.callback(logger.removeHandler, handler)
        logger.setLevel(logging.ERROR)
        stack.callback(logger.setLevel, level)
        propagate, logger.propagate = logger.propagate, False
        stack.callback(setattr, logger, "propagate", propagate)
        yield
