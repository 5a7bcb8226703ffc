"""Steps: what calling one does, in a body and outside."""

from __future__ import annotations

import asyncio
import functools
from datetime import UTC, datetime
from typing import Any

import pytest

from outlast.authoring.context import Context
from outlast.authoring.module import Module
from outlast.core.calls import STEP_MARK
from outlast.core.events import RunCompleted, RunFailed, StepStarted
from outlast.errors import (
    InvalidDefinition,
    NonDeterminism,
    NotEncodable,
    ResultInvalid,
    StepFailed,
    ValueTooLarge,
)
from tests.authoring.bodies import CardDeclined, Order, app, charge, decline, pack
from tests.authoring.player import Player


@app.step
async def change(order: Order) -> Order:
    order.items.append("from the step")
    return order


@app.workflow
async def fulfil(ctx: Context, order: Order) -> list[str]:
    receipt = await charge(order)
    return [receipt, *[await pack(item) for item in order.items]]


async def test_a_call_in_a_body_is_recorded_and_answered_from_the_record() -> None:
    """A step runs once; a replay gets the recorded result, and asks for nothing new."""  # SPEC S1
    player = Player(fulfil, Order("a", ["x", "y"]))
    assert await player.output() == ["receipt a", "x in True", "y in True"]
    assert player.keys == ["charge", "pack", "pack#1"]  # SPEC S8
    assert [event.after for event in player.started_steps] == [None, "charge", "pack"]
    assert bytes(player.started_steps[0].arguments) == b'{"order":{"id":"a","items":["x","y"]},"note":""}'
    assert player.replay() == []
    assert isinstance(player.machine.outcome, RunCompleted)


async def test_a_step_gets_its_own_copies_of_its_arguments() -> None:
    """What a step does to an argument its body does not see, and the result is a copy as well."""

    @app.workflow(name="copies")
    async def copies(ctx: Context) -> list[Any]:
        order = Order("a")
        changed = await change(order)
        return [order.items, changed.items, changed is order]

    assert await Player(copies).output() == [[], ["from the step"], False]


async def test_a_step_that_fails_for_good_raises_its_own_error_in_the_body() -> None:
    """An exception class the codec can rebuild is raised as itself, marked with its step; retries come first."""
    seen: list[Any] = []

    @app.workflow(name="declined")
    async def declined(ctx: Context) -> str:
        try:
            await decline(3)
        except CardDeclined as error:
            seen.append((str(error), getattr(error, STEP_MARK)))
            raise
        return ""

    player = Player(declined)
    last = await player.play()
    assert isinstance(last, RunFailed)
    assert last.steps == ("decline",)
    assert last.error.type == "CardDeclined"
    player.replay()
    assert seen == [("no 3", "decline")] * 2  # SPEC R8: live and on replay alike


async def test_an_error_nobody_can_rebuild_arrives_as_step_failed() -> None:
    """It says which step failed, on which attempt, with what, and carries the traceback."""

    @app.step(name="odd", retries=2)
    async def odd() -> None:
        class Odd(Exception):
            pass

        raise Odd("odd")

    @app.workflow(name="oddly")
    async def oddly(ctx: Context) -> tuple[str, str, int]:
        with pytest.raises(StepFailed) as caught:
            await odd()
        assert "raise Odd" in caught.value.traceback
        return caught.value.message, caught.value.step, caught.value.attempts

    assert await Player(oddly).output() == ("odd", "odd", 3)


async def test_cancelling_a_call_gives_the_step_up() -> None:
    """A body that times a step out sees it at once, and the step ends as cancelled on record."""

    @app.workflow(name="impatient")
    async def impatient(ctx: Context) -> str:
        try:
            async with asyncio.timeout(20):
                return await charge(Order("a"))
        except TimeoutError:
            return "gave up"

    player = Player(impatient)
    player.begin()
    player.fire()
    kinds = [type(event).__name__ for event in player.journal]
    assert kinds == ["RunStarted", "StepStarted", "TimerFired", "StepCancelled", "RunCompleted"]
    assert player.replay() == []


async def test_replay_refuses_other_arguments_another_function_and_another_kind() -> None:
    """What the body calls under a key is what is on record, or the replay stops and shows both sides."""  # SPEC S11

    def variant(name: str, call: Any) -> Any:
        @Module("").workflow(name="v")
        async def v(ctx: Context) -> str:
            return await call(ctx)

        return v

    one = variant("v", lambda ctx: charge(Order("a"), note="!"))
    player = Player(one)
    await player.play()
    assert player.replay() == []
    assert player.replay(variant("v", lambda ctx: charge(order=Order("a"), note="!"))) == []
    for other, shown in [
        (lambda ctx: charge(Order("b"), note="!"), r'"id":"b"'),
        (lambda ctx: pack.options(name="charge")("a"), "pack"),
        (lambda ctx: ctx.do("charge", lambda: ""), "closure"),
        (lambda ctx: ctx.sleep(3), "SleepStarted"),
    ]:
        with pytest.raises(NonDeterminism, match=shown) as caught:
            player.replay(variant("v", other))
        assert "receipt" not in str(caught.value)
        assert '"id":"a"' in caught.value.recorded


