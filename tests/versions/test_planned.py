"""What a run was going to do, from the plan of the version it was started with."""

from __future__ import annotations

from typing import Any

import pytest

from outlast import Context, Outlast


def make_app(url: str) -> Any:
    app: Any = Outlast(url)

    @app.step(name="charge")
    async def charge(order: str) -> str:
        return order

    @app.step(name="pack")
    async def pack(order: str) -> str:
        return order

    return app, charge, pack


def add_straight(app: Any, charge: Any, pack: Any) -> Any:
    @app.workflow(name="fulfil")
    async def fulfil(ctx: Context, order: str) -> str:
        receipt = await charge(order)
        await pack(receipt)
        return await charge(receipt)

    return fulfil


def add_branching(app: Any, charge: Any, pack: Any) -> Any:
    @app.workflow(name="fulfil")
    async def fulfil(ctx: Context, order: str) -> str:
        if order:
            await pack(order)
        return await charge(order)

    return fulfil


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    """A store of the test's own, that outlives its apps."""
    return f"memory://{request.node.name}"


async def test_status_foresees_the_steps_of_a_plan(url: str) -> None:
    """A run says from the beginning which steps it will take, and whether these are all."""  # SPEC R7, V2
    app, *steps = make_app(url)
    fulfil = add_straight(app, *steps)
    async with app:
        run = await app.start(fulfil, "a", id="straight")
        info = await run.status()
    assert info.planned_steps == ("charge", "pack", "charge#1")
    assert info.deterministic
    async with app.worker():
        await run.result(timeout=20)
        info = await run.status()
    assert info.planned_steps == tuple(step.key for step in info.steps)


async def test_status_shows_the_plan_of_the_version_it_was_started_with(url: str) -> None:
    """Other code does not change what a run was going to do."""  # SPEC V3
    old, *steps = make_app(url)
    fulfil = add_straight(old, *steps)
    async with old:
        await old.start(fulfil, "a", id="kept")
    new, *steps = make_app(url)
    assert add_branching(new, *steps).version != fulfil.version
    async with new:
        info = await (await new.get_run("kept")).status()
    assert info.version == fulfil.version
    assert info.planned_steps == ("charge", "pack", "charge#1")
    assert info.deterministic


async def test_status_of_a_process_that_knows_nothing(url: str) -> None:
    """Whoever looks needs no code: the plan is in the store."""
    app, *steps = make_app(url)
    fulfil = add_branching(app, *steps)
    async with app:
        await app.start(fulfil, "a", id="seen")
    async with Outlast(url) as stranger:
        info = await (await stranger.get_run("seen")).status()
    assert info.planned_steps == ("pack", "charge")
    assert info.deterministic is False


async def test_a_workflow_without_source_has_no_planned_steps(url: str) -> None:
    """Then nothing is foreseen, and everything else is as usual."""
    app: Any = Outlast(url)
    namespace: dict[str, Any] = {"app": app, "Context": Context}
    exec("@app.workflow(name='blind')\nasync def blind(ctx: Context): return 5", namespace)
    async with app.worker():
        run = await app.start(namespace["blind"], id="blind")
        assert await run.result(timeout=20) == 5
        info = await run.status()
    assert info.planned_steps is None
    assert info.deterministic is None


async def test_an_app_lists_its_workflows(url: str) -> None:
    """With version, plan and the schema of the input, before anything is opened."""
    app, *steps = make_app(url)
    fulfil = add_straight(app, *steps)
    (info,) = app.workflows()
    assert (info.name, info.version, info.plan) == ("fulfil", fulfil.version, fulfil.plan)
    assert list(info.input_schema["$defs"].values())[0]["properties"] == {"order": {"type": "string"}}  # noqa: RUF015
    assert info.output_schema == {"type": "string"}
