"""Closures as steps, and steps called by name."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from outlast.authoring.context import Context
from outlast.authoring.module import Module
from outlast.core.events import RunFailed
from outlast.errors import InvalidDefinition
from tests.authoring.bodies import Point, body, echo
from tests.authoring.player import Player

# --- closures ---------------------------------------------------------------------------------------------------------


async def test_a_closure_is_a_step() -> None:
    """`ctx.do` records a closure's result under the name given; async ones are awaited, others run in a thread."""
    count = 0

    @body
    async def doing(ctx: Context) -> list[Any]:
        offset = 40

        async def slow() -> int:
            await asyncio.sleep(0)
            return offset + 2

        def quick() -> str:
            nonlocal count
            count += 1
            return "quick"

        return [
            await ctx.do("slow", slow),
            await ctx.do("quick", quick, retries=0),
            await ctx.do("lambda", lambda: {"a": [1, None]}),
            await ctx.do("coroutine", lambda: slow()),
            await ctx.do("partial", functools.partial(slow)),
        ]

    player = Player(doing)
    assert await player.output() == [42, "quick", {"a": [1, None]}, 42, 42]
    assert [(event.key, event.kind, bytes(event.arguments)) for event in player.started_steps] == [
        (name, "closure", b"{}") for name in ("slow", "quick", "lambda", "coroutine", "partial")
    ]
    assert player.replay() == []
    assert count == 1


async def test_a_closure_gives_what_it_is_annotated_with_or_told_to() -> None:
    """A return annotation, or `returns=`, says what the result is; without either it has to be plain JSON."""

    @body
    async def typed(ctx: Context) -> list[str]:
        def annotated() -> Point:
            return Point(1)

        said = [repr(await ctx.do("annotated", annotated))]
        said.append(repr(await ctx.do("told", lambda: Point(2), returns=Point)))
        said.append(repr(await ctx.do("tuple", lambda: (1, 2), returns=tuple[int, int])))
        return said

    @body
    async def untyped(ctx: Context) -> None:
        await ctx.do("untyped", lambda: datetime(2026, 1, 1, tzinfo=UTC))

    assert await Player(typed).output() == ["Point(x=1)", "Point(x=2)", "(1, 2)"]
    last = await Player(untyped).play()
    assert isinstance(last, RunFailed)
    assert last.error.type == "ResultInvalid"
    assert "annotate the function, or pass returns=" in last.error.message


async def agen() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("fn", "options", "says"),
    [
        (agen, {}, "A generator cannot be a step"),
        (lambda: (yield), {}, "A generator cannot be a step"),
        (3, {}, "This is int, which cannot be called"),
        (lambda: 3, {"queue": "gpu"}, "cannot be sent to a queue"),
        (lambda: 3, {"executor": "cpu"}, "cannot be sent to a queue or an executor"),
        (lambda: 3, {"retires": 3}, "no option retires="),
        (lambda: 3, {"returns": Callable}, "cannot be read back"),
    ],
)
async def test_what_cannot_be_a_closure_is_refused(fn: Any, options: Any, says: str) -> None:
    """`ctx.do` says what is wrong, at its own line."""

    @body
    async def refused(ctx: Context) -> None:
        with pytest.raises(InvalidDefinition, match=says):
            await ctx.do("thing", fn, **options)
        with pytest.raises(InvalidDefinition, match=r"without the \(\)"):
            await ctx.do("thing", echo(1))  # type: ignore[arg-type]

    player = Player(refused)
    await player.output()
    assert player.keys == []


# --- calls by name ----------------------------------------------------------------------------------------------------


async def test_call_finds_a_step_by_name_and_its_own_module_first() -> None:
    """A bare name inside a module means the module's own step, else the app's; a full name means what it says."""
    # SPEC N1
    app, billing = Module(""), Module("billing")
    app.include(billing)

    @app.step(name="charge")
    async def charge(amount: int) -> str:
        return f"app {amount}"

    @billing.step(name="charge")
    async def charge_billing(amount: int, note: str = "-") -> str:
        return f"billing {amount} {note}"

    @app.step(name="point")
    async def point() -> Point:
        return Point(3)

    async def calls(ctx: Context) -> list[Any]:
        return [
            await ctx.call("charge", {"amount": 1}),
            await ctx.call("billing:charge", {"amount": 2, "note": "x"}, retries=0, name="second"),
            (await ctx.call("point")).x,
            (await ctx.call("point", returns=dict[str, int]))["x"],
        ]

    inside = billing.workflow(name="calls")(calls)
    outside = app.workflow(name="calls")(calls)
    player = Player(inside, registry=app)
    assert await player.output() == ["billing 1 -", "billing 2 x", 3, 3]
    assert player.keys == ["billing:charge", "second", "point", "point#1"]
    assert player.replay() == []
    assert await Player(outside, registry=app).output() == ["app 1", "billing 2 x", 3, 3]


@pytest.mark.parametrize(("module", "missing"), [("", "charge"), ("billing", "billing:charge")])
async def test_a_name_nobody_here_knows_leaves_the_run_to_others(module: str, missing: str) -> None:
    """The run does not fail: it waits for a worker that knows the function, and what it would be called is told."""
    # SPEC S13
    home = Module(module)

    @home.workflow(name="calls")
    async def calls(ctx: Context) -> Any:
        return await ctx.call("charge", {"amount": 1})

    player = Player(calls, registry=home)
    await player.play()
    assert player.machine.missing == missing
    assert player.machine.outcome is None
    player.close()


async def test_a_call_by_name_says_what_does_not_fit() -> None:
    """Arguments that a step does not take, and options that a child run does not have, are named."""
    app = Module("")

    @app.workflow(name="calls")
    async def calls(ctx: Context) -> Any:
        with pytest.raises(InvalidDefinition, match="retries=3 says nothing of a child run"):
            await ctx.call("calls", retries=3)
        with pytest.raises(TypeError, match="amount"):
            await ctx.call("charge", {"sum": 1})

    @app.step(name="charge")
    async def charge(amount: int) -> str: ...

    await Player(calls, registry=app).output()
