"""What is kept of versions, where values are encrypted: programs hold values of the code, graphs of their authors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from outlast import Codec, Context, Encrypt, KeyNotFound, Outlast, Sealed
from outlast.core.states import RunStatus
from tests.payloads.test_runs import NEW, OLD, SECRET, UNDER_NEW, UNDER_OLD, everything_in, until_suspended

RATE = {"card": SECRET}
GRAPH = {"name": "monthly", "nodes": {"pay": {"function": "pay", "input": {"card": SECRET}}}, "output": "$nodes.pay"}


def make_app(path: Path, codecs: Iterable[Codec] = (), *, release: int = 1) -> Any:
    app: Any = Outlast(f"sqlite:///{path}/runs.db", codecs=codecs)

    @app.step(name="pay")
    async def pay(card: str) -> str:
        return f"paid with {card}"

    if release == 1:

        @app.workflow(name="bill")
        async def bill(ctx: Context) -> str:
            before = await pay(RATE["card"])
            await ctx.wait_for("next")
            return before

    else:

        @app.workflow(name="bill")
        async def changed(ctx: Context) -> str:
            return await pay(f"another than {RATE['card']}")

    return app


async def start_bill(app: Any) -> None:
    """A run that has paid, and waits."""
    async with app.worker():
        run = await app.start("bill", id="A-17")
        await until(run, "signal next")


async def until(run: Any, what: str) -> None:
    info = await run.status()
    while info.waiting_on != what:
        async for _ in run.events():
            info = await run.status()
            if info.waiting_on == what:
                break


def is_in_the_clear(path: Path) -> bool:
    stored = everything_in(path)
    return SECRET.encode() in stored or SECRET.encode().hex().upper().encode() in stored


# SPEC D2 V3
async def test_values_of_the_code_are_sealed(tmp_path: Path) -> None:
    """A run goes on from its stored plan, with a value of its version's module; which is not in the store for all."""
    await start_bill(make_app(tmp_path, UNDER_OLD))
    app = make_app(tmp_path, UNDER_OLD, release=2)
    async with app.worker():
        run = await app.get_run("A-17")
        await run.signal("next", "go")
        assert await run.result(timeout=20) == f"paid with {SECRET}"
        (version,) = [item.detail for item in await run.timeline() if item.kind == "version"]
    assert version == "plan"
    assert not is_in_the_clear(tmp_path)


# SPEC D2 V6
async def test_a_stored_graph_is_sealed(tmp_path: Path) -> None:
    """Who has the key sees and starts it; who has not sees its plan, and can decline it."""
    app = make_app(tmp_path, UNDER_OLD)
    async with app:
        version = (await app.draft(GRAPH, by="ada")).version
        await app.activate("monthly", version, by="ada")
        assert (await app.get_version("monthly", version)).definition["nodes"]["pay"]["input"] == {"card": SECRET}
        run = await app.start("monthly", None, id="A-18")
    assert not is_in_the_clear(tmp_path)
    async with make_app(tmp_path) as bare:
        shown = await bare.get_version("monthly", version)
        assert isinstance(shown.definition, Sealed)
        assert [step.key for step in shown.plan.steps] == ["pay"]
        with pytest.raises(KeyNotFound):
            await bare.start("monthly", None)
        async with bare.worker():
            await until_suspended(await bare.get_run("A-18"), "KEY_NOT_FOUND aes-gcm:old")
        await bare.decline("monthly", version, by="bob")
    app = make_app(tmp_path, UNDER_NEW)
    async with app.worker():
        run = await app.get_run("A-18")
        assert await run.result(timeout=20) == f"paid with {SECRET}"


# SPEC D2 V3
async def test_a_conflict_quotes_nothing_in_the_clear(tmp_path: Path) -> None:
    """A plan whose key is gone helps no run, which is set aside; both sides are told to who has the run's own key."""
    async with make_app(tmp_path, UNDER_OLD).worker():
        pass  # keeps the version, under the old key
    await start_bill(make_app(tmp_path, UNDER_NEW))
    app = make_app(tmp_path, [Encrypt({"new": NEW})], release=2)
    async with app.worker():
        run = await app.get_run("A-17")
        await run.signal("next", "go")
        await until_suspended(run, "VERSION_CONFLICT")
        (told,) = [item.detail for item in await run.timeline() if item.kind == "suspended"]
    assert "cannot be read here" in told
    assert f'{{"card":"{SECRET}"}}' in told
    assert not is_in_the_clear(tmp_path)
    app = make_app(tmp_path, [Encrypt({"new": NEW, "old": OLD}, current="new")], release=2)
    async with app.worker():
        run = await app.get_run("A-17")
        assert await run.result(timeout=20) == f"paid with {SECRET}"
        assert (await run.status()).status is RunStatus.COMPLETED
