"""Dropping a body without effect in the world: every coroutine is closed. Layer: core.

A body that is merely dropped runs its `finally` blocks when the collector comes by, outside its loop or on another's: a
step called there would be a plain call, and run for real. So a body is closed, on its own loop that is marked closing
and answers with `GeneratorExit` (SPEC P7). What always holds after: nothing of the body runs again, and no reference
cycle of the loop's making is left.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import AsyncGenerator, Callable, Sequence
from contextvars import Context
from functools import partial
from itertools import pairwise
from types import AsyncGeneratorType, ModuleType
from typing import Any, Final

from outlast.core.loop.tasks import BodyTask, iter_awaited
from outlast.errors import BodyStopped

__all__ = ["Muted", "close_body", "keep_for_ever"]

_TRIES: Final = 8
"""How often a coroutine may answer a close with one more await."""


def close_body(
    tasks: Sequence[BodyTask],
    generators: Sequence[AsyncGenerator[Any, Any]],
    context: Context,
    is_closing: Callable[[], bool],
) -> int:
    """Close tasks, newest first, then generators, and part them from each other. Gives how many would not die.

    `is_closing` says whether the calling thread is the one that closes: what other threads report meanwhile is theirs.
    `context` is for the generators; tasks have their own. A Ctrl-C, or a watchdog's exception, in between is raised
    when all is done.
    """
    interrupts: list[BaseException] = []
    survivors: list[object] = []
    with (
        Muted(sys, "unraisablehook", is_closing),  # a finally that fails, a coroutine that ignores its end
        Muted(warnings, "_warn_unawaited_coroutine", is_closing),  # `call = step()`, not awaited yet
    ):
        for task in reversed(tasks):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - as asyncio.gather does
            coro: Any = task.get_coro()
            if not _close(task.context, partial(_close_coroutine, coro), interrupts):
                survivors.append(coro)
        survivors += [it for it in generators if not _close(context, partial(_aclose, it), interrupts)]
        for task in tasks:
            _untie(task)
    for survivor in survivors:
        keep_for_ever(survivor)
    if interrupts:
        raise interrupts[0]
    return len(survivors)


def _close(context: Context, close: Callable[[], object], interrupts: list[BaseException]) -> bool:
    """Whether it ended, be it with an error of its own. One that awaits again is told again."""
    for _ in range(_TRIES):
        try:
            context.run(close)
        except BaseException as error:  # noqa: BLE001 - "ignored GeneratorExit", or an error in a finally: not heard
            if isinstance(error, KeyboardInterrupt | BodyStopped):
                interrupts.append(error)  # heard in the end
        else:
            return True
    return False


def _close_coroutine(coro: Any) -> None:
    """Close it, and the async generators it waits for. RuntimeError: it goes on awaiting."""
    # Up to 3.12 closing what waits for a generator leaves that where it waits, and "already running" for ever.
    for driver, generator in reversed(list(pairwise(iter_awaited(coro)))):
        if isinstance(generator, AsyncGeneratorType) and generator.ag_running:
            _end(driver)
    coro.close()


def _aclose(generator: AsyncGenerator[Any, Any]) -> None:
    """Close it without a loop. RuntimeError: it goes on awaiting."""
    closing: Any = generator.aclose()
    try:
        closing.send(None)
    except StopIteration:
        return
    _end(closing)


def _end(driver: Any) -> None:
    """Raise GeneratorExit where the generator waits that is driven by this `asend()` or `aclose()` object."""
    try:
        for _ in range(_TRIES):
            driver.throw(GeneratorExit)
    except (StopIteration, StopAsyncIteration, GeneratorExit):
        return
    raise RuntimeError("async generator ignored GeneratorExit")


def keep_for_ever(survivor: object) -> None:
    """Freed, it would run on, outside of any run. A list would be freed as the interpreter ends; this is not."""
    import ctypes  # not at the top: hardly any process ever needs it

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(survivor))


def _untie(task: Any) -> None:
    """Part the task from what it waits for, and from those who wait for it. The loop is closing: no callback runs."""
    futures = [task, task._fut_waiter]  # noqa: SLF001 - there is no public way to what a task waits for
    task.cancel()
    while futures:
        future = futures.pop()
        for callback, _ in getattr(future, "_callbacks", None) or ():
            future.remove_done_callback(callback)
        # gather() waits for all its children to end before it takes a cancel, and each of them points back to it.
        futures += [child for child in getattr(future, "_children", ()) if not isinstance(child, BodyTask)]


class Muted:
    """Silences a process-wide hook for what one thread reports, and puts back what was there.

    Two threads may evict at once, and end in any order: one that finds the other's hook in place leaves it, and the
    last one takes away both. What a race leaves behind passes everything on, and the next eviction takes it away.
    """

    __slots__ = ("_inner", "_is_muted", "_name", "_owner", "is_over")

    def __init__(self, owner: ModuleType, name: str, is_muted: Callable[[], bool]) -> None:
        self._owner = owner
        self._name = name
        self._is_muted = is_muted
        self._inner: Callable[[Any], object] = lambda _: None
        self.is_over = False

    def __enter__(self) -> None:
        self._inner = getattr(self._owner, self._name, self._inner)
        setattr(self._owner, self._name, self)

    def __call__(self, report: Any) -> None:
        """Be the hook."""
        if self.is_over or not self._is_muted():
            self._inner(report)

    def __exit__(self, *exc_info: object) -> None:
        self.is_over = True
        hook = getattr(self._owner, self._name)
        while isinstance(hook, Muted) and hook.is_over:
            hook = hook._inner  # noqa: SLF001 - another of its kind
        setattr(self._owner, self._name, hook)
