"""Runs that go on as a next round (`ctx.continue_as_new`, SPEC R6, S7, F30)."""

from __future__ import annotations

import asyncio

import pytest

from outlast import (
    Context,
    InvalidInput,
    Outlast,
    RunCancelled,
    RunConflict,
    RunInfo,
    RunNotEnded,
    RunNotFound,
)
from outlast.core.lineage.rounds import next_uid
from tests.rounds.bodies import PATIENCE_S, declare_counting, declare_reading


# SPEC R6, S7
@pytest.mark.parametrize("max_hot", [10_000, 0])
async def test_a_run_goes_on_as_a_fresh_one_under_its_id(app: Outlast, max_hot):
    """Each round has a journal and a uid of its own, and so its steps other invocation ids; `result()` of the first
    round's handle is the last round's; and each round says which came before and behind it."""
    ids: list[str] = []
    declare_counting(app, ids)
    async with app.worker(max_hot=max_hot):
        run = await app.start("counting", 4, id="c", user="ada", attributes={"region": "eu"}, timeout="1h")
        assert await run.result(timeout=PATIENCE_S) == 4
        assert len(set(ids)) == 4
        last = await app.get_run("c")
        uids = [run.uid]
        for _ in range(3):
            uids.append(next_uid(uids[-1]))
        assert last.uid == uids[-1]
        assert await last.result(timeout=PATIENCE_S) == 4
        rounds = {row.uid: row for row in (await app.runs(workflow="counting")).runs}
        assert sorted(rounds) == sorted(uids)
        assert {(row.id, row.user, row.attributes["region"], str(row.status)) for row in rounds.values()} == {
            ("c", "ada", "eu", "completed")
        }
        infos = [await _info(app, run, uid) for uid in uids]
        assert [info.continued_as for info in infos] == [*uids[1:], None]
        assert [info.continued_from for info in infos] == [None, *uids[:3]]
        assert [info.output for info in infos] == [None, None, None, 4]
        assert [info.input for info in infos] == [{"most": 4, "n": n} for n in range(4)]
        assert [[step.key for step in info.steps] for info in infos] == [["count"]] * 4
        assert len({info.trace[:35] for info in infos}) == 1
        story = await run.timeline()
        assert (story[-1].kind, story[-1].name) == ("continued", uids[1])
        assert [item.kind async for item in run.events()][-1] == "continued"
        page = await app.runs(status="completed")
        assert {row.finished_at is not None for row in page.runs} == {True}


async def _info(app: Outlast, run, uid: str) -> RunInfo:
    return await type(run)(run._reach, uid, run.id, run.workflow, run._known).status()


async def test_a_start_that_is_repeated_is_of_the_run_that_went_on(app: Outlast):
    """The same id with the input of the first round is the same run; with that of a later one it is another."""
    declare_reading(app)
    async with app.worker():
        run = await app.start("reading", 2, id="r")
        await run.signal("number", 1)
        async with asyncio.timeout(PATIENCE_S):
            while (last := await app.get_run("r")).uid == run.uid:
                await asyncio.sleep(0.005)
        again = await app.start("reading", 2, id="r")
        assert again.uid == last.uid
        with pytest.raises(RunConflict):
            await app.start("reading", 2, [1], id="r")
        await again.signal("number", 2)
        assert await again.result(timeout=PATIENCE_S) == [1, 2]


async def test_the_deadline_stays(memory_app: Outlast):
    """It is that of the whole run, however many rounds it has."""

    @memory_app.workflow(name="for ever")
    async def for_ever(ctx: Context, n: int = 0) -> None:
        await ctx.sleep(0.02)
        await ctx.continue_as_new(n + 1)

    async with memory_app.worker():
        run = await memory_app.start(for_ever, timeout=0.3)
        with pytest.raises(RunCancelled, match="its deadline passed"):
            await run.result(timeout=PATIENCE_S)
        last = await (await memory_app.get_run(run.id)).status()
        assert last.input["n"] > 2
        assert last.uid != run.uid


async def test_input_that_the_workflow_does_not_take_is_refused_in_the_body(memory_app: Outlast):
    """Before anything ends: the body may catch it."""

    @memory_app.workflow(name="strict")
    async def strict(ctx: Context, n: int) -> str:
        try:
            await ctx.continue_as_new("three")
        except InvalidInput as error:
            return error.field
        return "never"

    async with memory_app.worker():
        assert await (await memory_app.start(strict, 1)).result(timeout=PATIENCE_S) == "n"


async def test_clean_up_comes_first_and_a_group_may_say_it(memory_app: Outlast):
    """`finally` runs, steps included; no `except Exception` keeps it from going on; in a TaskGroup it is no error."""
    said: list[str] = []

    @memory_app.step(name="note")
    async def note(text: str) -> None:
        said.append(text)

    @memory_app.workflow(name="cleans")
    async def cleans(ctx: Context, n: int = 0) -> str:
        if n == 2:
            return "done"
        try:
            try:
                if n == 0:
                    await ctx.continue_as_new(1)
                async with asyncio.TaskGroup() as group:
                    group.create_task(ctx.continue_as_new(2))
                    group.create_task(ctx.sleep("1h"))
            except Exception:
                said.append("caught")
        finally:
            await note(f"tidy {n}")
        return "never"

    async with memory_app.worker():
        assert await (await memory_app.start(cleans)).result(timeout=PATIENCE_S) == "done"
    assert said == ["tidy 0", "tidy 1"]


async def test_a_plain_body_goes_on_too(memory_app: Outlast):
    """`ctx.wait(ctx.continue_as_new(…))`."""

    @memory_app.workflow(name="plain")
    def plain(ctx: Context, n: int = 0) -> int:
        if n < 3:
            ctx.wait(ctx.continue_as_new(n + 1))
        return n

    async with memory_app.worker():
        assert await (await memory_app.start(plain)).result(timeout=PATIENCE_S) == 3


async def test_the_next_round_begins_with_the_code_at_hand(memory_app: Outlast):
    """And with its version: a run that never ends need not keep old code alive."""
    app = memory_app

    @app.workflow(name="renewed", version="1")
    async def renewed(ctx: Context, n: int = 0) -> str:
        await ctx.wait_for("go")
        await ctx.continue_as_new(n + 1)
        return "never"

    async with app.worker():
        run = await app.start(renewed)
        renewed._version = "2"
        await run.signal("go")
        async with asyncio.timeout(PATIENCE_S):
            while (last := await (await app.get_run(run.id)).status()).input["n"] == 0:
                await asyncio.sleep(0.005)
        assert ((await run.status()).version, last.version) == ("1", "2")


# SPEC R9
async def test_old_rounds_may_go_while_the_run_goes_on(any_app: Outlast):
    """All but the first, by which what is sent to it finds the last; with the last, it may go too."""
    app = any_app
    declare_reading(app)
    async with app.worker():
        run = await app.start("reading", 4, id="r")
        for number in range(2):
            await run.signal("number", number)
        async with asyncio.timeout(PATIENCE_S):
            while len((await app.runs(workflow="reading", status="completed")).runs) < 2:
                await asyncio.sleep(0.005)
        with pytest.raises(RunNotEnded):
            await run.delete()
        await asyncio.sleep(0.002)
        assert await app.prune(older_than=0.001) == 1
        for number in range(2, 4):
            await run.signal("number", number)
        assert await run.result(timeout=PATIENCE_S) == [0, 1, 2, 3]
        await run.delete()
        assert await (await app.get_run("r")).result(timeout=PATIENCE_S) == [0, 1, 2, 3]
        with pytest.raises(RunNotFound):
            await run.status()
