"""The asyncio tasks in which attempts execute: one after the other in one task, until one of them waits. Layer: engine.

A task costs more than all else that a short step costs its worker. So attempts that were begun together share one, a
lane, as long as none of them waits for anything; the first that does keeps the lane for itself, and the others go on
in a new one. What always holds: an attempt that has waited is alone in its task, so that whoever cancels the task
cancels that attempt and no other; each executes in its own context, whichever task it is in.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

__all__ = ["Lanes"]

T = TypeVar("T")


class Lanes(Generic[T]):
    """Carries out what it is given, each within its own context."""

    def __init__(self, loop: AbstractEventLoop, execute: Callable[[T, Task[None]], Coroutine[Any, Any, None]]) -> None:
        """`execute` is called in the task that is to carry it out."""
        self._loop = loop
        self._execute = execute
        self._ready: collections.deque[tuple[T, Context]] = collections.deque()
        self.open: Task[None] | None = None
        """The lane that takes the next one."""

    def run(self, item: T, context: Context) -> None:
        """Carry it out, in this context, behind those that were given before."""
        self._ready.append((item, context))
        if self.open is None or self.open.done():  # somebody cancelled it before it began, as if it were his
            self._open()

    def _open(self) -> None:
        self.open = self._loop.create_task(self._carry_out())

    def _close(self) -> None:
        """The lane at hand takes no more."""
        self.open = None
        if self._ready:
            self._open()

    async def _carry_out(self) -> None:
        ready, lane = self._ready, self.open
        assert lane is not None
        try:
            while ready:
                item, context = ready.popleft()
                await self._in_context(context, self._execute(item, lane))
                if self.open is not lane or lane.cancelling():
                    return  # it waited, or has cancelled the task it was in: that is nothing to the others
        finally:
            if self.open is lane:
                self._close()

    @types.coroutine
    def _in_context(self, context: Context, execution: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
        """`await execution`, but within this context; from its first wait on it has the lane for itself."""
        run = context.run
        try:
            waits_for = run(execution.send, None)
            self._close()
            while True:
                try:
                    value = yield waits_for
                except GeneratorExit:
                    run(execution.close)
                    raise
                except BaseException as error:  # noqa: BLE001 - thrown in, a cancel for one: it is for the execution
                    waits_for = run(execution.throw, error)
                else:
                    waits_for = run(execution.send, value)
        except StopIteration:
            return