async def test_a_default_that_changed_is_no_difference() -> None:
    """Only the arguments that the body passes are compared with the record."""

    def variant(step: Any, *args: Any) -> Any:
        @Module("").workflow(name="v")
        async def v(ctx: Context) -> str:
            return await step(*args)

        return v

    def declare(default: str) -> Any:
        @Module("").step(name="greet")
        async def greet(name: str, word: str = default) -> str:
            return f"{word} {name}"

        return greet

    player = Player(variant(declare("hello"), "ada"))
    await player.play()
    assert player.replay(variant(declare("good morning"), "ada")) == []
    with pytest.raises(NonDeterminism):
        player.replay(variant(declare("hello"), "ada", "good morning"))


async def test_a_value_that_cannot_be_stored_is_an_error_at_the_call() -> None:
    """An argument JSON cannot carry fails in the body, naming its path and type; a step never starts with it."""
    # SPEC S12

    @app.step(name="take")
    async def take(value: Any) -> None: ...

    @app.workflow(name="unstorable")
    async def unstorable(ctx: Context) -> list[str]:
        said = []
        for value, error in [({"a": [object()]}, NotEncodable), ("x" * 3_000_000, ValueTooLarge)]:
            with pytest.raises(error) as caught:
                await take(value)
            said.append(str(caught.value))
        with pytest.raises(TypeError, match=r"missing a required argument: 'value'"):
            await take()  # type: ignore[call-arg]
        return said

    player = Player(unstorable)
    unencodable, large = await player.output()
    assert "value['a'][0]" in unencodable
    assert "object" in unencodable
    assert "3000" in large
    assert player.keys == []


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (object(), NotEncodable),
        ("x" * 3_000_000, ValueTooLarge),
        ([1], ResultInvalid),
    ],
)
async def test_a_result_that_cannot_be_stored_or_is_not_as_annotated_fails_the_step(value: Any, error: type) -> None:
    """The step's function is to blame, so its step fails, at once: another attempt could not help."""  # SPEC S12
    attempts = []

    @app.step(name=f"wrong {error.__name__}")
    async def wrong() -> str:
        attempts.append(1)
        return value

    @app.workflow(name=f"wrongly {error.__name__}")
    async def wrongly(ctx: Context) -> str:
        return await wrong()

    last = await Player(wrongly).play()
    assert isinstance(last, RunFailed)
    assert last.error.type == error.__name__
    assert attempts == [1]


async def test_a_def_that_returns_a_coroutine_all_the_same_is_told_what_to_do() -> None:
    """An `async def` in disguise is found when it runs, and nobody is warned of a coroutine never awaited."""

    @app.step(name="disguised")
    def disguised():
        return asyncio.sleep(0)

    @app.workflow(name="disguise")
    async def disguise(ctx: Context) -> None:
        await disguised()

    player = Player(disguise)
    player.begin()
    call = player.call("disguised")
    with pytest.raises(InvalidDefinition, match=r"test_step.py:\d+, in .*disguised.* Write async def"):
        call.encode_result(call.invoke())
    player.close()


async def test_eviction_runs_no_step() -> None:
    """A `finally` that calls a step does nothing while its body is dropped from memory."""  # SPEC P7
    effects: list[str] = []

    @app.step(name="tidy")
    async def tidy() -> None:
        effects.append("tidy")

    @app.workflow(name="tidily")
    async def tidily(ctx: Context) -> None:
        try:
            await charge(Order("a"))
        finally:
            await tidy()

    player = Player(tidily)
    player.begin()
    assert player.close() == 0
    assert effects == []
    assert player.keys == ["charge"]


async def test_a_workflow_sees_a_step_decoded_as_annotated() -> None:
    """A set, a date, a dataclass come back as what they are, live and on replay."""  # SPEC D1
    seen: list[Any] = []

    @app.step(name="rich")
    async def rich() -> tuple[set[int], datetime, Order]:
        return {1, 2}, datetime(2026, 1, 2, tzinfo=UTC), Order("a")

    @app.workflow(name="richly")
    async def richly(ctx: Context) -> None:
        seen.append(await rich())

    player = Player(richly)
    await player.play()
    player.replay()
    assert seen == [({1, 2}, datetime(2026, 1, 2, tzinfo=UTC), Order("a"))] * 2


# --- calls that leave the process -------------------------------------------------------------------------------------


@pytest.mark.parametrize("closure", [True, False])
async def test_only_functions_of_modules_can_be_sent_to_an_executor(closure: bool) -> None:
    """A closure, or a nested function, is refused for an executor: another process would not find it."""

    @app.step(name=f"nested {closure}")
    async def nested() -> None: ...

    @app.workflow(name=f"sending {closure}")
    async def sending(ctx: Context) -> None:
        await (ctx.do("thing", lambda: None) if closure else nested())

    player = Player(sending)
    player.begin()
    with pytest.raises(InvalidDefinition, match="at the top of a module"):
        player.call(player.keys[0]).remote()
    player.close()


def test_partial_applications_are_steps_through_do_alone() -> None:
    """`functools.partial` has no name and no place in a module."""
    with pytest.raises(InvalidDefinition, match="is partial"):
        app.step(functools.partial(charge.fn, Order("a")))


def test_started_events_carry_the_budget() -> None:
    """The record of a call says how many retries it may use."""

    @app.workflow(name="budget")
    async def budget(ctx: Context) -> None:
        await charge.options(retries=9)(Order("a"))

    player = Player(budget)
    player.begin()
    (started,) = player.started_steps
    assert isinstance(started, StepStarted)
    assert started.retries == 9
    player.close()
