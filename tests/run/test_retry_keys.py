"""A retry that comes to its steps in another order: each success is of one call, and stays that (SPEC R10, S7)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from outlast import Context, Outlast, RunFailed, current_step


class World:
    """Two branches: a step that may fail, and `act` behind it. A third fails the first time, before anything else.

    The first time the second branch is quicker, after the retry the first one."""

    def __init__(self, app: Outlast) -> None:
        self.acted: list[tuple[str, str]] = []
        """What `act` was called with, and as which invocation."""
        self.items: Sequence[str] = "ab"
        self._is_retried = False
        self._broken, self._quicker = asyncio.Event(), asyncio.Event()

        @app.step(name="before", retries=0)
        async def before(number: int) -> None:
            await self._broken.wait()
            if number != self._is_retried:
                self._quicker.set()
            else:
                await self._quicker.wait()
                await asyncio.sleep(0.05)
            if not self._is_retried:
                raise OSError(number)

        @app.step(name="act")
        async def act(item: str) -> str:
            self.acted.append((item, current_step().invocation_id))
            return item.upper()

        @app.step(name="fragile", retries=0)
        async def fragile() -> None:
            if not self._is_retried:
                self._broken.set()
                raise ValueError("the first time")

        async def branch(number: int) -> str:
            try:
                await before(number)
            except OSError:
                pass
            return await act(self.items[number])

        @app.workflow(name="branches")
        async def branches(_: Context) -> Sequence[object]:
            failed, *done = await asyncio.gather(fragile(), branch(0), branch(1), return_exceptions=True)
            if isinstance(failed, BaseException):
                raise failed
            return done

    async def fail_and_retry(self, app: Outlast, items: Sequence[str]) -> object:
        """From then on the branches act on these."""
        run = await app.start("branches")
        with pytest.raises(RunFailed):
            await run.result(timeout=10)
        assert [item for item, _ in self.acted] == ["b", "a"]
        self._is_retried, self.items = True, items
        self._quicker.clear()
        await run.retry()
        return await run.result(timeout=10)


async def test_what_succeeded_is_not_done_again_when_branches_change_places(app: Outlast) -> None:
    """Both call the same function, and the other one is first this time."""
    world = World(app)
    assert await world.fail_and_retry(app, "ab") == ["A", "B"]
    assert [item for item, _ in world.acted] == ["b", "a"]


async def test_another_call_is_another_invocation(app: Outlast) -> None:
    """Code that was mended calls with something else: other systems must not take that for what they know already."""
    world = World(app)
    assert await world.fail_and_retry(app, "ca") == ["C", "A"]
    assert [item for item, _ in world.acted] == ["b", "a", "c"]
    assert len({invocation for _, invocation in world.acted}) == 3


async def test_one_item_twice_is_done_twice(app: Outlast) -> None:
    """One success is one call's: equal calls do not share it."""
    world = World(app)
    assert await world.fail_and_retry(app, "aa") == ["A", "A"]
    assert [item for item, _ in world.acted] == ["b", "a", "a"]
    assert len({invocation for _, invocation in world.acted}) == 3
