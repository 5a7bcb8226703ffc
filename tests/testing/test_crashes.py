"""The world stopped at every commit, by the kit (SPEC K2)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from outlast import Context, Outlast, User, current_step
from outlast.testing import Lab, explore_crashes


def make_app() -> Outlast:
    """Retries, a fan-out, a sleep and an approval."""
    app = Outlast("memory://")
    counter = itertools.count()

    @app.step(name="charge", retries=2, backoff="1h")
    async def charge(n: int) -> int:
        if current_step().attempt == 1 and n == 2:
            raise ConnectionError("no answer")
        return n

    @app.workflow(name="order")
    async def order(ctx: Context, n: int) -> list[Any]:
        paid = [await charge(number) for number in range(n)]
        await ctx.sleep("30d")
        decided = await ctx.approval("ship", bool)
        return [*paid, decided.value]

    @app.workflow(name="fails")
    async def fails(ctx: Context) -> None:
        await charge(1)
        raise ValueError("as it is meant to")

    @app.step(name="pays")
    async def pays() -> str:
        return current_step().invocation_id

    @app.workflow(name="pays twice")
    async def pays_twice(ctx: Context) -> list[str]:
        return [await pays(), await pays()]

    @app.step(name="forgetful")
    async def forgetful() -> int:
        return next(counter)

    @app.workflow(name="fickle")
    async def fickle(ctx: Context) -> int:
        return await forgetful()

    return app


async def approve(lab: Lab, run: Any) -> None:
    """As a client does that asks again when it was not told."""
    if await lab.until_waiting(run):
        await run.approve("ship", True, by=User("ann"), key="once")


async def test_every_stop_of_an_order_ends_the_same() -> None:
    """Wherever its world stops, before a commit or behind it, an order ends as if nothing had been."""  # SPEC K2
    explored = await explore_crashes("order", 3, app=make_app(), drive=approve)
    assert explored.outcome == "completed: [0, 1, 2, True]"
    assert explored.commits >= 7
    assert explored.stops > explored.commits


async def test_a_failure_is_an_outcome() -> None:
    """A run that fails has to fail the same, wherever it was stopped."""
    explored = await explore_crashes("fails", app=make_app())
    assert explored.outcome == "failed: ValueError('as it is meant to')"
    assert explored.stops == 2 * explored.commits


async def test_an_outcome_says_whose_its_invocation_ids_are() -> None:
    """Each world has its own, so a result with some in it is the same when they are of the same steps."""
    explored = await explore_crashes("pays twice", app=make_app())
    assert explored.outcome == "completed: ['<invocation id of pays>', '<invocation id of pays#1>']"


async def test_what_ends_otherwise_is_found() -> None:
    """A step that answers anew each time gives another end, and the commit is named."""
    with pytest.raises(AssertionError, match="stopped at commit"):
        await explore_crashes("fickle", app=make_app())
