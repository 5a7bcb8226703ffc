"""Runs that go on from the stored plan of their version: as their source would have, or not at all."""

from __future__ import annotations

import asyncio
import datetime as dt
from dataclasses import dataclass
from typing import Any

import pytest

from outlast import Context, ExpectedError, RunFailed, VersionConflict
from tests.versions.deploying import (
    PATIENCE_S,
    Deploys,
    begun_otherwise,
    finish,
    park,
    sleeps,
    taken,
    told_in_conflict,
    until,
)


@pytest.fixture
def deploys(request: pytest.FixtureRequest) -> Deploys:
    return Deploys(f"memory://{request.node.name}")


async def test_a_stored_plan_survives_workers(deploys: Deploys) -> None:
    """Parked, taken over, replayed after each event: a run stays on its plan, and notes that once."""

    def twice(charge: Any, pack: Any) -> Any:
        async def fulfil(ctx: Context, order: str) -> list[str]:
            receipt = await charge(order)
            await ctx.sleep("1h")
            parcel = await pack(order)
            await ctx.sleep("1h")
            return [receipt, parcel, await pack("last")]

        return fulfil

    await park(deploys, deploys.app(twice))
    new = deploys.app(begun_otherwise)
    async with new.worker(max_hot=0):
        run = await new.get_run("r")
        await until(lambda: is_packed(run))
    deploys.pass_an_hour()
    async with new.worker(max_hot=0):
        run = await new.get_run("r")
        assert await run.result(timeout=PATIENCE_S) == ["receipt a 1", "parcel a", "parcel last"]
        assert len(await taken(new)) == 1


async def is_packed(run: Any) -> bool:
    info = await run.status()
    return len(info.steps) == 2 and info.waiting_on.startswith("sleep")


async def test_a_plan_that_cannot_go_on_asks_for_nothing_more(deploys: Deploys) -> None:
    """It comes to a method that it must not call: no `finally`, its own or a task's, runs a step on the way out."""

    def touching(charge: Any, pack: Any) -> Any:
        async def beside(ctx: Context) -> None:
            try:
                await ctx.sleep("3h")
            finally:
                await pack("beside")

        async def fulfil(ctx: Context, order: str) -> str:
            try:
                async with asyncio.TaskGroup() as group:
                    task = group.create_task(beside(ctx))
                    await charge(order)
                    await ctx.sleep("1h")
                    told = order.format()  # looks into what it is given: no program may
                    task.cancel()
                return told
            finally:
                await pack("what is left")

        return fulfil

    old, new = deploys.app(touching), deploys.app(begun_otherwise)
    await park(deploys, old)
    assert "the method 'format'" in await told_in_conflict(new)
    assert deploys.done == ["charge a 1"]
    assert await finish(old) == "a"
    assert deploys.done == ["charge a 1", "pack beside", "pack what is left"]


async def test_a_plan_that_cannot_go_on_fails_where_the_app_says_so(deploys: Deploys) -> None:
    """With the reason; what it did stays done."""  # SPEC V3

    def touching(charge: Any, pack: Any) -> Any:
        async def fulfil(ctx: Context, order: str) -> str:
            await charge(order)
            await ctx.sleep("1h")
            return order.format()

        return fulfil

    await park(deploys, deploys.app(touching))
    with pytest.raises(RunFailed, match="the method 'format'") as caught:
        await finish(deploys.app(begun_otherwise, on_version_conflict="fail"))
    assert isinstance(caught.value.error, VersionConflict)


async def test_a_plan_whose_calls_are_too_deep_does_not_fail(deploys: Deploys) -> None:
    """Walking a program takes more of the stack than running its source: it is set aside, as what cannot be done."""

    def deep(charge: Any, pack: Any) -> Any:
        def depth(n: int) -> int:
            return 0 if n == 0 else 1 + depth(n - 1)

        async def fulfil(ctx: Context, order: str) -> list[int]:
            await charge(order)
            await ctx.sleep("1h")
            return [depth(5), depth(400)]

        return fulfil

    old = deploys.app(deep)
    await park(deploys, old)
    assert "calls that are too deep" in await told_in_conflict(deploys.app(begun_otherwise))
    assert await finish(old) == [5, 400]


