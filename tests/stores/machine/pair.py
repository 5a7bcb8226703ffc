"""Two stores that are asked the same: the one in memory, which is the model, and another, which must answer alike."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from outlast.errors import OutlastError
from outlast.stores.memory import MemoryStore
from outlast.stores.store import Look, RunQuery, Store, WaitQuery

__all__ = ["Pair", "Time"]

UNORDERED = {"claim", "claim_tasks", "list_owned", "list_workers", "renew_tasks", "lost_attempts", "list_queues"}
"""Calls whose answers come in no order that is promised, where all is taken that there is."""


class Time:
    """What has to be told the time, beside the two stores: nothing."""

    async def set(self, now: int) -> None:
        """It is this late."""

    async def close(self) -> None:
        """It need not know any more."""


class Pair:
    """The model, the other, and one clock for both, which ticks with each call: no two things happen at once."""

    def __init__(self, make: Callable[[Callable[[], int]], Store], time: Time) -> None:
        self.now = 1_700_000_000_000_000
        self.loop = asyncio.new_event_loop()
        self.model = MemoryStore(clock=lambda: self.now)
        self.other = make(lambda: self.now)
        self._time = time
        self._last: tuple[str, tuple[Any, ...], dict[str, Any]] | None = None
        self.log: list[str] = []

    def open(self) -> None:
        """Both."""
        for store in (self.model, self.other):
            self.loop.run_until_complete(store.open())

    def close(self) -> None:
        """Both."""
        for store in (self.model, self.other):
            self.loop.run_until_complete(store.close())
        self.loop.run_until_complete(self._time.close())
        self.loop.close()

    def ask(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Both answer alike, or raise alike; the answer, or the error."""
        self._last = (name, args, kwargs)
        self.now += 1
        answers = self.loop.run_until_complete(self._ask_both(name, args, kwargs))
        mine, theirs = (_comparable(name, answer) for answer in answers)
        self.log.append(f"{name}{args}{kwargs or ''} -> {mine}")
        assert mine == theirs, f"{name}{args}{kwargs}:\n  model {mine}\n  other {theirs}\n" + "\n".join(self.log[-12:])
        return answers[0]

    def ask_until_none(self, name: str, **kwargs: Any) -> None:
        """Each until it has no more to say; what they said is the same, in whatever order."""
        self.now += 1
        told = self.loop.run_until_complete(self._ask_both_until_none(name, kwargs))
        mine, theirs = (sorted(map(repr, answers)) for answers in told)
        self.log.append(f"{name}{kwargs} -> {mine}")
        assert mine == theirs, f"{name}{kwargs}:\n  model {mine}\n  other {theirs}\n" + "\n".join(self.log[-12:])

    async def _ask_both_until_none(self, name: str, kwargs: dict[str, Any]) -> list[list[Any]]:
        await self._time.set(self.now)
        told: list[list[Any]] = [[], []]
        for store, answers in zip((self.model, self.other), told, strict=True):
            while (answer := await _ask(store, name, (), kwargs)) is not None:
                answers.append(answer)
        return told

    def repeat(self) -> Any:
        """The last call again, as after a lost answer."""
        if self._last is not None:
            name, args, kwargs = self._last
            return self.ask(name, *args, **kwargs)
        return None

    async def _ask_both(self, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        await self._time.set(self.now)
        return [await _ask(store, name, args, kwargs) for store in (self.model, self.other)]

    def compare(self, uids: Sequence[str]) -> None:
        """All that others can see of the stores."""
        for uid in uids:
            self.ask("find_uid", uid)
            self.ask("read_journal", uid)
            self.ask("read_inbox", uid, limit=100)
            self.ask("list_tasks", uid)
        self.ask("list_runs", RunQuery(limit=100))
        self.ask("list_waits", WaitQuery(limit=100))
        self.ask("list_workers")
        self.ask("list_queues")
        self.ask("count_runs")


async def _ask(store: Store, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    method = getattr(store, name)
    try:
        answer = method(*args, **kwargs)
        return await answer if inspect.isawaitable(answer) else answer
    except (OutlastError, ValueError) as error:
        return error


def _comparable(name: str, answer: Any) -> Any:
    if isinstance(answer, Exception):
        return type(answer).__name__
    if isinstance(answer, Look):
        return msgspec.structs.replace(answer, mail=tuple(sorted(answer.mail)))
    return sorted(answer, key=repr) if name in UNORDERED else answer
