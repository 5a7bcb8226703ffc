"""Signals: the first asks to stop in good order, the second now, a third at once. Layer: cli.

What always holds: a run is durable whenever the process ends, so each of the three is safe; they differ in what is lost
of the steps that are executing.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from outlast.cli.exits import ExitCode

__all__ = ["Stopping", "run_briefly", "run_stoppable"]

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM)
HURRY_S = 3.0
"""How long handing back may take once nothing is waited for: past it the store does not answer, and leases lapse."""


class Stopping:
    """What the signals of this process have asked for so far."""

    def __init__(self) -> None:
        self.count = 0
        self.is_opening = True
        """Nothing is held yet, so that the first signal already does not wait for a store that gives no answer."""
        self.on_first: Callable[[], None] = lambda: None
        """Called in the event loop, at the first signal."""
        self.hurry: Callable[[], None] = lambda: None
        """Called in the event loop, at the second: let go of what is waited for."""

    @property
    def is_asked(self) -> bool:
        """To stop."""
        return self.count > 0

    def take_once(self) -> None:
        """As a signal would that is the first; after one it is nothing new."""
        if not self.is_asked:
            self.take()

    def take(self) -> None:
        """A signal came."""
        self.count += 1
        if self.count == 1:
            self.on_first()
        elif self.count == 2:
            self.hurry()
        else:
            _exit_now()
        if self.count == 2 or self.is_opening:
            asyncio.get_running_loop().call_later(HURRY_S, _exit_now)


def run_stoppable(main: Callable[[Stopping], Coroutine[Any, Any, T]]) -> T:
    """Run `main` in an event loop of its own, under SIGINT and SIGTERM."""
    return asyncio.run(_run(main))


def run_briefly(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run what asks the store and is done. A signal ends it, by KeyboardInterrupt, also while no answer comes."""

    async def stoppable(stopping: Stopping) -> T:
        task = asyncio.current_task()
        assert task is not None
        stopping.on_first = task.cancel  # type: ignore[assignment]
        try:
            return await main()
        except asyncio.CancelledError:
            if stopping.is_asked:
                raise KeyboardInterrupt from None
            raise

    return run_stoppable(stoppable)


async def _run(main: Callable[[Stopping], Coroutine[Any, Any, T]]) -> T:
    stopping, loop = Stopping(), asyncio.get_running_loop()
    handled = []
    for number in SIGNALS:
        try:
            loop.add_signal_handler(number, stopping.take)
            handled.append(number)
        except (RuntimeError, ValueError, NotImplementedError):  # not the main thread: its owner has the signals
            break
    try:
        return await main(stopping)
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def _exit_now() -> None:
    """Without a word to the store: what this process held is taken over when its lease lapses."""
    print("Stopped without waiting for the store.", file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(ExitCode.INTERRUPTED)
