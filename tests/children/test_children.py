"""Child runs: started by call, by handle and by name; their ends, what they inherit, their parents' ends (SPEC C)."""

from __future__ import annotations

import asyncio

import pytest

from outlast import Context, InvalidInput, Outlast, RunCancelled, RunFailed
from outlast.core.keys import child_uid
from tests.homes import everywhere


async def until(condition, what: str):
    """Wait for what another run does."""
    async with asyncio.timeout(10):
        while not await condition():
            await asyncio.sleep(0.005)


def has_status(app: Outlast, id: str, status: str = "running"):
    async def look() -> bool:
        return any((row.id, row.status) == (id, status) for row in (await app.runs(limit=100)).runs)

    return look


# SPEC C1, C2
@everywhere
async def test_a_body_runs_another_workflow_as_its_child(app: Outlast):
    """Awaited in a body a workflow is a run of its own, whose output is the call's result; a second call is another."""

    @app.workflow(name="double")
    async def double(ctx: Context, n: int) -> int:
        return n * 2

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> list[int]:
        return [await double(2), await ctx.call("double", {"n": 3}), await (await ctx.start(double, 4)).result()]

    async with app.worker(concurrency=1):
        run = await app.start(parent, id="p", user="ada", attributes={"region": "eu"})
        assert await run.result(timeout=10) == [4, 6, 8]
        children = (await app.runs(parent=run.uid)).runs
        assert {child.uid for child in children} == {
            child_uid(run.uid, key) for key in ("double", "double#1", "double#2")
        }
        assert {(child.user, child.attributes["region"]) for child in children} == {("ada", "eu")}  # SPEC C4
        assert [(step.key, step.status) for step in (await run.status()).steps] == [
            ("double", "succeeded"),
            ("double#1", "succeeded"),
            ("double#2", "succeeded"),
        ]


# SPEC C5
@everywhere
async def test_ten_nested_children_need_one_place(app: Outlast):
    """Waiting for a child occupies nothing: any depth completes with a concurrency of one and one run in memory."""

    @app.step(name="leaf")
    async def leaf() -> int:
        return 0

    @app.workflow(name="deep")
    async def deep(ctx: Context, n: int) -> int:
        return await leaf() if n == 0 else 1 + await deep(n - 1)

    async with app.worker(concurrency=1, max_hot=1):
        run = await app.start(deep, 10)
        assert await run.result(timeout=20) == 10


# SPEC C3
@everywhere
async def test_a_childs_error_is_its_parents(app: Outlast):
    """What a child fails with is raised where its parent waits, and can be caught there; uncaught, it is the run's."""

    @app.workflow(name="bad")
    async def bad(ctx: Context) -> None:
        raise ValueError("not today")

    @app.workflow(name="catching")
    async def catching(ctx: Context) -> str:
        try:
            await bad()
        except ValueError as error:
            return str(error)
        return ""

    @app.workflow(name="letting")
    async def letting(ctx: Context) -> None:
        await bad()

    async with app.worker():
        assert await (await app.start(catching)).result(timeout=10) == "not today"
        with pytest.raises(RunFailed) as caught:
            await (await app.start(letting)).result(timeout=10)
        assert isinstance(caught.value.error, ValueError)
        assert caught.value.step == "bad"


# SPEC C3
async def test_a_child_that_was_cancelled_ends_so_for_its_parent(app: Outlast):
    """Cancelled from outside, it is a RunCancelled for the parent's body."""

    @app.workflow(name="long")
    async def long(ctx: Context) -> None:
        await ctx.sleep("1h")

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> str:
        try:
            await long.options(id="child")()
        except RunCancelled as error:
            return str(error.reason)
        return ""

    async with app.worker():
        run = await app.start(parent)
        await until(has_status(app, "child"), "the child")
        assert await (await app.get_run("child")).cancel("enough")
        assert await run.result(timeout=10) == "enough"


# SPEC C1
@everywhere
async def test_a_child_whose_id_is_taken_fails_its_step_alone(app: Outlast):
    """An id that another run holds is an error at the call, which the body may catch."""

    @app.workflow(name="child")
    async def child(ctx: Context) -> str:
        return "mine"

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> list[str]:
        first = await child.options(id="free")()
        try:
            await child.options(id="taken")()
        except Exception as error:
            return [first, type(error).__name__]
        return []

    async with app.worker():
        await (await app.start(child, id="taken")).result(timeout=10)
        assert await (await app.start(parent)).result(timeout=10) == ["mine", "RunExists"]


async def test_input_that_a_child_does_not_take_is_an_error_at_the_call(app: Outlast):
    """A wrong input never becomes a run."""

    @app.workflow(name="child")
    async def child(ctx: Context, n: int) -> None: ...

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> str:
        try:
            await child("three")  # pyright: ignore[reportArgumentType]
        except InvalidInput as error:
            return str(error)
        return ""

    async with app.worker():
        assert "int" in await (await app.start(parent)).result(timeout=10)
        assert len((await app.runs()).runs) == 1


# SPEC C4
@everywhere
@pytest.mark.parametrize(("close", "status"), [("cancel", "cancelled"), ("abandon", "running")])
async def test_on_parent_close(app: Outlast, close, status):
    """A child that its parent did not wait for is cancelled with the parent's end, or left to itself."""

    @app.workflow(name="long")
    async def long(ctx: Context) -> None:
        await ctx.sleep("1h")

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> str:
        child = await ctx.start(long, id="child", on_parent_close=close)
        await ctx.sleep(0.05)
        return child.id

    async with app.worker():
        run = await app.start(parent)
        assert await run.result(timeout=10) == "child"
        child = await app.get_run("child")
        if close == "cancel":
            with pytest.raises(RunCancelled):
                await child.result(timeout=10)
        await until(has_status(app, "child", status), "the child's status")


