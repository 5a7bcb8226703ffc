"""A world of processes in one thread: simulated time, and one seeded scheduler for all their event loops.

Each process has an event loop of its own, a clock of its own, and whatever else a real one gets from the machine. The
scheduler runs one loop's turn at a time, in an order that the seed decides; when nobody has anything to do, time skips
to what is next due. What always holds: the same seed makes the same things happen in the same order.
"""

from __future__ import annotations

import asyncio
import collections
import contextvars
import heapq
import random
from asyncio import events
from collections.abc import Callable, Coroutine
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.crash.ledger import Mark

__all__ = ["START_US", "Host", "HostLoop", "World"]

START_US = 1_700_000_000_000_000
SECOND_US = 1_000_000
FOR_EVER = 1 << 62


class World:
    """Time, and who does something next."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now_us = START_US
        self.set_forward_us = 0
        """How far the store's clock is from the world's time."""
        self.running: Host | None = None
        """Whose code runs."""
        self.problems: list[str] = []
        """What must not be: the world stops at the first."""
        self.note: Callable[[Mark], None] = lambda _: None
        """Told of what steps do."""
        self._ordinal = 0
        self._queue: list[tuple[int, int, Host | None, bool, Callable[[], None]]] = []

    def next_ordinal(self) -> int:
        """1, 2, …"""
        self._ordinal += 1
        return self._ordinal

    def store_time(self) -> int:
        """The store's clock."""
        return self.now_us + self.set_forward_us

    def read_ns(self, _: int) -> int:
        """In place of `time.clock_gettime_ns`: the clock of whose code runs."""
        return self.now_us * 1000 if self.running is None else self.running.boot_us() * 1000

    def at(self, at_us: int, call: Callable[[], None], host: Host | None = None, *, in_loop: bool = False) -> None:
        """Have this called then; if it is a host's, while that lives and is not frozen, and, if it is its event
        loop's, is not blocked."""
        self._ordinal += 1
        heapq.heappush(self._queue, (at_us, self._ordinal, host, in_loop, call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Have this called so much later."""
        self.at(self.now_us + round(seconds * SECOND_US), call)

    def run(self, until_us: int) -> None:
        """Let everything happen that is due until then."""
        queue = self._queue
        while queue and queue[0][0] <= until_us and not self.problems:
            at_us, ordinal, host, in_loop, call = heapq.heappop(queue)
            self.now_us = max(self.now_us, at_us)
            if host is None:
                call()
                continue
            ready_us = host.frozen_until_us
            if in_loop and host.blocked_until_us > ready_us:
                ready_us = host.blocked_until_us
            if ready_us > self.now_us:
                if not host.is_dead:
                    heapq.heappush(queue, (ready_us, ordinal, host, in_loop, call))
                continue
            if host.is_dead:
                continue
            self.running = host
            events._set_running_loop(host.loop)
            try:
                call()
            finally:
                events._set_running_loop(None)
                self.running = None
        self.now_us = max(self.now_us, until_us)

    @contextmanager
    def entered(self, host: Host) -> Iterator[None]:
        """What is done inside is done by this process."""
        before, loop = self.running, events._get_running_loop()
        self.running = host
        events._set_running_loop(host.loop)
        try:
            yield
        finally:
            events._set_running_loop(loop)
            self.running = before


class Host:
    """A process: its clock, its event loop, and whether it runs, is frozen, or has died."""

    def __init__(self, world: World, name: str) -> None:
        rng = world.rng
        self.world = world
        self.name = name
        self.number = world.next_ordinal()
        self.is_dead = False
        self.frozen_until_us = 0
        self.blocked_at_us = self.blocked_until_us = 0
        self._booted_us = world.now_us - rng.randrange(1_000_000 * SECOND_US)
        self._pace = 1 + rng.uniform(-100e-6, 100e-6)  # what a cheap quartz may do
        self.loop = HostLoop(self)

    def boot_us(self) -> int:
        """Its clock that never jumps."""
        return int((self.world.now_us - self._booted_us) * self._pace)

    def world_us(self, boot_us: float) -> int:
        """When its clock will show that."""
        return self._booted_us + ceil(boot_us / self._pace) + 1

    def freeze(self, seconds: float) -> None:
        """Nothing of it runs for so long; then it goes on as if nothing had been."""
        self.frozen_until_us = max(self.frozen_until_us, self.world.now_us + round(seconds * SECOND_US))

    def block(self, seconds: float) -> None:
        """Its event loop stands still for so long; its threads go on."""
        self.blocked_at_us = self.world.now_us
        self.blocked_until_us = max(self.blocked_until_us, self.world.now_us + round(seconds * SECOND_US))

    def thaw(self) -> None:
        """It goes on now. What it holds back stays due when it was going to thaw."""
        self.frozen_until_us = self.blocked_until_us = 0

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Have its event loop run this."""
        with self.world.entered(self):
            return self.loop.create_task(coroutine, name=name)

    def die(self) -> None:
        """Nothing of it ever runs again. What it had begun is closed, so that no collector does that some day."""
        self.is_dead = True
        with self.world.entered(self):
            for task in self.loop.tasks:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    _close(task.get_coro())
        self.loop.tasks.clear()


def _close(coroutine: Any) -> None:
    """As the body's loop does it: one that awaits while it is closed is closed again."""
    for _ in range(8):
        try:
            coroutine.close()
        except RuntimeError:
            continue
        except BaseException:  # a dead process raises into the void
            pass
        return


class HostTask(asyncio.Task[Any]):
    """Hashed by its ordinal, so that sets of tasks iterate alike in every process that runs the simulation."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], *, ordinal: int, **options: Any) -> None:
        self._ordinal = ordinal
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._ordinal


class HostHandle(asyncio.TimerHandle):
    """A callback that is to come."""

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context

    def cancel(self) -> None:
        self.callback = None

    def cancelled(self) -> bool:
        return self.callback is None

    def __repr__(self) -> str:
        return f"<HostHandle {self.callback}>"

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class HostLoop(asyncio.AbstractEventLoop):
    """A process's event loop: callbacks in their order, timers by the process's clock."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.tasks: list[HostTask] = []
        self._ready: collections.deque[HostHandle] = collections.deque()
        self._has_turn = False

    # --- turns --------------------------------------------------------------------------------------------------------

    def call_soon(self, callback: Any, *args: Any, context: contextvars.Context | None = None) -> asyncio.Handle:
        handle = HostHandle(callback, args, contextvars.copy_context() if context is None else context)
        self._add(handle)
        return handle

    call_soon_threadsafe = call_soon

    def _add(self, handle: HostHandle) -> None:
        self._ready.append(handle)
        if not self._has_turn:
            self._has_turn = True
            self._expect_turn()

    def _expect_turn(self) -> None:
        world = self.host.world
        world.at(world.now_us + world.rng.getrandbits(5), self._take_turn, self.host, in_loop=True)

    def _take_turn(self) -> None:
        ready = self._ready
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle.callback is not None:
                try:
                    handle.context.run(handle.callback, *handle.args)
                except Exception as error:
                    self.call_exception_handler({"message": f"in {handle.callback}", "exception": error})
            if self.host.is_dead:
                return
        if ready:
            self._expect_turn()
        else:
            self._has_turn = False

    # --- time ---------------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.host.boot_us() / SECOND_US

    def call_later(
        self, delay: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + max(delay, 0), callback, *args, context=context)

    def call_at(
        self, when: float, callback: Any, *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        handle = HostHandle(callback, args, contextvars.copy_context() if context is None else context)
        host = self.host
        host.world.at(host.world_us(when * SECOND_US), lambda: self._ring(handle), host, in_loop=True)
        return handle

    def _ring(self, handle: HostHandle) -> None:
        if handle.callback is not None:
            self._add(handle)

    # --- tasks and futures --------------------------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task = HostTask(coro, loop=self, ordinal=self.host.world.next_ordinal(), **options)
        self.tasks.append(task)
        if len(self.tasks) > 200:
            self.tasks = [task for task in self.tasks if not task.done()]
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:
        async def run() -> Any:
            await asyncio.sleep(self.host.world.rng.uniform(0, 0.01))
            return func(*args)

        return self.create_task(run())

    def get_task_factory(self) -> None:
        return None

    # --- what else asyncio asks ---------------------------------------------------------------------------------------

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return self.host.is_dead

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.host.world.problems.append(f"{self.host.name}: {context.get('message')}: {context.get('exception')!r}")