@pytest.mark.parametrize("undo", [False, True])
async def test_closures_that_run_as_steps_have_no_place_in_a_plan(deploys: Deploys, undo: bool) -> None:
    """What such a closure is for is nothing that a plan can do."""

    def closures(charge: Any, pack: Any) -> Any:
        async def fulfil(ctx: Context, order: str) -> str:
            return await ctx.do("tell", lambda: order)

        async def undone(ctx: Context, order: str) -> None:
            ctx.compensate(lambda: order)

        return undone if undo else fulfil

    workflow = deploys.app(closures).find_workflow("fulfil")
    assert not workflow.definition_json()
    assert "ctx" in workflow.plan.unclosed


async def test_a_plain_body_has_no_stored_plan(deploys: Deploys) -> None:
    """It waits inside its calls: its runs go on with their own version, or one that fits."""

    def plain(charge: Any, pack: Any) -> Any:
        def fulfil(ctx: Context, order: str) -> str:
            receipt: str = ctx.wait(charge(order))
            ctx.wait(ctx.sleep("1h"))
            return receipt

        return fulfil

    old = deploys.app(plain)
    await park(deploys, old)
    assert "a plain def body" in await told_in_conflict(deploys.app(begun_otherwise))
    assert await finish(old) == "receipt a 1"


async def test_a_plan_gives_the_engine_no_functions(deploys: Deploys) -> None:
    """Such as a backoff: the engine calls it where a body's errors have no place."""

    def tuned(charge: Any, pack: Any) -> Any:
        async def fulfil(ctx: Context, order: str) -> str:
            await charge(order)
            await ctx.sleep("1h")
            return await pack.options(backoff=lambda attempt, error: order.format())(order)

        return fulfil

    await park(deploys, deploys.app(tuned))
    assert "a function as the option 'backoff'" in await told_in_conflict(deploys.app(begun_otherwise))


@dataclass
class Order:
    name: str
    since: dt.date = dt.date(2026, 7, 1)


def typed(charge: Any, pack: Any) -> Any:
    async def fulfil(ctx: Context, order: Order, extra: list[str]) -> list[str]:
        receipt = await charge(order.name, order.since.year)
        await ctx.sleep("1h")
        return [receipt, *extra, order.since.isoformat()]

    return fulfil


async def park_typed(deploys: Deploys) -> Any:
    app = deploys.app(typed)
    async with app.worker():
        run = await app.start("fulfil", Order("a"), ["b"], id="r")
        await until(lambda: sleeps(run))
    deploys.pass_an_hour()
    return app


async def test_a_plan_gets_its_input_as_its_version_did(deploys: Deploys) -> None:
    """By the types that the code has under the same names; what is plain JSON is what it was."""  # SPEC V3

    def fewer(charge: Any, pack: Any) -> Any:
        async def fulfil(ctx: Context, order: Order) -> list[str]:
            return [await pack(order.name)]

        return fulfil

    await park_typed(deploys)
    assert await finish(deploys.app(fewer)) == ["receipt a 2026", "b", "2026-07-01"]


async def test_a_plan_whose_types_are_gone_does_not_guess(deploys: Deploys) -> None:
    """The run is set aside with the parameter and its type, and ends when its version is back."""  # SPEC V3
    old = await park_typed(deploys)
    assert "the input 'order', which is no Order to the code at hand" in await told_in_conflict(
        deploys.app(begun_otherwise)
    )
    assert await finish(old) == ["receipt a 2026", "b", "2026-07-01"]


class Refused(ExpectedError):
    pass


async def test_a_stored_plan_is_undone_like_any_run(deploys: Deploys) -> None:
    """A run that goes on from its plan and fails fails as its source would have."""

    def failing(charge: Any, pack: Any) -> Any:
        async def fulfil(ctx: Context, order: str) -> None:
            await charge(order)
            await ctx.sleep("1h")
            raise Refused(f"no {order}")

        return fulfil

    await park(deploys, deploys.app(failing))
    new = deploys.app(begun_otherwise)
    with pytest.raises(RunFailed) as caught:
        await finish(new)
    assert isinstance(caught.value.error, Refused)
    assert str(caught.value.error) == "no a"
