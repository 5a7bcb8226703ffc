"""One body's loop: it runs inside the host's thread, and moves only when its machine says so. Layer: core.

What always holds:

- The same calls in the same order give the same order of callbacks in every process (invariant 8): tasks and futures
  hash by ordinal, tasks and async generators are held until they are done.
- A drain leaves the thread as it found it: the running loop, the current task and the generator hooks.
- "In a run" means that the running loop is a `BodyLoop`. A ContextVar would be wrong for closed coroutines, and for
  collected ones.
"""

# asyncio has no public way to change the running loop.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
from asyncio.events import _get_running_loop, _set_running_loop
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import AsyncGenerator, Coroutine
from contextvars import Context, copy_context
from typing import Any, Final, cast, final

from outlast.core.loop import audit, patches
from outlast.core.loop.callbacks import BUDGET, CallbackLoop
from outlast.core.loop.eviction import close_body
from outlast.core.loop.generators import BodyGenerators
from outlast.core.loop.switch import Entered, current_task_of, go_back, set_running_loop
from outlast.core.loop.tasks import BodyFuture, BodyTask, format_stacks
from outlast.errors import BodySpins

__all__ = ["BodyLoop", "running_body_loop"]

MOST_REFUSED: Final = 100


@final
class BodyLoop(CallbackLoop):
    """What a machine feeds, and what a body finds as its running loop."""

    __slots__ = (
        "_context",
        "_generators",
        "_names",
        "_ordinals",
        "_refused",
        "_tasks",
        "_tasks_most",
        "dev",
        "machine",
        "run_id",
        "stuck",
    )

    def __init__(self, *, start_us: int, dev: bool = False) -> None:
        """`dev`: effects behind the loop's back raise as well (`audit`)."""
        super().__init__(start_us)
        self.dev = dev
        self.machine: Any = None
        """What authoring reaches from inside the body. Eviction lets go of it."""
        self.run_id = ""
        """For messages."""
        self._context: Context | None = None
        self._tasks: list[BodyTask] = []
        """All that are not done, and some that are."""
        self._tasks_most = 16
        self._generators = BodyGenerators()
        self._ordinals = 0
        self._names = 0
        self._refused = 0
        self.stuck = 0
        """Plain bodies that would not die. They are kept, as coroutines are."""
        if dev:
            audit.watch(running_body_loop)

    # --- what the machine calls ---------------------------------------------------------------------------------------

    def spawn_root(self, coro: Coroutine[Any, Any, Any], *, context: Context | None = None) -> BodyTask:
        """Make the body's first task. It starts in an empty context: a replay has nothing of the starter's either."""
        self._context = Context() if context is None else context
        return self.create_task(coro, context=self._context)

    def entered(self) -> Entered:
        """A context in which this loop is the running one, for what must happen inside it without a drain."""
        return Entered(self, _hold_generator, _let_go)

    def drain(self) -> None:
        """Run what is ready, and what becomes ready by it, until nothing is.

        Raises `BodySpins` when the budget is used up; a `BodyStopped` that a callback raised or `interrupt` put in;
        KeyboardInterrupt; and the MemoryError of a plain callback (a task keeps its own). After any of them the body
        is to be evicted. All else stays inside: tasks hold their errors, `system_exit` and `unhandled` the rest.
        """
        if not self._ready:
            return
        host = _get_running_loop()
        if host is self:  # the caller has entered it, for many drains
            if not self.run_ready():
                raise self._spins()
            return
        # `with self.entered()`, written out: this happens once a step, and takes two thirds of the time so.
        task = None if host is None else current_task_of(host)
        hooks = sys.get_asyncgen_hooks()
        try:
            if host is not None and task is not None:
                _leave_task(host, task)
            set_running_loop(self)
            sys.set_asyncgen_hooks(_hold_generator, _let_go)
            if not self.run_ready():
                raise self._spins()
        finally:
            try:
                sys.set_asyncgen_hooks(*hooks)
                _set_running_loop(host)
                if host is not None and task is not None and current_task_of(host) is not task:
                    _enter_task(host, task)
            except BaseException:
                go_back(host, task, hooks)
                raise

    def live_tasks(self) -> list[BodyTask]:
        """All tasks that are not done, oldest first."""
        return [task for task in self._tasks if not task.done()]

    def task_stacks(self) -> str:
        """Where each live task waits, as text for a person."""
        return format_stacks(self.live_tasks())

    def cancel_others(self, root: BodyTask) -> None:
        """Cancel every live task but `root`, oldest first, as `asyncio.run` does when its main task ends."""
        others = [task for task in self._tasks if task is not root and not task.done()]
        if others:
            with self.entered():
                for task in others:
                    task.cancel()

    def close_generators(self) -> None:
        """Let a new task close the async generators still open, one by one, oldest first. The body's tasks have ended.

        Drain after it. A generator's `finally` may await a step: then the task is among `live_tasks()`, and the run is
        over when it has ended too. No task is made where no generator is open, so this may be called again and again.
        """
        if self._generators.list_open():
            context = Context() if self._context is None else self._context.copy()
            with self.entered():
                self.create_task(self._generators.close(self.note_unhandled), context=context)

    def evict(self) -> int:
        """Drop the body without effect in the world (LOOP §3). Gives how many coroutines would not die; they are kept.

        For ever after, `closing` is true, nothing becomes ready and no timer is armed. May be called again.
        """
        if self.closing:
            return 0
        self.closing = True
        self.drop_callbacks()
        tasks, generators = self.live_tasks(), self._generators.list_open()
        self._tasks.clear()
        self._generators.clear()
        try:
            if not tasks and not generators:
                return 0
            with self.entered():
                return close_body(tasks, generators, self._context or Context(), self.is_running) + self.stuck
        finally:
            # All of these lead back to the loop, if only by the frames of a traceback.
            self.machine = self._context = self.system_exit = self.foreign_call = None
            self.unhandled.clear()

    # --- what asyncio and the body call -------------------------------------------------------------------------------

    def create_future(self) -> BodyFuture:
        """A future of this body."""
        if self.closing:
            self._refuse_to_wait()
        future = BodyFuture(loop=self)
        self._ordinals = future.ordinal = self._ordinals + 1
        return future

    def create_task(
        self, coro: Any, *, name: object = None, context: Context | None = None, **options: Any
    ) -> BodyTask:
        """A task of this body, held until it is done. `options` are what a later asyncio has for tasks."""
        if self.closing:
            coro.close()
            self._refuse_to_wait()
            return cast(BodyTask, self.create_future())
        self._ordinals += 1
        self._names += 1
        task = BodyTask(
            coro,
            loop=self,
            ordinal=self._ordinals,
            name=f"task-{self._names}" if name is None else str(name),
            context=copy_context() if context is None else context,
            **options,
        )
        self._tasks.append(task)
        if len(self._tasks) > self._tasks_most:
            self._tasks = self.live_tasks()
            self._tasks_most = max(16, 2 * len(self._tasks))
        return task

    def is_running(self) -> bool:
        """Whether it is the running loop of the calling thread."""
        return _get_running_loop() is self

    def is_closed(self) -> bool:
        """Whether the body was evicted."""
        return self.closing

    # --- inside -------------------------------------------------------------------------------------------------------

    def _spins(self) -> BodySpins:
        return BodySpins(self.run_id, BUDGET, self.task_stacks())

    def next_ordinal(self) -> int:
        """A number that no task and no future of this body has."""
        self._ordinals += 1
        return self._ordinals

    def hold_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        """Take in a generator that is about to run for the first time."""
        self._generators.hold(generator)

    def _refuse_to_wait(self) -> None:
        """End a body that is being evicted where it wants to wait. One that has swallowed a hundred of these is left to
        wait instead, for ever: its `while True: try: … except: …` would never return.
        """
        self._refused += 1
        if self._refused <= MOST_REFUSED:
            raise GeneratorExit


def running_body_loop() -> BodyLoop | None:
    """The running loop if it is a body's. This is what "in a run" means."""
    loop = _get_running_loop()
    return loop if type(loop) is BodyLoop else None


def _hold_generator(generator: AsyncGenerator[Any, Any]) -> None:
    loop = running_body_loop()
    if loop is not None:
        loop.hold_generator(generator)


def _let_go(_: AsyncGenerator[Any, Any]) -> None:
    """A generator is freed before its end: eviction could not close it. It runs no further."""


patches.install(running_body_loop)