# SPEC X1
@everywhere
async def test_a_cancel_reaches_children_first(app: Outlast, diary):
    """Children clean up and end before the parent's body gets the cancel."""

    @app.step(name="note")
    async def note(text: str) -> None:
        diary.append(text)

    @app.workflow(name="child")
    async def child(ctx: Context) -> None:
        try:
            await ctx.sleep("1h")
        finally:
            await note("child")

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> None:
        try:
            await asyncio.gather(child.options(id="c1")(), child())
        finally:
            await note("parent")

    async with app.worker():
        run = await app.start(parent)
        await until(has_status(app, "c1"), "the child")
        assert await run.cancel("stop")
        with pytest.raises(RunCancelled, match="stop"):
            await run.result(timeout=10)
        assert diary == ["child", "child", "parent"]
        assert {row.status for row in (await app.runs()).runs} == {"cancelled"}


@everywhere
async def test_giving_a_child_up_cancels_it(app: Outlast):
    """A time limit around a child's call cancels the child."""

    @app.workflow(name="long")
    async def long(ctx: Context) -> None:
        await ctx.sleep("1h")

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> str:
        try:
            async with asyncio.timeout(0.05):
                await long.options(id="child")()
        except TimeoutError:
            return "late"
        return ""

    async with app.worker():
        assert await (await app.start(parent)).result(timeout=10) == "late"
        with pytest.raises(RunCancelled):
            await (await app.get_run("child")).result(timeout=10)


# SPEC R10
@everywhere
async def test_a_failed_child_is_retried_with_its_parent(app: Outlast, diary):
    """What succeeded in either stays; the child goes on from its own failure, as the same run."""

    @app.step(name="good", retries=0)
    async def good() -> str:
        diary.append("good")
        return "kept"

    @app.step(name="flaky", retries=0)
    async def flaky() -> str:
        diary.append("flaky")
        if diary.count("flaky") == 1:
            raise ValueError("once")
        return "well"

    @app.workflow(name="child")
    async def child(ctx: Context) -> list[str]:
        return [await good(), await flaky()]

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> list[str]:
        return await child.options(id="c")()

    async with app.worker():
        run = await app.start(parent)
        with pytest.raises(RunFailed):
            await run.result(timeout=10)
        await run.retry()
        assert await run.result(timeout=10) == ["kept", "well"]
        assert diary == ["good", "flaky", "flaky"]
        assert await (await app.get_run("c")).result(timeout=10) == ["kept", "well"]
        assert len((await app.runs()).runs) == 2


@everywhere
async def test_a_child_on_a_queue_waits_for_its_workers(app: Outlast):
    """A child may be sent to the workers of another queue."""

    @app.workflow(name="child")
    async def child(ctx: Context) -> str:
        return "done"

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> str:
        return await child.options(queue="night", id="c")()

    async with app.worker(queues=("default", "night")):
        run = await app.start(parent)
        assert await run.result(timeout=10) == "done"
        assert [row.queue for row in (await app.runs()).runs if row.id == "c"] == ["night"]


# SPEC R10
@everywhere
@pytest.mark.parametrize("ends", ["cancelled", "completed"])
async def test_children_in_flight_go_on_with_a_retry_of_their_parent(app: Outlast, diary, ends):
    """One that was cancelled when its parent failed goes on from before that; one that completed all the same has its
    result. Neither is waited for in vain."""
    is_mended, began, gate = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.step(name="fragile", retries=0)
    async def fragile() -> str:
        await began.wait()
        if not is_mended.is_set():
            raise ValueError("no")
        return "well"

    @app.step(name="first")
    async def first() -> str:
        diary.append("first")
        return "kept"

    @app.step(name="last")
    async def last() -> str:
        diary.append("last")
        began.set()
        await gate.wait()
        return "done"

    @app.workflow(name="child")
    async def child(ctx: Context) -> list[str]:
        kept = await first()
        if ends == "cancelled":
            return [kept, await last()]
        try:
            await last()
        except asyncio.CancelledError:
            asyncio.current_task().uncancel()  # pyright: ignore[reportOptionalMemberAccess]
        return [kept, "unmoved"]

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> list[str]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(child.options(id="c")())
            await fragile()
        return await task

    async with app.worker():
        run = await app.start(parent)
        with pytest.raises(RunFailed):
            await run.result(timeout=10)
        await until(has_status(app, "c", ends), "the child's end")
        is_mended.set()
        gate.set()
        await run.retry()
        assert await run.result(timeout=10) == ["kept", "done" if ends == "cancelled" else "unmoved"]
        assert diary == ["first", "last", "last"] if ends == "cancelled" else ["first", "last"]


# SPEC R4
@everywhere
async def test_a_child_has_a_deadline_of_its_own(app: Outlast):
    """`timeout=` cancels the child when it has passed; its parent hears of a cancel, and may go on."""

    @app.workflow(name="long")
    async def long(ctx: Context) -> None:
        await ctx.sleep("1h")

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> str:
        try:
            await long.options(timeout=0.05)()
        except RunCancelled as error:
            return str(error.reason)
        return ""

    async with app.worker():
        assert "deadline" in await (await app.start(parent)).result(timeout=10)
