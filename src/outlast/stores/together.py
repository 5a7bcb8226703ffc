"""Reads that are asked for in one turn of the event loop are one statement. Layer: stores.

A worker that takes runs over reads the journal and the inbox of each: by themselves they are many round trips, and most
of the time until the runs go on. What always holds: who asks gets the answer to what it asked, or the error of the
statement that was to give it; one that asks no longer costs the others nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

__all__ = ["Together"]

MOST = 32
"""Answered by one statement: as many as a worker loads at a time."""

K = TypeVar("K")
V = TypeVar("V")


class Together(Generic[K, V]):
    """Asks for many at once. All of it is for the event loop."""

    def __init__(self, read: Callable[[Sequence[K]], Awaitable[Sequence[V]]]) -> None:
        """`read` gives the answers in the order of what was asked."""
        self._read = read
        self._waiting: list[tuple[K, asyncio.Future[V]]] = []
        self._reading: set[asyncio.Task[None]] = set()

    async def ask(self, wanted: K) -> V:
        """The answer, with those of all who ask in this turn. Raises what `read` does."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[V] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._begin, loop)
        self._waiting.append((wanted, answer))
        return await answer

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = [(wanted, answer) for wanted, answer in self._waiting if not answer.done()]
        self._waiting.clear()
        for first in range(0, len(waiting), MOST):
            task = loop.create_task(self._answer(waiting[first : first + MOST]))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)

    async def _answer(self, waiting: Sequence[tuple[K, asyncio.Future[V]]]) -> None:
        try:
            answers = await self._read([wanted for wanted, _ in waiting])
        except asyncio.CancelledError:
            for _, answer in waiting:
                answer.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - it is raised where it was asked
            for _, answer in waiting:
                if not answer.done():
                    answer.set_exception(error)
        else:
            for (_, answer), found in zip(waiting, answers, strict=True):
                if not answer.done():
                    answer.set_result(found)
