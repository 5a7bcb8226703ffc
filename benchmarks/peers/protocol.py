"""What a contender's process is told, what it answers, and the loops that are the same for all of them.

It runs in two virtual environments: nothing here but the standard library. A contender is a module with a class that
makes its functions, starts runs and waits for them; `play` does the rest. Orders come as JSON in the first argument,
answers go to standard output as lines of JSON.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Answer", "Contender", "Order", "play"]

FAN = 10
"""Queued steps of a run, sent at once."""
DAY_S = 86_400.0


@dataclass(frozen=True)
class Order:
    """What to do."""

    url: str
    """Of a database or a file that is new."""
    subject: str
    """`sequence`: runs of steps one after another. `queued`: runs that send steps to a queue and wait for all.
    `asleep`: runs that sleep for a day. `worker` and `client`: the two sides of a pick-up."""
    is_tuned: bool = False
    """With the contender's best settings for this; else with its defaults."""
    steps: int = 10
    concurrency: int = 1
    """Runs under way at once."""
    seconds: float = 3.0
    """No run is begun after so long; those under way are waited for."""
    most: int = 1_000_000
    """Runs."""
    settle_s: float = 5.0
    """Of `asleep`: until who lets go of what sleeps has done so."""


@dataclass
class Answer:
    """What became of it."""

    version: str
    settings: str
    runs: int = 0
    seconds: float = 0.0
    """Until the last of them had its result."""
    cpu_seconds: float = 0.0
    """Of this process; the server's are not in it."""
    resident: int = 0
    """Bytes that the process had in memory, at most; of `asleep`, those it has while they sleep."""
    before: int = 0
    """Of `asleep`: bytes before."""
    latencies: list[float] = field(default_factory=list)
    """Of a client: seconds from each start to the begin of the first step in the worker."""


class Contender(Protocol):
    """One engine. It is made before there is an event loop."""

    version: str
    settings: str

    def open(self) -> AbstractAsyncContextManager[None]:
        """Ready to start runs and to work them; of a client, to start them only."""
        ...

    async def run(self, subject: str, steps: int) -> Any:
        """Start one run and wait for its result."""
        ...

    async def put_to_sleep(self, seconds: float) -> None:
        """Start one run that sleeps."""
        ...


def play(make: Callable[[Order], Contender]) -> None:
    """Do what the first argument says, and answer."""
    order = Order(**json.loads(sys.argv[1]))
    output = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no answer
    contender = make(order)
    answer = Answer(contender.version, contender.settings)

    def tell(value: object) -> None:
        os.write(output, json.dumps(value).encode() + b"\n")

    asyncio.run(_PLAYS[order.subject](contender, order, answer, tell))
    tell(asdict(answer))
    os._exit(0)  # threads that some leave behind are no part of it


Tell = Callable[[object], None]


async def _play_runs(contender: Contender, order: Order, answer: Answer, _: Tell) -> None:
    async with contender.open():
        await _work(contender, order, most=min(order.concurrency, 32), seconds=60.0)  # warms up
        cpu = time.process_time()
        answer.runs, answer.seconds = await _work(contender, order, most=order.most, seconds=order.seconds)
        answer.cpu_seconds = time.process_time() - cpu
        answer.resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


async def _work(contender: Contender, order: Order, *, most: int, seconds: float) -> tuple[int, float]:
    """Keep so many runs under way; how many there were, and how long it took."""
    numbers = itertools.count()
    done = 0
    began = time.perf_counter()

    async def keep_one() -> None:
        nonlocal done
        while next(numbers) < most and time.perf_counter() - began < seconds:
            await contender.run(order.subject, order.steps)
            done += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(min(order.concurrency, most)):
            group.create_task(keep_one())
    return done, time.perf_counter() - began


async def _play_asleep(contender: Contender, order: Order, answer: Answer, _: Tell) -> None:
    async with contender.open():
        await contender.put_to_sleep(DAY_S)
        await asyncio.sleep(order.settle_s)
        answer.before = _resident_bytes()
        for first in range(0, order.most, 100):
            await asyncio.gather(*(contender.put_to_sleep(DAY_S) for _ in range(min(100, order.most - first))))
        await asyncio.sleep(order.settle_s)
        answer.runs, answer.resident = order.most, _resident_bytes()


async def _play_worker(contender: Contender, _: Order, __: Answer, tell: Tell) -> None:
    async with contender.open():
        tell("ready")
        await asyncio.to_thread(sys.stdin.readline)


async def _play_client(contender: Contender, order: Order, answer: Answer, _: Tell) -> None:
    async with contender.open():
        for number in range(order.most + 2):
            await asyncio.sleep(0.02 + 0.06 * (number * 7 % 13) / 13)  # at no fixed distance from what a worker does
            began = time.monotonic_ns()
            looked = int(await contender.run("look", 1))
            if number >= 2:  # the first warm up
                answer.latencies.append((looked - began) / 1e9)
        answer.runs = order.most


_PLAYS: dict[str, Callable[[Contender, Order, Answer, Tell], Coroutine[Any, Any, None]]] = {
    "sequence": _play_runs,
    "queued": _play_runs,
    "asleep": _play_asleep,
    "worker": _play_worker,
    "client": _play_client,
}


def _resident_bytes() -> int:
    """Now; where the system does not tell, the most it ever had."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return pages * os.sysconf("SC_PAGE_SIZE")
