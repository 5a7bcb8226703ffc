"""What a step knows of itself."""

from __future__ import annotations

import asyncio
import threading
from contextvars import copy_context
from datetime import UTC, datetime
from typing import Any

import pytest

from outlast.authoring.context import Context
from outlast.authoring.current import StepInfo, current_step, entered_step
from outlast.authoring.module import Module
from outlast.core.keys import invocation_id
from outlast.errors import NotInStep
from tests.authoring.player import Player

app = Module("")


@app.step
async def whoami() -> list[Any]:
    step = current_step()
    return [step.run_id, step.key, step.attempt, step.max_attempts, step.invocation_id]


@app.step
def whoami_in_a_thread() -> list[Any]:
    step = current_step()
    return [step.run_id, step.key, step.attempt, step.max_attempts, step.invocation_id]


def make_info(**changes: Any) -> StepInfo:
    facts: dict[str, Any] = {"run_id": "A-17", "uid": "uid-1", "key": "charge#1", "attempt": 2, "max_attempts": 6}
    return StepInfo(**facts | changes)


async def test_a_step_knows_its_run_and_its_attempt() -> None:
    """In a task and in a thread alike; the invocation id follows from run and key, so a retry has the same."""
    # SPEC S7

    @app.workflow(name="asking")
    async def asking(ctx: Context) -> list[Any]:
        with pytest.raises(NotInStep):
            current_step()
        return [await whoami(), await whoami_in_a_thread(), await whoami()]

    assert await Player(asking).output() == [
        ["run-1", "whoami", 1, 6, invocation_id("uid-1", "whoami")],
        ["run-1", "whoami_in_a_thread", 1, 6, invocation_id("uid-1", "whoami_in_a_thread")],
        ["run-1", "whoami#1", 1, 6, invocation_id("uid-1", "whoami#1")],
    ]


async def test_a_plain_call_is_detached() -> None:
    """Outside a run a step has no run, its first attempt, and an invocation id of its own each time."""
    one, two = await whoami(), await whoami_in_a_thread()
    assert one[:4] == [None, "whoami", 1, 1]
    assert two[:4] == [None, "whoami_in_a_thread", 1, 1]
    assert len({one[4], two[4], (await whoami())[4]}) == 3
    with pytest.raises(NotInStep):
        current_step()


def test_anywhere_else_it_says_what_to_do() -> None:
    """Outside a step `current_step()` raises NotInStep."""
    with pytest.raises(NotInStep, match=r"current_step\(\).*in a step's function"):
        current_step()


def test_what_a_step_is_told() -> None:
    """Run, key, attempt, user, trace and deadline; the deadline is an aware datetime."""
    info = make_info(user="ada", traceparent="00-ab-cd-01", deadline=1_700_000_000_000_001)
    assert (info.run_id, info.key, info.attempt, info.max_attempts) == ("A-17", "charge#1", 2, 6)
    assert (info.user, info.traceparent, info.compensating_for) == ("ada", "00-ab-cd-01", None)
    assert info.deadline == datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=UTC)
    assert info.invocation_id == info.invocation_id == invocation_id("uid-1", "charge#1")
    assert "charge#1" in repr(info)
    assert make_info().deadline is None


def test_heartbeats_reach_the_engine_and_loss_reaches_the_step() -> None:
    """`heartbeat` hands the progress on as it is; `lost` is true once nobody waits for the attempt."""
    beats: list[Any] = []
    info = make_info(on_heartbeat=beats.append)
    info.heartbeat()
    info.heartbeat({"done": 3})
    assert beats == [None, {"done": 3}]
    assert not info.lost
    info.stop("cancelled")
    assert info.lost
    make_info().heartbeat("to nobody")


async def test_a_step_within_a_step_shares_its_fate_but_not_its_name_in_the_world() -> None:
    """The inner one beats for the outer one and ends with it; two inner calls never share an idempotency key."""
    beats: list[Any] = []
    seen: list[StepInfo] = []

    @app.step(name="inner")
    async def inner() -> None:
        step = current_step()
        step.heartbeat("from inside")
        seen.append(step)

    outer = make_info(on_heartbeat=beats.append, user="ada", deadline=5)

    async def run_outer() -> None:
        entered_step(outer)
        await inner()
        await inner()
        assert current_step() is outer

    await asyncio.create_task(run_outer(), context=copy_context())
    assert beats == ["from inside"] * 2
    assert [(step.run_id, step.key, step.user, step.deadline) for step in seen] == [
        (None, "inner", "ada", outer.deadline)
    ] * 2
    assert len({outer.invocation_id, *(step.invocation_id for step in seen)}) == 3
    assert not seen[0].lost
    outer.stop("timeout")
    assert seen[0].lost


def test_contexts_keep_steps_apart() -> None:
    """A thread that was not given the step's context knows of no step."""
    seen: list[Any] = []

    def look() -> None:
        try:
            seen.append(current_step().key)
        except NotInStep:
            seen.append(None)

    context = copy_context()
    context.run(entered_step, make_info())
    context.run(look)
    thread = threading.Thread(target=look)
    context.run(thread.start)
    thread.join()
    look()
    assert seen == ["charge#1", None, None]
