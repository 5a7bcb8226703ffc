"""The context: what a body can ask for, and that a replay gets the same answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from outlast.authoring.context import Context
from outlast.core.events import (
    MilestoneReached,
    PatchApplied,
    RunCompleted,
    SleepStarted,
    StateSet,
)
from outlast.core.instants import to_datetime
from outlast.errors import (
    InvalidDefinition,
    InvalidDuration,
    InvalidName,
    InvalidSetting,
    NonDeterminism,
    NotEncodable,
    NotInBody,
    ValueTooLarge,
)
from tests.authoring.bodies import Point, body, echo
from tests.authoring.player import LOG, START_US, Player

START = to_datetime(START_US)


# --- who, when, and by chance -----------------------------------------------------------------------------------------


async def test_the_context_says_who_the_run_is() -> None:
    """Id, uid, workflow, user and attributes; `get_run` gives all of it at once."""
    seen: list[Any] = []

    @body
    async def who(ctx: Context) -> list[Any]:
        run = await ctx.get_run()
        assert (run.id, run.uid, run.workflow, run.user) == (ctx.run_id, ctx.uid, ctx.workflow, ctx.user)
        assert run.attributes == ctx.attributes == {"region": "eu"}
        with pytest.raises(TypeError):
            ctx.attributes["region"] = "us"  # type: ignore[index]
        seen.append((run.started_at, run.version, ctx.evicting, repr(ctx)))
        return [ctx.run_id, ctx.uid, ctx.workflow, ctx.user]

    player = Player(who, user="ada")
    assert await player.output() == ["run-1", "uid-1", "who", "ada"]
    assert seen == [(START, who.version, False, "<context of run 'run-1'>")]


async def test_time_chance_and_ids_are_the_same_on_replay() -> None:
    """`now`, `uuid` and `random` come from the journal: two bodies of one run see the same."""
    seen: list[Any] = []

    @body
    async def chance(ctx: Context) -> None:
        before = ctx.now()
        await ctx.sleep("1h")
        seen.append((before, ctx.now(), ctx.uuid(), ctx.uuid(), ctx.random.random(), ctx.random.choice("abc")))

    player = Player(chance)
    await player.play()
    player.replay()
    assert seen[0] == seen[1]
    assert seen[0][:2] == (START, START + timedelta(hours=1))
    assert seen[0][2] != seen[0][3]


async def test_patched_is_true_for_new_runs_and_false_for_those_that_went_by() -> None:
    """`ctx.patched` lets one body serve runs from before the change and after it."""

    @body
    async def old(ctx: Context) -> Any:
        return [await echo(1)]

    @body
    async def new(ctx: Context) -> Any:
        first = await echo.options(name="echo2")(1) if ctx.patched("echo twice") else await echo(1)
        return [first, ctx.patched("echo twice")]

    player = Player(old)
    await player.play()
    with pytest.raises(NonDeterminism):  # its output is another one; its steps are the same
        player.replay(new)
    assert [event for event in player.journal if isinstance(event, PatchApplied)] == []
    fresh = Player(new)
    assert await fresh.output() == [1, True]
    assert fresh.keys == ["echo2"]
    assert fresh.replay() == []


# --- waiting ----------------------------------------------------------------------------------------------------------


async def test_sleeps_are_durable_and_on_record() -> None:
    """A sleep is a due time that people can see; `sleep_until` takes an aware datetime."""

    @body
    async def sleepy(ctx: Context) -> str:
        await ctx.sleep("1h30m")
        await ctx.sleep(timedelta(seconds=1))
        await ctx.sleep_until(START + timedelta(days=2))
        return ctx.now().isoformat()

    player = Player(sleepy)
    assert await player.output() == (START + timedelta(days=2)).isoformat()
    untils = [to_datetime(event.until) - START for event in player.journal if isinstance(event, SleepStarted)]
    assert untils == [timedelta(hours=1.5), timedelta(hours=1.5, seconds=1), timedelta(days=2)]
    assert player.replay() == []


async def test_a_sleep_that_is_over_at_once_gives_others_their_turn() -> None:
    """Zero, or a time that is past, waits for nothing and writes nothing, and still yields."""

    @body
    async def brief(ctx: Context) -> list[str]:
        order: list[str] = []

        async def other() -> None:
            order.append("other")

        task = asyncio.create_task(other())
        await ctx.sleep(0)
        order.append("slept")
        await ctx.sleep_until(START - timedelta(days=1))
        await task
        return order

    player = Player(brief)
    assert await player.output() == ["other", "slept"]
    assert [type(event) for event in player.journal[1:]] == [RunCompleted]


async def test_a_sleep_that_was_cancelled_does_not_wake_the_run() -> None:
    """A long sleep that lost a race is disarmed: no wake-up a month later."""

    @body
    async def racing(ctx: Context) -> str:
        sleep = asyncio.create_task(ctx.sleep("30d"))
        await echo(1)
        sleep.cancel()
        await echo(2)
        return "done"

    player = Player(racing)
    player.begin()
    player.feed(await player.attempt("echo"))
    assert player.machine.next_timer() is None
    player.close()


@pytest.mark.parametrize(
    ("wait", "error"),
    [
        (lambda ctx: ctx.sleep("soon"), InvalidDuration),
        (lambda ctx: ctx.sleep(-1), InvalidDuration),
        (lambda ctx: ctx.sleep_until(datetime(2026, 1, 1)), InvalidSetting),  # noqa: DTZ001 - a naive one
        (lambda ctx: ctx.milestone(""), InvalidName),
        (lambda ctx: ctx.set_state("a\0", 1), InvalidName),
        (lambda ctx: ctx.set_state("a", object()), NotEncodable),
        (lambda ctx: ctx.set_state("a", "x" * 3_000_000), ValueTooLarge),
        (lambda ctx: ctx.call("no such\0"), InvalidName),
        (lambda ctx: ctx.map(echo, [1], limit=0), InvalidDefinition),
        (lambda ctx: ctx.map(echo, {1, 2}), InvalidDefinition),
        (lambda ctx: ctx.map(echo, [1], on_error="ignore"), InvalidDefinition),
    ],
)
async def test_what_makes_no_sense_is_refused_in_the_body(wait: Callable[[Context], Any], error: type) -> None:
    """A mistake is an error at its own line, and leaves nothing in the journal."""

    @body
    async def mistaken(ctx: Context) -> None:
        with pytest.raises(error):
            await wait(ctx)

    player = Player(mistaken)
    await player.output()
    assert [type(event) for event in player.journal[1:]] == [RunCompleted]


# --- state, milestones, log -------------------------------------------------------------------------------------------


async def test_state_is_the_runs_own_and_a_copy_for_whoever_looks() -> None:
    """Keys and values the run keeps and shows; what the body gets it may change without changing the state."""

    @body
    async def stateful(ctx: Context) -> list[Any]:
        await ctx.set_state("list", [1])
        await ctx.set_state("point", Point(1))
        ctx.state["list"].append(2)
        with pytest.raises(KeyError):
            ctx.state["nothing"]
        return [dict(ctx.state), len(ctx.state), "list" in ctx.state, repr(ctx.state)]

    player = Player(stateful)
    expected = {"list": [1], "point": {"x": 1}}
    assert await player.output() == [expected, 2, True, repr(expected)]
    assert [event.key for event in player.journal if isinstance(event, StateSet)] == ["list", "point"]
    assert player.replay() == []


async def test_milestones_are_on_the_timeline() -> None:
    """A milestone is a named mark, in the entry at hand."""

    @body
    async def marked(ctx: Context) -> None:
        await ctx.milestone("shipped")

    player = Player(marked)
    await player.output()
    assert player.journal[1] == MilestoneReached("shipped")


async def test_the_log_says_each_thing_once(caplog: pytest.LogCaptureFixture) -> None:
    """`ctx.log` carries the run's id, and is quiet on replay and while the body is evicted."""  # SPEC O5

    @body
    async def chatty(ctx: Context) -> None:
        ctx.log.info("before %s", "step", extra={"mine": 1})
        try:
            await echo(1)
            ctx.log.warning("after")
            await echo(2)
        finally:
            ctx.log.error("clean-up, evicting: %s", ctx.evicting)

    caplog.set_level(logging.INFO, LOG.name)
    player = Player(chatty)
    player.begin()
    player.feed(await player.attempt("echo"))
    said = [record.getMessage() for record in caplog.records]
    assert said == ["before step", "after"]
    first = vars(caplog.records[0])
    assert [first["run"], first["trace"], first["mine"]] == ["run-1", "00-ab-cd-01", 1]
    assert caplog.records[0].funcName == "chatty"
    player.close()
    player.replay()
    assert len(caplog.records) == 2
    player.feed(await player.attempt("echo#1"))
    assert caplog.records[-1].getMessage() == "clean-up, evicting: False"


