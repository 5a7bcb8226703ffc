"""Several worker processes, which one looks after: `outlast worker --processes N`. Layer: cli.

Each child is a worker of its own, with an id of its own; they share nothing but the store. This process opens no store
and imports nothing of the user's, so that nothing of theirs can take it down. What always holds: a child that dies is
started anew until this process is told to stop, but one that left in good order, told to stop or asked to drain itself;
and none goes on when this process is gone, however it went.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time

from outlast.cli.exits import ExitCode
from outlast.cli.output import Output
from outlast.cli.stopping import Stopping

__all__ = ["look_after"]

FIRST_DELAY_S = 1.0
LAST_DELAY_S = 30.0
"""Between a child's end and its next start: doubled each time one has not lived for `SETTLED_S`."""
SETTLED_S = 30.0


async def look_after(count: int, output: Output, stopping: Stopping) -> ExitCode:
    """Keep so many children at work until told to stop; then until they have."""
    lifeline, held = os.pipe()
    asked = asyncio.Event()
    children = [_Child(number, lifeline, output, asked) for number in range(1, count + 1)]

    def hurry() -> None:
        for child in children:
            child.tell_to_stop(
                signal.SIGINT
            )  # the same one again may arrive as one, where a child has not run meanwhile

    stopping.is_opening = False
    stopping.on_first, stopping.hurry = asked.set, hurry
    try:
        codes = await asyncio.gather(*(child.keep() for child in children))
    finally:
        os.close(held)
        os.close(lifeline)
    if stopping.count > 1:
        return ExitCode.INTERRUPTED
    return max((ExitCode(code) for code in codes if code in tuple(ExitCode)), default=ExitCode.COMPLETED)


class _Child:
    """One place among the processes, and whoever has it."""

    def __init__(self, number: int, lifeline: int, output: Output, asked: asyncio.Event) -> None:
        self._number = number
        self._lifeline = lifeline
        """Children hear on it when this process is gone."""
        self._output = output
        self._asked = asked
        """To stop, whoever asked: a person, or a child that cannot work here."""
        self._process: asyncio.subprocess.Process | None = None
        self._delay_s = FIRST_DELAY_S

    def tell_to_stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """As a signal to it alone would."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def keep(self) -> int:
        """Have a process at work until all are to stop, or this one was; gives what the last one returned."""
        while True:
            began = time.monotonic()
            code = await self._run()
            if self._asked.is_set():
                return code
            if code == ExitCode.USAGE:  # it has said what is wrong, and the next one would say the same
                self._asked.set()
                return code
            if code == ExitCode.COMPLETED:
                self._output.emit({"event": "ended", "process": self._number})
                self._output.note(f"worker process {self._number} has drained, and is not started anew")
                return code
            if time.monotonic() - began > SETTLED_S:
                self._delay_s = FIRST_DELAY_S
            self._tell_of(code)
            if await self._is_asked_within(self._delay_s):
                return ExitCode.COMPLETED
            self._delay_s = min(self._delay_s * 2, LAST_DELAY_S)

    async def _run(self) -> int:
        """This very command again, as one worker; gives what it returned, or minus the signal it died of.

        In a session of its own: a Ctrl-C is this process's to pass on, once."""
        command = [sys.executable, *sys.orig_argv[1:], "--lifeline", str(self._lifeline), "--place", str(self._number)]
        process = await asyncio.create_subprocess_exec(*command, pass_fds=[self._lifeline], start_new_session=True)
        self._process = process
        stopper = asyncio.create_task(self._stop_when_asked())
        try:
            return await process.wait()
        finally:
            self._process = None
            stopper.cancel()

    async def _stop_when_asked(self) -> None:
        """Once, also one that was just being started."""
        await self._asked.wait()
        self.tell_to_stop()

    async def _is_asked_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._asked.wait()
        except TimeoutError:
            return False
        return True

    def _tell_of(self, code: int) -> None:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        self._output.emit({"event": "restarting", "process": self._number, "code": code, "delay": self._delay_s})
        text = f"worker process {self._number} {how}; another is started in {self._delay_s:g} s"
        self._output.note(text)
