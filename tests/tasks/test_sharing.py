"""Queues that are shared out: a limit over all workers, and a part for everybody who waits (SPEC Q2)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast.app import Outlast
from outlast.errors import InvalidName, InvalidSetting
from tests.tasks.flows import gates
from tests.tasks.world import Elsewhere, World, eventually


@pytest.fixture
def settings() -> dict[str, Any]:
    """Of the queue `gpu`, in every app of the world."""
    return {}


@pytest.fixture
def world(url: str, settings: dict[str, Any]) -> World:
    gates.reset()
    return World(url, settings)


@pytest.mark.parametrize("settings", [{"limit": 3}])
async def test_a_limit_holds_over_all_workers(world: World, home: Elsewhere):
    """Two workers with places for many execute three steps of the queue, and another as soon as one has ended."""
    async with world.working("gpu"), world.working("gpu"):
        run = await home.start("hold", [f"s{n}" for n in range(9)])
        await eventually(lambda: gates.began.total() == 3, "three steps")
        (queue,) = [queue for queue in await home.app.queues() if queue.name == "gpu"]
        assert (queue.limit, queue.held_steps, queue.waiting_steps) == (3, 3, 6)
        gates.open.set()
        assert await run.result(20) == [f"s{n}!" for n in range(9)]
        assert gates.most == 3


@pytest.mark.parametrize("settings", [{"limit": 1, "fair_by": "user"}, {"limit": 1, "fair_by": "attributes.tenant"}])
async def test_who_queues_much_keeps_nobody_waiting(world: World, home: Elsewhere):
    """Eight steps of one wait already when another comes with two: those have their turns among them."""
    await home.start("hold", [f"a{n}" for n in range(8)], user="ada", attributes={"tenant": 1})
    await eventually(lambda: _waiting(home, 8), "the first eight")
    await home.start("hold", ["b0", "b1"], user="bob", attributes={"tenant": 2})
    await eventually(lambda: _waiting(home, 10), "all ten")
    gates.open.set()
    async with world.working("gpu"):
        await eventually(lambda: gates.ended.total() == 10, "all")
    order = list(gates.began)
    assert [name[0] for name in order][:4] == ["a", "b", "a", "b"]


async def _waiting(one: Elsewhere, count: int) -> bool:
    return sum(queue.waiting_steps for queue in await one.app.queues() if queue.name == "gpu") == count


# SPEC Q2
async def test_urgent_runs_have_urgent_steps(world: World, home: Elsewhere):
    """A run's priority is that of its queued steps."""
    for name, priority in (("late", 9), ("usual", 5), ("urgent", 0)):
        await home.start("hold", [name], priority=priority)
    await eventually(lambda: _waiting(home, 3), "all three")
    gates.open.set()
    async with world.working("gpu", concurrency=1):
        await eventually(lambda: gates.ended.total() == 3, "all")
    assert list(gates.began) == ["urgent", "usual", "late"]


async def test_a_worker_of_several_queues_serves_each(world: World, home: Elsewhere):
    """A backlog in one of them does not keep it from the other."""
    async with world.working("gpu", "mail", concurrency=2):
        await home.start("hold", [f"s{n}" for n in range(9)])
        await eventually(lambda: gates.began.total() == 2, "two steps")
        run = await home.start("post")
        await asyncio.sleep(0)
        gates.open.set()
        assert await run.result(20) == "posted"


def test_what_is_said_of_a_queue_is_checked():
    """A limit is a number, fairness by something a run has, a lease some time, and a name a name."""
    app = Outlast("memory://")
    app.queue("gpu", limit=1, fair_by="attributes.tenant", lease="5min")
    for wrong in ({"limit": 0}, {"limit": "many"}, {"fair_by": "tenant"}, {"fair_by": ""}, {"lease": "1ms"}):
        with pytest.raises(InvalidSetting):
            app.queue("gpu", **wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidName):
        app.queue("")
