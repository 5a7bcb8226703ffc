"""Stored journals against changed code (SPEC K3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from outlast import Context, NonDeterminism, Outlast
from outlast.errors import InvalidSetting
from outlast.run.transfer import export_run
from outlast.testing import replay, running


def make_app(*names: str) -> Outlast:
    """A workflow that does these steps, with a nap before the last."""
    app = Outlast("memory://")

    @app.step(name="first")
    async def first() -> str:
        return "one"

    @app.step(name="second")
    async def second() -> str:
        return "two"

    steps = {"first": first, "second": second}

    @app.workflow(name="flow", version="1")
    async def flow(ctx: Context) -> list[str]:
        done = [await steps[name]() for name in names[:-1]]
        await ctx.sleep("3d")
        return [*done, await steps[names[-1]]()]

    return app


async def _export(app: Outlast, *, whole: bool) -> list[bytes]:
    async with running(app) as lab:
        run = await lab.app.start("flow")
        await (lab.result(run) if whole else lab.settle())
        engine = lab.worker.engine
        return list(await export_run(engine, await engine.get_row(run.uid)))


def _flow(app: Outlast):
    workflow = app.find_workflow("flow")
    assert workflow is not None
    return workflow


async def test_the_same_code_follows_its_journal(tmp_path: Path) -> None:
    """A journal that was kept is replayed to its end, and one that is not over to what comes next."""  # SPEC K3
    app = make_app("first", "second")
    file = tmp_path / "flow.jsonl"
    file.write_bytes(b"".join(await _export(app, whole=True)))
    assert replay(file, _flow(app)).asks_next == ()
    cut = replay(await _export(app, whole=False), _flow(app))
    assert cut.asks_next == ()
    assert cut.events < replay(str(file), _flow(make_app("first", "second"))).events


async def test_changed_code_is_named() -> None:
    """Code that asks for another step than is on record is found, with the step."""
    lines = await _export(make_app("first", "second"), whole=True)
    with pytest.raises(NonDeterminism, match="second"):
        replay(lines, _flow(make_app("first", "first")))


async def test_a_journal_of_another_workflow_is_refused() -> None:
    """A mistaken file is said to be that, and not that the code has changed."""
    lines = await _export(make_app("first", "second"), whole=True)
    other = Outlast("memory://")

    @other.workflow(name="other")
    async def flow(ctx: Context) -> None:
        return None

    with pytest.raises(InvalidSetting, match="other"):
        replay(lines, flow)
