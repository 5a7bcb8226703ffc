"""A stepper with a run that only listens: what the engine around it would make of an outcome is not at issue."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from outlast.authoring.context import Context
from outlast.authoring.module import Module
from outlast.core.attempts import OpenSteps
from outlast.core.calls import PendingStep
from outlast.core.events import Event, StepFailed, StepSucceeded
from outlast.engine.attempts.stepper import Stepper
from outlast.engine.attempts.threads import ThreadPool
from outlast.engine.clock import StoreClock
from tests.authoring.player import START_US, Player

LOG = logging.getLogger("outlast")


class Gate:
    """Something a step waits for, in its task or its thread."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.thread_opened = threading.Event()
        self._loop = asyncio.get_running_loop()

    async def wait(self) -> None:
        self.reached.set()
        await self.opened.wait()

    def wait_in_thread(self) -> None:
        self._loop.call_soon_threadsafe(self.reached.set)
        assert self.thread_opened.wait(20)


def failures_of(outcome: Any) -> tuple[str, bool]:
    """What it failed with, and whether it is to be retried."""
    assert isinstance(outcome, StepFailed)
    return outcome.error.type, outcome.retry_at is not None


class ListeningHome:
    """What a stepper asks of its home."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.log = LOG
        self.clock = StoreClock()
        self.clock.set(START_US)
        self.is_leased = True
        self.leases_lost = 0

    def holds_lease(self) -> bool:
        return self.is_leased

    def lose_lease(self) -> None:
        self.leases_lost += 1


class ListeningRun:
    """What a stepper asks of a run: its body called `step` so many times, and waits."""

    def __init__(self, home: ListeningHome, body: Callable[..., Any], uid: str = "uid-1") -> None:
        self.home = home
        self.uid = uid
        self.player = Player(Module("").workflow(name="work")(body))
        self.player.begin()
        self.started = self.player.started
        self.steps = OpenSteps()
        self.running: set[str] = set()
        self.is_dropped = False
        self.end = None
        self.told: list[Event] = []
        self.offered: list[str] = []
        """Steps that were offered a place."""
        self.wants_place = True
        self._waiting: dict[str, asyncio.Future[Event]] = {}

    @property
    def pending(self) -> dict[str, PendingStep]:
        return self.player.machine.pending

    def now_us(self) -> int:
        return self.home.clock.now_us()

    def take(self, event: Event) -> None:
        self.told.append(event)

    def give_place(self, key: str) -> bool:
        self.offered.append(key)
        return self.wants_place

    @property
    def outcomes(self) -> list[StepSucceeded | StepFailed]:
        return [event for event in self.told if isinstance(event, StepSucceeded | StepFailed)]


class Stepping:
    """Attempts, begun as the engine begins them and waited for."""

    def __init__(self, *, concurrency: int = 3, executors: Mapping[str, Executor] | None = None) -> None:
        self.home: Any = ListeningHome()
        self.threads = ThreadPool(4)
        self.stepper = Stepper(self.home, concurrency=concurrency, threads=self.threads, executors=executors or {})
        self.concurrency = concurrency
        self._runs: list[ListeningRun] = []

    def run_of(self, step: Callable[..., Any], *args: Any, times: int = 1) -> Any:
        """A run whose body called the step: `step`, `step#1`, and so on."""

        async def body(ctx: Context) -> None:
            await asyncio.gather(*(step(*args) for _ in range(times)))

        self._runs.append(ListeningRun(self.home, body, f"uid-{len(self._runs) + 1}"))
        return self._runs[-1]

    def start(self, run: Any, key: str, attempt: int = 1) -> None:
        """As `Draft.act` does, with a place reserved; it has not begun yet."""
        assert self.stepper.reserve()
        run.steps.start(key, 1).attempt = attempt
        run.running.add(key)
        self.stepper.run(run, run.pending[key], attempt)

    def begin(self, run: Any, key: str, attempt: int = 1) -> asyncio.Task[None]:
        """Start one that waits for something; gives its task."""
        self.start(run, key, attempt)
        return self.stepper.tasks()[-1]

    async def carry_out(self, run: Any, key: str, attempt: int = 1) -> StepSucceeded | StepFailed:
        """To its end; gives the one outcome."""
        before = len(run.outcomes)
        self.start(run, key, attempt)
        if tasks := self.stepper.tasks():
            await asyncio.wait(tasks[-1:])
        (outcome,) = run.outcomes[before:]
        return outcome

    def free_places(self) -> int:
        """Counted by taking them all."""
        taken = 0
        while self.stepper.reserve():
            taken += 1
        for _ in range(taken):
            self.stepper.release()
        return taken

    def close(self) -> None:
        self.threads.close()
        for run in self._runs:
            run.player.close()
