"""Going from the host's loop into a body's, and back, within one thread. Layer: core.

What always holds: the way back can be walked twice. A Ctrl-C, or a watchdog's exception, may come between any two
calls; then it is walked again, and ends where it began. Python 3.14 keeps one current task for each thread, and refuses
any order but this one: the host's task is left, then the loop is changed; and the reverse.
"""

# asyncio has no public way to change the running loop.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import sys
from asyncio import tasks
from asyncio.events import _get_running_loop, _set_running_loop
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import AsyncGenerator, Callable
from typing import Any

__all__ = ["Entered", "current_task_of", "go_back", "set_running_loop"]

GeneratorHook = Callable[[AsyncGenerator[Any, Any]], None]

current_task_of: Callable[[asyncio.AbstractEventLoop], asyncio.Task[Any] | None]
"""The task that runs on this loop now."""
if sys.version_info >= (3, 12):
    current_task_of = asyncio.current_task
else:
    # asyncio.current_task() is written in Python there, and takes five times as long.
    current_task_of = tasks._current_tasks.get  # type: ignore[attr-defined]  # noqa: SLF001

if sys.version_info >= (3, 14):

    def set_running_loop(loop: asyncio.AbstractEventLoop) -> None:
        """Put `loop` in the place of the running loop."""
        _set_running_loop(None)
        _set_running_loop(loop)

else:
    set_running_loop = _set_running_loop


def go_back(host: asyncio.AbstractEventLoop | None, task: asyncio.Task[Any] | None, hooks: Any) -> None:
    """Back to the host's loop, task and generator hooks, from anywhere on the way in or back."""
    sys.set_asyncgen_hooks(*hooks)
    _set_running_loop(host)
    if host is not None and task is not None and current_task_of(host) is not task:
        _enter_task(host, task)


class Entered:
    """The context manager of `BodyLoop.entered`. Of one loop within itself it does nothing."""

    __slots__ = ("_first", "_hooks", "_host", "_last", "_loop", "_task")

    def __init__(self, loop: asyncio.AbstractEventLoop, first: GeneratorHook, last: GeneratorHook) -> None:
        """`first` and `last` are the generator hooks of `loop`."""
        self._loop = loop
        self._first = first
        self._last = last
        self._host = _get_running_loop()
        self._task = None if self._host is None else current_task_of(self._host)
        self._hooks: Any = sys.get_asyncgen_hooks()

    def __enter__(self) -> None:
        host, task = self._host, self._task
        if host is self._loop:
            return
        try:
            if host is not None and task is not None:
                _leave_task(host, task)
            set_running_loop(self._loop)
            sys.set_asyncgen_hooks(self._first, self._last)
        except BaseException:
            go_back(host, task, self._hooks)
            raise

    def __exit__(self, *exc_info: object) -> None:
        if self._host is self._loop:
            return
        try:
            go_back(self._host, self._task, self._hooks)
        except BaseException:
            go_back(self._host, self._task, self._hooks)
            raise
