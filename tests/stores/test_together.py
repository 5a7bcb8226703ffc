"""Reads that are asked for in one turn of the event loop are one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from outlast.stores import together
from outlast.stores.together import Together


class Reader:
    """Answers ten times what is asked, when it may."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.may = asyncio.Event()
        self.fails = False

    async def read(self, wanted: Sequence[int]) -> list[int]:
        self.asked.append([*wanted])
        await self.may.wait()
        if self.fails:
            raise ValueError(f"no {wanted[0]}")
        return [10 * each for each in wanted]


async def test_what_is_asked_in_one_turn_is_one_read():
    """Each gets its own answer, also of the same question; what comes later is another read."""
    reader = Reader()
    both = Together(reader.read)
    asking = [asyncio.create_task(both.ask(number)) for number in (1, 2, 2, 3)]
    await asyncio.sleep(0.001)
    asking.append(asyncio.create_task(both.ask(4)))
    reader.may.set()
    assert await asyncio.gather(*asking) == [10, 20, 20, 30, 40]
    assert reader.asked == [[1, 2, 2, 3], [4]]


async def test_a_read_is_not_of_more_than_so_many(monkeypatch: pytest.MonkeyPatch):
    """Many are several reads."""
    monkeypatch.setattr(together, "MOST", 2)
    reader = Reader()
    reader.may.set()
    both = Together(reader.read)
    assert await asyncio.gather(*(both.ask(number) for number in range(5))) == [0, 10, 20, 30, 40]
    assert [len(asked) for asked in reader.asked] == [2, 2, 1]


async def test_an_error_is_told_to_all_who_asked_and_to_nobody_else():
    """The next read is a new one."""
    reader = Reader()
    both = Together(reader.read)
    asking = [asyncio.create_task(both.ask(number)) for number in (1, 2)]
    reader.fails = True
    reader.may.set()
    assert [str(error) for error in await asyncio.gather(*asking, return_exceptions=True)] == ["no 1", "no 1"]
    reader.fails = False
    assert await both.ask(3) == 30


async def test_one_that_asks_no_longer_costs_the_others_nothing():
    """Before it was read, and while it is."""
    reader = Reader()
    both = Together(reader.read)
    early, late, stays = (asyncio.create_task(both.ask(number)) for number in (1, 2, 3))
    await asyncio.sleep(0)
    early.cancel()
    await asyncio.sleep(0.001)
    late.cancel()
    reader.may.set()
    assert await stays == 30
    assert reader.asked == [[2, 3]]
    assert early.cancelled()
    assert late.cancelled()
