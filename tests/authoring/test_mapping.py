"""`ctx.map`: fan-outs in a bounded window."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from outlast.authoring.context import Context
from outlast.authoring.module import Module
from outlast.authoring.workflow import Workflow
from outlast.core.events import CancelRequested, RunCancelled, RunFailed, StepCancelled
from outlast.errors import StepFailed
from tests.authoring.player import Player

shop = Module("")


class Rejected(Exception):
    """A domain error."""


@shop.step(retries=0)
async def double(n: int) -> int:
    if n < 0:
        raise Rejected(f"no {n}")
    return 2 * n


def mapping(items: Any, step: Any = double, **options: Any) -> Workflow[..., Any]:
    @Module("").workflow(name="mapping")
    async def body(ctx: Context) -> Any:
        return await ctx.map(step, items, **options)

    return body


@pytest.mark.parametrize("count", [0, 1, 7, 100])
@pytest.mark.parametrize("limit", [1, 3, 20])
async def test_results_come_in_the_order_of_the_items(count: int, limit: int) -> None:
    """However steps finish, results stand where their items stood; never more than `limit` steps are open."""
    # SPEC P3
    draw = random.Random(count * 100 + limit)
    player = Player(mapping(range(count), limit=limit))
    last = await player.play(order=draw.choice)
    assert player.workflow.decode_output(last.output) == [2 * n for n in range(count)]
    assert player.most_open == min(count, limit)
    assert player.replay() == []


async def test_items_are_taken_when_their_turn_comes() -> None:
    """A generator is read as steps finish, not ahead of them."""
    taken: list[int] = []

    def items() -> Iterator[int]:
        for n in range(10):
            taken.append(n)
            yield n

    player = Player(mapping(items(), limit=3))
    player.begin()
    assert taken == [0, 1, 2]
    player.feed(await player.attempt("double#1"))
    assert taken == [0, 1, 2, 3]
    player.close()


async def test_the_first_failure_cancels_the_rest_and_is_raised_itself() -> None:
    """With "raise" the error of the step is what the body catches, not a group; open steps end as cancelled."""
    # SPEC P2
    caught: list[BaseException] = []

    @Module("").workflow(name="failing")
    async def failing(ctx: Context) -> None:
        try:
            await ctx.map(double, [1, -2, 3, 4, 5], limit=3)
        except Rejected as error:
            caught.append(error)
            raise

    player = Player(failing)
    last = await player.play()
    assert isinstance(last, RunFailed)
    assert (last.error.type, last.error.message, last.steps) == ("Rejected", "no -2", ("double#1",))
    assert caught[0].__context__ is None
    assert {event.key for event in player.journal if isinstance(event, StepCancelled)} == {"double#2", "double#3"}
    assert len(player.keys) == 4
    assert player.replay() == []


async def test_collecting_puts_a_failure_in_its_place() -> None:
    """With "collect" a StepFailed stands for a result; its cause is the error, and the others go on."""

    @Module("").workflow(name="collecting")
    async def collecting(ctx: Context) -> list[Any]:
        results = await ctx.map(double, [1, -2, 3], on_error="collect")
        (failed,) = [result for result in results if isinstance(result, StepFailed)]
        assert isinstance(failed.__cause__, Rejected)
        return [results[0], failed.type.rpartition(".")[2], failed.message, failed.step, results[2]]

    player = Player(collecting)
    assert await player.output() == [2, "Rejected", "no -2", "double#1", 6]
    assert player.replay() == []


async def test_collecting_does_not_hide_the_bodys_own_mistakes() -> None:
    """An argument that cannot be stored is no failure of a step."""
    last = await Player(mapping([1, object()], on_error="collect")).play()
    assert isinstance(last, RunFailed)
    assert last.error.type == "NotEncodable"


async def test_any_async_function_of_one_argument_can_be_mapped() -> None:
    """Several steps for each item are a function of the body's own."""

    async def twice(n: int) -> int:
        return await double(await double(n))

    assert await Player(mapping([1, 2, 3], twice, limit=2)).output() == [4, 8, 12]
    assert await Player(mapping([1, 2], lambda n: double.options(name=f"n{n}")(n))).output() == [2, 4]


async def test_a_cancelled_map_cancels_its_steps() -> None:
    """A cancel of the run reaches every open step of a map, once."""
    player = Player(mapping(range(100), limit=4))
    player.begin()
    player.feed(CancelRequested(player.machine.loop.now_us, "m-1", "enough"))
    cancelled = [event.key for event in player.journal if isinstance(event, StepCancelled)]
    assert sorted(cancelled) == ["double", "double#1", "double#2", "double#3"]
    assert isinstance(player.machine.outcome, RunCancelled)


async def test_a_cancel_that_a_step_function_raises_is_not_lost() -> None:
    """A callable that raises CancelledError ends the map with it; no result is silently missing."""

    async def odd(n: int) -> int:
        if n == 1:
            raise asyncio.CancelledError
        return await double(n)

    @Module("").workflow(name="odd")
    async def body(ctx: Context) -> str:
        try:
            await ctx.map(odd, [0, 1, 2], limit=1)
        except asyncio.CancelledError:
            return "cancelled"
        return "missed"

    assert await Player(body).output() == "cancelled"


async def test_an_evicted_map_runs_nothing() -> None:
    """A map that is dropped from memory ends without a trace, and without a warning."""
    player = Player(mapping(range(100)))
    player.begin()
    assert player.close() == 0
    assert len(player.keys) == 20


@pytest.mark.slow
@pytest.mark.process
async def test_the_cost_of_an_item_does_not_grow_with_their_number() -> None:
    """Ten thousand items cost ten times what a thousand do, not a hundred times."""  # SPEC P3

    async def seconds(count: int) -> float:
        player = Player(mapping(range(count)))
        began = time.perf_counter()
        await player.play()
        return time.perf_counter() - began

    await seconds(100)
    small = min([await seconds(1000) for _ in range(3)])
    large = await seconds(10_000)
    assert large < 30 * small
