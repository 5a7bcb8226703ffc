"""Journals as files: out of one store, into another (`outlast export`, `outlast import`)."""

from __future__ import annotations

import asyncio
import json

import pytest

from outlast import Context, InvalidSetting, Outlast, RunExists, StoreUnavailable, User
from outlast.run.transfer import export_run, import_run


def make_app(url, release=None):
    """An app with a workflow of two steps, the second of which waits."""
    app = Outlast(url)
    app_log = []

    @app.step(name="first")
    async def first(n: int) -> int:
        app_log.append("first")
        return n + 1

    @app.step(name="second")
    async def second(n: int) -> int:
        app_log.append("second")
        if release is not None:
            await release.wait()
        return n * 2

    @app.workflow(name="both")
    async def both(ctx: Context, n: int) -> int:
        await ctx.set_state("n", n)
        return await second(await first(n))

    return app, app_log


async def export(app, run):
    """The lines of the run's file."""
    engine = app._here()
    return list(await export_run(engine, await engine.get_row(run.uid)))


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path):
    """Where it is imported."""
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/other.db"


async def test_an_ended_run_is_the_same_elsewhere(url):
    """Its story, result, names and attributes; and nothing runs again."""
    source, _ = make_app("memory://")
    async with source.worker():
        run = await source.start("both", 3, id="A-1", user="ada", attributes={"region": "eu"})
        assert await run.result(timeout=20) == 8
        lines = await export(source, run)
        timeline = await run.timeline()
    target, log = make_app(url)
    async with target.worker():
        done = await import_run(target._here(), lines)
        assert (done.uid, done.id, done.status) == (run.uid, "A-1", "completed")
        there = await target.get_run("A-1")
        info = await there.status()
        assert (info.output, info.user, info.attributes, info.state) == (8, "ada", {"region": "eu"}, {"n": 3})
        assert await there.result(timeout=20) == 8
        assert [(item.seq, item.at, item.kind, item.value) for item in await there.timeline()] == [
            (item.seq, item.at, item.kind, item.value) for item in timeline
        ]
        assert (await import_run(target._here(), lines)).entries == done.entries
        again = await export(target, there)
        assert [json.loads(line)["events"] for line in again[1:]] == [json.loads(line)["events"] for line in lines[1:]]
        await there.delete()
    assert log == []


async def test_a_run_that_had_not_ended_is_suspended(url):
    """Its original may go on where it is; resumed here it goes on from what is on record."""
    held = asyncio.Event()
    source, source_log = make_app("memory://", held)
    async with source.worker(grace=0.01):
        run = await source.start("both", 3, id="A-1")
        async for item in run.events():
            if item.step == "second":
                break
        lines = await export(source, run)
        target, log = make_app(url)
        async with target.worker():
            assert (await import_run(target._here(), lines)).status == "suspended"
            assert (await import_run(target._here(), lines)).status == "suspended"
            there = await target.get_run("A-1")
            info = await there.status()
            assert (info.status, info.waiting_on) == ("suspended", "IMPORTED")
            await there.resume("IMPORTED")
            assert await there.result(timeout=20) == 8
        assert log == ["second"]
    assert source_log == ["first", "second"]


async def test_what_an_import_waits_for_can_be_seen_and_answered(url):
    """A run that waits for a person waits for one where it is imported, once it was resumed there."""

    def make_gate(where: str) -> Outlast:
        app = Outlast(where)

        @app.workflow(name="gate")
        async def gate(ctx: Context) -> object:
            return await ctx.approval("ok?", bool)

        return app

    source = make_gate("memory://")
    async with source.worker():
        run = await source.start("gate", id="G")
        while (await source._here().get_row(run.uid)).owner is not None:
            await asyncio.sleep(0.01)
        lines = await export(source, run)
    target = make_gate(url)
    async with target.worker():
        for _ in range(2):
            assert (await import_run(target._here(), lines)).status == "suspended"
        there = await target.get_run("G")
        assert (await there.status()).waiting_on == "IMPORTED"
        assert [wait.name for wait in (await target.waits()).waits] == ["ok?"]
        await there.resume("IMPORTED")
        await there.approve("ok?", True, by=User("ann"))
        assert (await there.result(timeout=20))["value"] is True


async def test_an_import_that_breaks_off_is_repeated(url, monkeypatch):
    """Until its last entry is there no worker takes the run; the same file again completes it."""
    source, _ = make_app("memory://")
    async with source.worker():
        run = await source.start("both", 3, id="A-1")
        await run.result(timeout=20)
        lines = await export(source, run)
    assert len(lines) == 4
    target, log = make_app(url)
    async with target:
        commit, count = target._store.commit, 0

        async def break_off(*args):
            nonlocal count
            count += 1
            if count > 2:
                raise StoreUnavailable(url, "as the test wants")
            return await commit(*args)

        monkeypatch.setattr(target._store, "commit", break_off)
        with pytest.raises(StoreUnavailable):
            await import_run(target._here(), lines)
        monkeypatch.undo()
        assert (await target.work_until_idle(timeout=20)).entries == 0
        assert (await import_run(target._here(), lines)).status == "completed"
        assert await (await target.get_run("A-1")).result(timeout=20) == 8
    assert log == []


async def test_what_is_no_such_file_is_refused():
    """Cut off, of another kind, of another run, of a later release: nothing is stored."""
    source, _ = make_app("memory://")
    async with source.worker():
        run = await source.start("both", 3, id="A-1")
        await run.result(timeout=20)
        lines = await export(source, run)
    other, _ = make_app("memory://")
    async with other.worker():
        await (await other.start("both", 9, id="A-1")).result(timeout=20)
        with pytest.raises(RunExists):
            await import_run(other._here(), lines)
    unknown = lines[1].replace(b"StepStarted", b"StepImagined")
    wrong = (
        [],
        lines[:1],
        lines[:-1],
        lines[1:],
        [lines[0], *lines[2:], lines[1]],
        [b"{}\n", *lines[1:]],
        [b"nonsense"],
        [lines[0], b"\xff\n", *lines[2:]],
        [lines[0], unknown, *lines[2:]],
        [lines[0].replace(run.uid.encode(), b"somebody"), *lines[1:]],
        [lines[0].replace(b'"format":1', b'"format":2'), *lines[1:]],
    )
    target, _ = make_app("memory://")
    async with target:
        for given in wrong:
            with pytest.raises(InvalidSetting):
                await import_run(target._here(), given)
        assert (await target.runs()).runs == ()