# --- outside ----------------------------------------------------------------------------------------------------------


async def test_the_context_works_in_its_own_body_alone() -> None:
    """A step that was handed the context, or somebody who kept it, gets NotInBody; who the run is, anybody may ask."""
    kept: list[Context] = []

    @body
    async def careless(ctx: Context) -> str:
        kept.append(ctx)

        async def step() -> str:
            await ctx.sleep(1)
            return ""

        try:
            return await ctx.do("inside a step", step, retries=0)
        except NotInBody as error:
            return str(error)

    player = Player(careless)
    assert "ctx.sleep()" in await player.output()
    (ctx,) = kept
    for call in (ctx.now, ctx.uuid, lambda: ctx.random, lambda: ctx.state, lambda: ctx.patched("x")):
        with pytest.raises(NotInBody):
            call()
    for wait in (
        lambda: ctx.sleep(1),
        lambda: ctx.sleep_until(START),
        lambda: ctx.milestone("x"),
        lambda: ctx.set_state("x", 1),
        lambda: ctx.do("x", lambda: 1),
        lambda: ctx.call("x"),
        lambda: ctx.map(echo, [1]),
    ):
        with pytest.raises(NotInBody, match=r"app\.start or app\.run_sync"):
            await wait()
    assert ctx.run_id == "run-1"
    assert (await ctx.get_run()).uid == "uid-1"

    @body
    async def other(_: Context) -> None:
        with pytest.raises(NotInBody):
            await ctx.sleep(1)

    await Player(other).output()


async def test_evicting_is_seen_by_the_clean_up() -> None:
    """`ctx.evicting` tells a `finally` that the run goes on elsewhere."""
    seen: list[bool] = []

    @body
    async def tidy(ctx: Context) -> None:
        try:
            await ctx.sleep("1d")
        finally:
            seen.append(ctx.evicting)

    player = Player(tidy)
    player.begin()
    player.close()
    player.replay()
    player.fire()
    assert seen == [True, False]
