"""Threads for plain functions. Layer: engine.

A bounded pool whose threads can be given up: a step that timed out keeps its thread, which nobody can stop, but no
place in the pool (SPEC S6). What always holds: at most `most` threads that were not given up; idle ones end after a
while; all are daemons, so that a stuck step cannot keep a process from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["ThreadPool"]

R = TypeVar("R")

IDLE_S = 30.0


class _Job:
    __slots__ = ("context", "function", "future", "is_given_up", "loop", "thread_is_running")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, context: contextvars.Context, function: Callable[[], Any]
    ) -> None:
        self.loop = loop
        self.context = context
        self.function = function
        self.future: asyncio.Future[Any] = loop.create_future()
        self.is_given_up = False
        self.thread_is_running = False


class ThreadPool:
    """Runs plain functions, at most `most` at once, in the order given."""

    def __init__(self, most: int, name: str = "outlast-step") -> None:
        self._most = most
        self._name = name
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._made = 0
        self._waiting = 0

    async def run(self, context: contextvars.Context, function: Callable[[], R]) -> R:
        """The function's value, computed in a thread, in this context.

        Cancelled: its thread is given up and its outcome dropped; a function that no thread has begun never runs."""
        job = _Job(asyncio.get_running_loop(), context, function)
        with self._lock:
            self._waiting += 1
            if self._idle < self._waiting and self._threads < self._most:
                self._start_thread()
        self._jobs.put(job)
        try:
            value: R = await job.future
        except asyncio.CancelledError:
            self._give_up(job)
            raise
        return value

    def close(self) -> None:
        """Let idle threads end now."""
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)

    def _start_thread(self) -> None:
        self._threads += 1
        self._made += 1
        threading.Thread(target=self._work, name=f"{self._name}-{self._made}", daemon=True).start()

    def _give_up(self, job: _Job) -> None:
        with self._lock:
            if job.is_given_up:
                return
            job.is_given_up = True
            if job.thread_is_running:
                self._threads -= 1  # its thread is not one of ours any more; another may take its place
                if self._waiting > self._idle and self._threads < self._most:
                    self._start_thread()

    def _work(self) -> None:
        while True:
            job = self._next()
            if job is None:
                return
            try:
                outcome: Any = job.context.run(job.function)
                failed = False
            except BaseException as error:  # noqa: BLE001 - it is the step's outcome, and belongs to its task
                outcome, failed = error, True
            with self._lock:
                gone = job.is_given_up
                job.thread_is_running = False
            if gone:
                return
            try:
                job.loop.call_soon_threadsafe(_settle, job, outcome, failed)
            except RuntimeError:  # the loop is closed: nobody waits
                pass
            del job, outcome

    def _next(self) -> _Job | None:
        """The next job that is still wanted; None: this thread may end."""
        while True:
            with self._lock:
                self._idle += 1
            try:
                job = self._jobs.get(timeout=IDLE_S)
            except queue.Empty:
                job = None
            with self._lock:
                self._idle -= 1
                if job is None:
                    if self._waiting:
                        continue
                    self._threads -= 1
                    return None
                self._waiting -= 1
                if not job.is_given_up:
                    job.thread_is_running = True
                    return job


def _settle(job: _Job, outcome: Any, failed: bool) -> None:
    if job.future.done():
        return
    if not failed:
        job.future.set_result(outcome)
    elif isinstance(outcome, StopIteration):
        job.future.set_exception(RuntimeError(f"the step raised StopIteration({outcome.value!r})"))
    else:
        job.future.set_exception(outcome)
