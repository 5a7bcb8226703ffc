"""Lanes whose items are functions."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable

from outlast.engine.attempts.lanes import Lanes

Item = Callable[[], Awaitable[None]]

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


class Track:
    """Lanes whose items are functions; notes in which task each began, and who ended in which order."""

    def __init__(self) -> None:
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self.ended: list[str] = []
        self.cancelled: list[str] = []
        self.lanes: Lanes[tuple[str, Item]] = Lanes(asyncio.get_running_loop(), self._execute)

    def run(self, name: str, item: Item) -> None:
        self.lanes.run((name, item), contextvars.copy_context())

    async def until_ended(self, count: int) -> None:
        async with asyncio.timeout(20):
            while len(self.ended) < count:
                await asyncio.sleep(0)

    async def _execute(self, named: tuple[str, Item], lane: asyncio.Task[None]) -> None:
        name, item = named
        assert lane is asyncio.current_task()
        self.tasks[name] = lane
        try:
            await item()
        except asyncio.CancelledError:
            self.cancelled.append(name)
        self.ended.append(name)


async def no_wait() -> None:
    pass
