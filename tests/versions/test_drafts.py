"""Graphs that a store keeps: drafted, activated, declined; by whom, and when."""

from __future__ import annotations

from typing import Any

import pytest

from outlast import FunctionNotFound, InvalidDefinition, InvalidSetting, Outlast, VersionNotActive
from tests.versions.deploying import PATIENCE_S, Deploys, one, until

ONE: dict[str, Any] = {
    "name": "orders",
    "nodes": {"charge": {"function": "charge", "input": "$input"}},
    "output": "$nodes.charge",
}
TWO: dict[str, Any] = {
    "name": "orders",
    "nodes": {
        "charge": {"function": "charge", "input": "$input", "next": "pack"},
        "pack": {"function": "pack", "input": "$nodes.charge"},
    },
    "output": "$nodes.pack",
}


@pytest.fixture
def url(request: pytest.FixtureRequest) -> str:
    return f"memory://{request.node.name}"


def make_app(url: str) -> Any:
    app: Any = Outlast(url)

    @app.step(name="charge", retries=0)
    async def charge(order: str) -> str:
        return f"charged {order}"

    @app.step(name="pack", retries=0)
    async def pack(order: str) -> str:
        return f"packed {order}"

    return app


async def test_a_draft_is_shown_and_not_started(url: str) -> None:
    """Whoever is to decide sees its plan; nobody starts it before."""  # SPEC V6
    async with make_app(url) as app:
        draft = await app.draft(ONE, by="ada")
        assert (draft.status, draft.created_by, draft.decided_at) == ("draft", "ada", None)
        shown = await app.get_version("orders", draft.version)
        assert [step.key for step in shown.plan.steps] == ["charge"]
        assert shown.definition["name"] == "orders"
        with pytest.raises(FunctionNotFound):
            await app.start("orders", "A-1")
        assert [info.version for info in await app.versions("orders", status="draft")] == [draft.version]


async def test_an_activated_graph_is_started_by_name(url: str) -> None:
    """By any process whose code has its functions; and who activated it stands there."""  # SPEC V6
    async with make_app(url) as program:
        draft = await program.draft(ONE, by="program")
        activated = await program.activate("orders", draft.version, by="ada")
        assert (activated.status, activated.decided_by) == ("active", "ada")
        assert activated.decided_at is not None
    app = make_app(url)
    async with app.worker():
        run = await app.start("orders", "A-1")
        assert await run.result(timeout=PATIENCE_S) == "charged A-1"
        info = await run.status()
    assert info.version == draft.version
    assert info.planned_steps == ("charge",)


async def test_runs_in_flight_keep_the_graph_they_began_with(url: str) -> None:
    """A newer one that is activated is for new runs; one that is declined ends its runs all the same."""  # SPEC V6
    app = make_app(url)
    async with app:
        first = await app.draft(ONE, by="ada")
        await app.activate("orders", first.version, by="ada")
        old = await app.start("orders", "A-1", id="old")
        two = await app.draft(TWO, by="ada")
        await app.activate("orders", two.version, by="bob")
        new = await app.start("orders", "A-2", id="new")
        await app.decline("orders", first.version, by="bob")
    async with app.worker():
        assert await old.result(timeout=PATIENCE_S) == "charged A-1"
        assert await new.result(timeout=PATIENCE_S) == "packed charged A-2"
        assert [info.version for info in await app.versions("orders", status="active")] == [two.version]


async def test_a_declined_graph_is_not_started(url: str) -> None:
    """Then the one activated before it is taken, or none."""  # SPEC V6
    async with make_app(url) as app:
        first, two = await app.draft(ONE, by="ada"), await app.draft(TWO, by="ada")
        await app.activate("orders", first.version, by="ada")
        await app.activate("orders", two.version, by="ada")
        await app.decline("orders", two.version, by="bob")
        run = await app.start("orders", "A-1")
        assert (await run.status()).version == first.version
        await app.decline("orders", first.version, by="bob")
        with pytest.raises(FunctionNotFound):
            await app.start("orders", "A-2")


async def test_a_version_of_the_code_can_be_declined(url: str) -> None:
    """Code that turned out wrong: no new run begins with it, until somebody activates it again."""  # SPEC V6
    app = make_app(url)

    @app.workflow(name="wrong")
    async def wrong(ctx: Any) -> int:
        return 1

    async with app:
        await app.start("wrong")
        await app.decline("wrong", wrong.version, by="ada")
        with pytest.raises(VersionNotActive, match="declined"):
            await app.start("wrong")
        await app.activate("wrong", wrong.version, by="ada")
        await app.start("wrong")


async def test_a_graph_of_the_code_that_is_a_draft_is_not_started(url: str) -> None:
    """The same graph is the same version, wherever it comes from."""  # SPEC V6
    async with make_app(url) as app:
        draft = await app.draft(ONE, by="program")
        declared = app.graph(ONE)
        assert declared.version == draft.version
        with pytest.raises(VersionNotActive, match="draft"):
            await app.start(declared, "A-1")
        await app.activate("orders", draft.version, by="ada")
        await app.start(declared, "A-1")


async def test_a_graph_of_the_code_that_changed_ends_its_runs_as_it_was(url: str) -> None:
    """A run of an older graph that does not fit the new one goes on from its stored definition."""  # SPEC V3
    deploys = Deploys(url)
    turned = {
        "name": "orders",
        "nodes": {
            "pack": {"function": "pack", "input": "$input", "next": "charge"},
            "charge": {"function": "charge", "input": "$nodes.pack"},
        },
        "output": "$nodes.charge",
    }
    old = deploys.app(one)
    old.graph({**TWO, "nodes": {**TWO["nodes"], "charge": {**TWO["nodes"]["charge"], "function": "stubborn"}}})

    @old.step(name="stubborn", retries=1, backoff=3600)
    async def stubborn(order: str) -> str:
        raise ConnectionError("not yet")

    async with old.worker():
        run = await old.start("orders", "A-1", id="r")

        async def is_retrying() -> bool:
            return [step.status for step in (await run.status()).steps] == ["retrying"]

        await until(is_retrying)
    deploys.pass_an_hour()
    new = deploys.app(one)
    new.graph(turned)

    @new.step(name="stubborn")
    async def willing(order: str) -> str:
        return f"charged {order}"

    async with new.worker():
        run = await new.get_run("r")
        assert await run.result(timeout=PATIENCE_S) == "parcel charged A-1"
        timeline = await run.timeline()
    assert [(item.name, item.detail) for item in timeline if item.kind == "version"] == [
        (old.find_workflow("orders").version, "plan")
    ]


async def test_what_is_wrong_is_refused(url: str) -> None:
    """No graph, no version, no status of that name; a graph whose functions nobody here has."""
    async with make_app(url) as app:
        with pytest.raises(InvalidDefinition):
            await app.draft({"name": "broken", "nodes": {"a": {"function": "f", "next": "nowhere"}}}, by="ada")
        with pytest.raises(FunctionNotFound):
            await app.activate("orders", "v9", by="ada")
        with pytest.raises(InvalidSetting):
            await app.versions(status="old")
        unknown = await app.draft({"name": "unknown", "nodes": {"a": {"function": "nowhere"}}}, by="ada")
        await app.activate("unknown", unknown.version, by="ada")
        with pytest.raises(InvalidDefinition):
            await app.start("unknown", None)
