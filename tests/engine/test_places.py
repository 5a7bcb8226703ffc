"""Places to execute: as many as the worker's concurrency, first come, first served (SPEC Q2)."""

from __future__ import annotations

import asyncio

import pytest

from outlast import Context, Outlast
from outlast.authoring.module import Module
from tests.engine.stepping import Stepping


@pytest.fixture
async def stepping():
    stepping = Stepping(concurrency=2)
    yield stepping
    stepping.close()


@Module("").step(name="s")
async def idle() -> None:
    """Only its places are at issue."""


async def test_there_are_as_many_places_as_the_worker_may_execute_steps(stepping) -> None:
    """A place that is given back can be taken again."""
    stepper = stepping.stepper
    assert [stepper.reserve() for _ in range(4)] == [True, True, False, False]
    stepper.release()
    assert [stepper.reserve(), stepper.reserve()] == [True, False]


async def test_places_go_to_those_in_line_in_the_order_they_came(stepping) -> None:
    """Across runs: none starves behind a run with many steps."""
    stepper, one, two = stepping.stepper, stepping.run_of(idle), stepping.run_of(idle)
    assert stepper.reserve()
    assert stepper.reserve()
    for run, key in ((one, "a"), (two, "b"), (one, "c")):
        stepper.stand_in_line(run, key)
    assert (one.offered, two.offered) == ([], [])
    stepper.release()
    assert (one.offered, two.offered) == (["a"], [])
    stepper.release()
    assert (one.offered, two.offered) == (["a"], ["b"])
    stepper.release()
    assert (one.offered, two.offered) == (["a", "c"], ["b"])


async def test_nobody_overtakes_the_line(stepping) -> None:
    """Who comes while others wait is told to wait, also at a moment when a place is free."""
    stepper, run = stepping.stepper, stepping.run_of(idle)
    taken: list[bool] = []
    run.give_place = lambda _key: taken.append(stepper.reserve()) or True
    assert stepper.reserve()
    assert stepper.reserve()
    stepper.stand_in_line(run, "a")
    stepper.stand_in_line(run, "b")
    stepper.release()
    stepper.release()
    assert taken == [False, False]


async def test_a_step_that_needs_its_place_no_more_passes_it_on(stepping) -> None:
    """It was given up while it stood in line: the next one gets the place at once."""
    stepper, gone, next_one = stepping.stepper, stepping.run_of(idle), stepping.run_of(idle)
    gone.wants_place = False
    assert stepper.reserve()
    assert stepper.reserve()
    stepper.stand_in_line(gone, "a")
    stepper.stand_in_line(next_one, "b")
    stepper.release()
    assert (gone.offered, next_one.offered) == (["a"], ["b"])
    assert stepping.free_places() == 0
    gone.wants_place = True
    stepper.release()
    assert stepping.free_places() == 1


async def test_a_place_that_became_free_meanwhile_is_taken_at_once(stepping) -> None:
    """Between the thought that there was none and the line, an attempt may have ended."""
    stepper, run = stepping.stepper, stepping.run_of(idle)
    stepper.stand_in_line(run, "a")
    assert run.offered == ["a"]
    assert stepping.free_places() == 1


# SPEC Q4
async def test_a_worker_that_drains_begins_nothing_more(stepping) -> None:
    """What waits for a place keeps waiting: whoever takes the run over begins it."""
    stepper, run = stepping.stepper, stepping.run_of(idle)
    assert stepper.reserve()
    assert stepper.reserve()
    stepper.stand_in_line(run, "a")
    stepper.is_closed = True
    stepper.release()
    stepper.release()
    assert run.offered == []
    assert not stepper.reserve()


async def test_the_end_of_an_attempt_lets_the_next_in_line_begin(stepping) -> None:
    """Before its own run hears of the outcome, so that no place lies idle while a body thinks."""
    stepper, run, waiting = stepping.stepper, stepping.run_of(idle), stepping.run_of(idle)
    order: list[str] = []
    run.take = lambda _event: order.append("outcome")
    waiting.give_place = lambda key: order.append(f"place for {key}") or True
    stepping.start(run, "s")
    assert stepper.reserve()
    stepper.stand_in_line(waiting, "a")
    stepper.begin()
    assert order == ["place for a", "outcome"]


async def test_a_step_stands_in_line_once(stepping) -> None:
    """A run that is loaded again asks for the places it waits for again: the line grows no longer, and nobody waits
    behind the same step twice."""
    stepper, run, next_one = stepping.stepper, stepping.run_of(idle), stepping.run_of(idle)
    assert stepper.reserve()
    assert stepper.reserve()
    for each, key in ((run, "a"), (run, "a"), (next_one, "b"), (run, "a")):
        stepper.stand_in_line(each, key)
    for _ in range(2):
        stepper.release()
    assert (run.offered, next_one.offered) == (["a"], ["b"])
    stepper.release()
    assert stepping.free_places() == 1


flows = Module("places")


@flows.step
async def act(tag: str) -> str:
    return tag


@flows.workflow
async def leaf(ctx: Context) -> str:
    return await act("leaf")


@flows.workflow
async def races(ctx: Context) -> str:
    """The first counts. Its fellows are given up while they stand in line."""
    tasks = [asyncio.create_task(act(tag)) for tag in "abc"]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return await leaf()


# SPEC Q2
@pytest.mark.parametrize("max_hot", [0, 10])
async def test_a_place_that_a_body_gives_back_goes_to_a_step_it_gives_up_as_well(max_hot: int) -> None:
    """In the midst of the run's own move: that is finished first. Else the run could be parked inside of it."""
    app = Outlast("memory://", dev=False)
    app.include(flows)
    async with app.worker(concurrency=1, max_hot=max_hot):
        assert await (await app.start(races)).result(timeout=10) == "leaf"
