"""The least that any engine of this design must do for a step, as a yardstick that knows nothing of outlast.

A body on a loop of its own, its step as a task of the host's, what came of it as JSON, and one group commit of rows to
SQLite at `synchronous=full`, so N steps cost N+1 rows. What it leaves out is the engine: leases and fences, rows of
runs, replay, retries, timers, cancels, limits, contexts, checks of any kind. A ratio to it can be told on any machine.
"""

# ruff: noqa: SLF001 - a loop inside another is made of asyncio's inner parts

from __future__ import annotations

import asyncio
import collections
import itertools
import queue
import sqlite3
import threading
import time
from asyncio import events
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.figures import Rate

__all__ = ["measure_floor"]

SCHEMA = "create table journal (run text, seq integer, at integer, writer text, events blob, unique (run, seq))"
Row = tuple[str, int, int, str, bytes]


class Event(msgspec.Struct, frozen=True, tag_field="event", gc=False):
    at: int
    key: str
    value: msgspec.Raw = msgspec.Raw(b"null")


class Succeeded(Event, frozen=True, tag=True, gc=False): ...


class Started(Event, frozen=True, tag=True, gc=False): ...


class Ended(Event, frozen=True, tag=True, gc=False): ...


encode = msgspec.json.Encoder().encode


class BodyLoop(asyncio.AbstractEventLoop):
    """Runs callbacks in their order, when told to, inside the host's."""

    def __init__(self) -> None:
        self._ready: collections.deque[asyncio.Handle] = collections.deque()

    def get_debug(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def call_soon(self, callback: Callable[..., object], *arguments: Any, context: Any = None) -> asyncio.Handle:
        handle = asyncio.Handle(callback, arguments, self, context)
        self._ready.append(handle)
        return handle

    def drain(self) -> None:
        host = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while self._ready:
                self._ready.popleft()._run()
        finally:
            events._set_running_loop(host)


class Writer:
    """Everything that waits is one transaction, on a thread."""

    def __init__(self, path: Path) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: list[tuple[Row, Callable[[], None]]] = []
        self._is_busy = False
        self._queue: queue.SimpleQueue[list[tuple[Row, Callable[[], None]]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, args=(path,), daemon=True)
        self._thread.start()

    def submit(self, row: Row, landed: Callable[[], None]) -> None:
        self._waiting.append((row, landed))
        if not self._is_busy:
            self._is_busy = True
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _flush(self) -> None:
        batch, self._waiting = self._waiting, []
        if batch:
            self._queue.put(batch)
        else:
            self._is_busy = False

    def _serve(self, path: Path) -> None:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = full")
        connection.execute(SCHEMA)
        while (batch := self._queue.get()) is not None:
            connection.execute("begin immediate")
            connection.executemany("insert into journal values (?, ?, ?, ?, ?)", [row for row, _ in batch])
            connection.execute("commit")
            self._loop.call_soon_threadsafe(self._landed, batch)
        connection.close()

    def _landed(self, batch: list[tuple[Row, Callable[[], None]]]) -> None:
        for _, landed in batch:
            landed()
        self._flush()


class Run:
    """Thinks before the commit, acts after."""

    def __init__(self, writer: Writer, uid: str, body: Callable[[Run], Coroutine[Any, Any, int]]) -> None:
        self._writer = writer
        self._uid = uid
        self._seq = 0
        self._host = asyncio.get_running_loop()
        self._loop = BodyLoop()
        self._asked: list[tuple[str, Callable[[int], Coroutine[Any, Any, int]], int, asyncio.Future[int]]] = []
        self._keys = itertools.count()
        self._task = asyncio.Task(body(self), loop=self._loop)
        self.ended: asyncio.Future[int] = self._host.create_future()
        self._advance([])

    def step(self, function: Callable[[int], Coroutine[Any, Any, int]], argument: int) -> asyncio.Future[int]:
        future = self._loop.create_future()
        self._asked.append((f"{function.__name__}#{next(self._keys)}", function, argument, future))
        return future

    def _advance(self, entry: list[Event]) -> None:
        self._loop.drain()
        asked, self._asked = self._asked, []
        at = time.time_ns() // 1000
        entry += [Started(at, key, msgspec.Raw(encode(argument))) for key, _, argument, _ in asked]
        if self._task.done():
            entry.append(Ended(at, "", msgspec.Raw(encode(self._task.result()))))

        def landed() -> None:
            if self._task.done():
                self.ended.set_result(self._task.result())
            for key, function, argument, future in asked:
                task = self._host.create_task(function(argument))
                task.add_done_callback(lambda done, key=key, future=future: self._succeeded(key, future, done.result()))

        self._writer.submit((self._uid, self._seq, at, "worker", encode(entry)), landed)
        self._seq += 1

    def _succeeded(self, key: str, future: asyncio.Future[int], value: int) -> None:
        raw = encode(value)
        future.set_result(msgspec.json.decode(raw, type=int))
        self._advance([Succeeded(time.time_ns() // 1000, key, msgspec.Raw(raw))])


async def _step(number: int) -> int:
    return number


async def measure_floor(path: Path, *, steps: int, runs: int, concurrency: int) -> Rate:
    """Steps, of so many runs of so many steps that do nothing; `concurrency` runs at once. A new file."""
    writer = Writer(path)

    async def body(run: Run) -> int:
        for number in range(steps):
            await run.step(_step, number)
        return steps

    numbers = itertools.count()

    async def work(most: int) -> None:
        while (number := next(numbers)) < most:
            await Run(writer, f"01890a5d-ac96-774b-bcce-{number:012}", body).ended

    await asyncio.gather(*(work(concurrency) for _ in range(concurrency)))  # to warm up
    numbers = itertools.count(concurrency)
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(work(concurrency + runs) for _ in range(min(concurrency, runs))))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    writer.close()
    return Rate(runs * steps / seconds, cpu * 1e6 / (runs * steps))
