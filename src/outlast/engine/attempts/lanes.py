"""The asyncio tasks in which attempts execute. Layer: engine.

A task costs more than all else that a short step costs its worker, and so does a turn of the event loop. So attempts
begin at once, where they are given, in a task that is kept for them, a lane; as long as none waits for anything, the
next one begins in the same lane; the first that does wait keeps the lane for itself. What always holds: an attempt that
has waited is alone in its task, so that whoever cancels the task cancels that attempt and no other; to an attempt its
lane is the current task from its first line on; each executes in its own context, whichever task it is in.
"""

# asyncio's way for event loops to say which task runs: a lane does, before the loop has come to it.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import collections
from asyncio import CancelledError, Future, isfuture
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from outlast.core.loop.switch import current_task_of

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from types import TracebackType

__all__ = ["Lanes"]

T = TypeVar("T")


class Lanes(Generic[T]):
    """Carries out what it is given, each within its own context."""

    def __init__(self, loop: AbstractEventLoop, execute: Callable[[T, Task[None]], Coroutine[Any, Any, None]]) -> None:
        """`execute` is called in the task that is to carry it out."""
        self._loop = loop
        self._execute = execute
        self._ready: collections.deque[tuple[T, Context]] = collections.deque()
        self._free: tuple[_Lane, Task[None]] | None = None
        """Nobody's yet. The lane does not know its task: there would be a circle."""
        self._is_called = self._is_beginning = self._is_closed = False

    def run(self, item: T, context: Context) -> None:
        """Carry it out, in this context, behind those that were given before: with the next `begin`, or very soon."""
        self._ready.append((item, context))
        if not self._is_called:
            self._is_called = True
            self._loop.call_soon(self._begin_as_called)

    def begin(self) -> None:
        """Let all that were given begin now: each goes on to its first wait."""
        if self._is_beginning:
            return  # one of them has given another: it is in line
        self._is_beginning = True
        try:
            while self._ready:
                if self._free is None or not self._free[0].is_whole(self._free[1]):
                    self._free = self._open()
                self._begin_in(*self._free)
        finally:
            self._is_beginning = False
        if self._is_closed:
            self.close()

    def close(self) -> None:
        """No task is kept any longer for what is to come."""
        self._is_closed = True
        if self._free is not None:
            self._free[1].cancel()
            self._free = None

    def _begin_as_called(self) -> None:
        self._is_called = False
        self.begin()

    def _open(self) -> tuple[_Lane, Task[None]]:
        lane = _Lane(self._loop)
        return lane, self._loop.create_task(lane, name="outlast-lane")

    def _begin_in(self, lane: _Lane, task: Task[None]) -> None:
        """One after the other, up to the first that waits."""
        ready, loop = self._ready, self._loop
        host = current_task_of(loop)
        try:
            if host is not None:
                _leave_task(loop, host)
            _enter_task(loop, task)
            while ready and lane.is_whole(task):
                item, context = ready.popleft()
                execution = self._execute(item, task)
                try:
                    waits_for = context.run(execution.send, None)
                except StopIteration:
                    continue
                except BaseException as error:  # noqa: BLE001 - it fails the lane, and nobody else
                    self._free = None
                    lane.fail(error)
                    return
                self._free = None
                lane.take(context, execution, waits_for)
                return
        finally:
            if current_task_of(loop) is task:
                _leave_task(loop, task)
            if host is not None and current_task_of(loop) is None:
                _enter_task(loop, host)


class _Lane(Coroutine[Any, Any, None]):
    """What the task of a lane runs: nothing, until it is given an execution that waits; then that, to its end.

    No generator: one that has not begun knows nothing of what is thrown into it, and a lane may be cancelled as soon as
    it is there."""

    __slots__ = ("__weakref__", "_context", "_error", "_execution", "_idle", "_is_told", "_waits_for")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._execution: Coroutine[Any, Any, None] | None = None
        self._context: Context | None = None
        self._waits_for: Any = None
        """What the execution waited for when it was taken."""
        self._is_told = False
        """The task knows of that."""
        self._error: BaseException | None = None
        self._idle: Future[None] = loop.create_future()
        """What the task waits for as long as it is nobody's."""

    def is_whole(self, task: Task[None]) -> bool:
        """Nobody has cancelled its task, as if it were his: not even who took that back, for it may reach the next."""
        return not (self._idle.done() or task.done() or task.cancelling() or getattr(task, "_must_cancel", False))

    def take(self, context: Context, execution: Coroutine[Any, Any, None], waits_for: Any) -> None:
        """From now on the lane is this execution's, which has begun, and waits."""
        self._context, self._execution, self._waits_for = context, execution, waits_for
        if isfuture(waits_for):
            waits_for._asyncio_future_blocking = False  # noqa: SLF001 - asyncio's sign: whoever waits next finds it clear
        self._wake()

    def fail(self, error: BaseException) -> None:
        """What got out of an execution gets out of the task."""
        self._error = error
        self._wake()

    def _wake(self) -> None:
        if not self._idle.done():  # else it was cancelled, and is on its way
            self._idle.set_result(None)

    # --- what the task calls ---

    def send(self, value: None) -> Any:
        """Go on, up to the next wait."""
        if self._execution is None or self._context is None:
            if self._error is not None:
                raise self._error
            return self._idle.__await__().send(None)
        if not self._is_told:
            self._is_told = True
            return self._go_on()
        return self._context.run(self._execution.send, value)

    def throw(self, error: Any, value: Any = None, traceback: TracebackType | None = None) -> Any:  # noqa: ARG002
        """What the execution waited for failed, or the task was cancelled."""
        if self._execution is None or self._context is None:
            raise self._error or error
        if not self._is_told:
            self._is_told = True
            task = current_task_of(self._idle.get_loop())
            if isinstance(error, CancelledError) and task is not None and not task.cancelling():  # it was taken back
                return self._go_on()
            if isfuture(self._waits_for) and self._waits_for.cancel(*error.args):  # as its task does from now on
                return self._hand_over()
        return self._context.run(self._execution.throw, error)

    def _go_on(self) -> Any:
        """The task's first turn with the execution."""
        if self._waits_for is not None:
            return self._hand_over()
        assert self._execution is not None
        assert self._context is not None
        return self._context.run(self._execution.send, None)  # it gave way for one turn of the loop, which is over

    def _hand_over(self) -> Any:
        """The task waits for it, as if the execution had come to it just now."""
        waits_for, self._waits_for = self._waits_for, None
        if isfuture(waits_for):  # else it is for the task to refuse
            waits_for._asyncio_future_blocking = True  # noqa: SLF001 - see `take`
        return waits_for

    def close(self) -> None:
        """Nobody will go on with it."""
        if self._execution is not None and self._context is not None:
            self._context.run(self._execution.close)

    __del__ = close

    def __await__(self) -> Generator[Any, Any, None]:
        """For task factories that put a coroutine of their own around each: tracing does."""
        try:
            waits_for = self.send(None)
            while True:
                try:
                    value = yield waits_for
                except GeneratorExit:
                    self.close()
                    raise
                except BaseException as error:  # noqa: BLE001 - thrown in, a cancel for one: it is for the execution
                    waits_for = self.throw(error)
                else:
                    waits_for = self.send(value)
        except StopIteration:
            return
