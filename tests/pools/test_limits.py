"""Limits on runs, over all workers: of a workflow, and of a queue (SPEC Q2)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from outlast.app import Outlast
from outlast.authoring.context import Context
from outlast.authoring.sharing import find_group
from outlast.errors import InvalidSetting, RunCancelled, RunFailed
from tests.homes import everywhere
from tests.pools.world import World
from tests.tasks.world import eventually

ONE: dict[str, Any] = {"limit": 1}
THREE: dict[str, Any] = {"limit": 3}


@everywhere
async def test_a_limit_holds_over_all_workers(world: World):
    """Two workers with room for many have three runs in hand, and take another as soon as one has ended."""
    async with world.working(limits=THREE) as (app, _), world.working(limits=THREE):
        runs = [await app.start("work", f"r{n}") for n in range(9)]
        await eventually(lambda: world.inside["work"] == 3, "three runs")
        queue = next(queue for queue in await app.queues() if queue.name == "default")
        assert (queue.waiting_runs, queue.held_runs) == (6, 3)
        statuses = [str((await run.status()).status) for run in runs]
        assert (statuses.count("running"), statuses.count("queued")) == (3, 6)
        world.open.set()
        assert [await run.result(20) for run in runs] == [f"r{n}" for n in range(9)]
        assert world.most["work"] == 3


@everywhere
async def test_what_has_no_limit_is_not_kept_waiting(world: World):
    """A backlog at its limit is nobody else's concern."""
    async with world.working(limits=ONE) as (app, _):
        waiting = [await app.start("work", f"r{n}") for n in range(50)]
        await eventually(lambda: world.inside["work"] == 1, "one")
        others = [await app.start("free", f"f{n}") for n in range(5)]
        await eventually(lambda: world.inside["free"] == 5, "the others")
        world.open.set()
        assert len([await run.result(20) for run in others + waiting]) == 55
        assert world.most["work"] == 1


@everywhere
async def test_a_queue_limits_its_runs(world: World):
    """Whatever workflow they are of: those that have a limit of their own count as well."""
    gpu = {"limit": 2}
    async with (
        world.working("gpu", queue=gpu, limits=ONE) as (app, _),
        world.working("gpu", "default", queue=gpu, limits=ONE),
    ):
        runs = [await app.start("free", f"f{n}", queue="gpu") for n in range(4)]
        runs += [await app.start("work", f"r{n}", queue="gpu") for n in range(4)]
        runs += [await app.start("free", f"g{n}") for n in range(3)]
        await eventually(lambda: world.inside.total() == 5, "two of the queue, three of the other")
        assert [name[0] for name in world.order].count("g") == 3
        assert next(queue.limit for queue in await app.queues() if queue.name == "gpu") == 2
        world.open.set()
        for run in runs:
            await run.result(20)
        assert world.most["work"] == 1


@everywhere
async def test_a_place_is_taken_as_soon_as_it_is_free(world: World):
    """Twenty runs, one at a time, are no twenty polls: whoever ends one looks for the next."""
    world.open.set()
    async with world.working(limits=ONE) as (app, _):
        began = time.monotonic()
        runs = [await app.start("work", f"r{n}") for n in range(20)]
        for run in runs:
            await run.result(20)
        assert time.monotonic() - began < 5
        assert world.most["work"] == 1


@everywhere
async def test_parents_that_wait_for_their_own_kind_give_up_their_places(world: World):
    """With one place, a chain of children of the same workflow comes to its end."""
    async with world.working(limits=ONE) as (app, _), world.working(limits=ONE):
        run = await app.start("nest", 6)
        assert await run.result(30) == 6


@everywhere
async def test_children_have_places_like_others(world: World):
    """A parent without a limit starts ten of a workflow that has one."""
    async with world.working(limits=THREE) as (app, _):
        run = await app.start("parent", [f"c{n}" for n in range(10)])
        await eventually(lambda: world.inside["work"] == 3, "three children")
        world.open.set()
        assert await run.result(20) == [f"c{n}" for n in range(10)]
        assert world.most["work"] == 3


@everywhere
async def test_a_run_that_sleeps_has_no_place(world: World):
    """It is parked when others are due, and takes its turn again when it is due itself."""
    async with world.working(limits=ONE) as (app, _):
        sleeper = await app.start("doze", "sleeper", 1, 3600.0)
        await eventually(lambda: _is_waiting(sleeper), "its sleep")
        run = await app.start("doze", "other", 0, 0.0)
        await eventually(lambda: world.inside["doze"] == 1, "the other")
        world.open.set()
        assert await run.result(20) == "other"
        assert await sleeper.cancel()


@everywhere
async def test_short_naps_keep_no_place(world: World):
    """Two that sleep for a moment, again and again, would stay hot for ever: with one place they take turns."""
    world.open.set()
    async with world.working(limits=ONE) as (app, _):
        one, two = [await app.start("doze", name, 5, 0.05) for name in ("one", "two")]
        assert [await one.result(30), await two.result(30)] == ["one", "two"]


@everywhere
async def test_a_run_that_waits_for_somebody_has_no_place(world: World):
    """Ten wait for a signal with one place among them, and each that hears takes its turn."""
    world.open.set()
    async with world.working(limits=ONE) as (app, _):
        runs = [await app.start("ask", f"r{n}") for n in range(5)]
        for run in runs:
            await eventually(lambda run=run: _is_waiting(run), "its wait")
        for run in runs:
            await run.signal("answer", "yes")
        assert [await run.result(20) for run in runs] == [f"r{n} yes" for n in range(5)]
        assert world.most["ask"] == 1


async def _is_waiting(run: Any) -> bool:
    return bool((await run.status()).waiting_on)


@everywhere
async def test_a_cancel_waits_for_no_place(world: World):
    """Runs that wait for theirs end at once when they are cancelled; so does one that sleeps, with its clean-up."""
    async with world.working(limits=ONE) as (app, _):
        sleeper = await app.start("tidy")
        await eventually(lambda: _is_waiting(sleeper), "its wait")
        await app.start("tidy", id="holder")
        holder = await app.start("work", "holder")
        queued = [await app.start("work", f"r{n}") for n in range(3)]
        await eventually(lambda: world.inside["work"] == 1, "one")
        for run in [*queued, sleeper]:
            assert await run.cancel("not needed")
        for run in [*queued, sleeper]:
            with pytest.raises(RunCancelled):
                await run.result(10)
        assert world.undone == ["tidied"]
        assert world.order == ["holder"]
        world.open.set()
        assert await holder.result(20) == "holder"


@everywhere
async def test_a_next_round_takes_its_turn(world: World):
    """A run that goes on as new gives its place back, and is not lost."""
    world.open.set()
    async with world.working(limits=ONE) as (app, _):
        run = await app.start("rounds", 3)
        other = await app.start("rounds", 2)
        assert [await run.result(20), await other.result(20)] == [0, 0]
        assert world.most["rounds"] == 1


@everywhere
async def test_a_failed_run_is_retried_in_its_turn(world: World):
    """A retry waits for a place as any other."""
    app = Outlast(world.url)
    is_fixed = False

    @app.step(name="fail", retries=0)
    async def fail() -> str:
        if not is_fixed:
            raise RuntimeError("broken")
        return "fixed"

    @app.workflow(name="brittle", limit=1)
    async def brittle(ctx: Context) -> str:
        return await fail()

    async with app.worker():
        run = await app.start(brittle)
        with pytest.raises(RunFailed):
            await run.result(20)
        is_fixed = True
        await run.retry()
        assert await run.result(20) == "fixed"


# --- settings that change ---------------------------------------------------------------------------------------------


@everywhere
async def test_a_limit_holds_for_runs_that_were_there_before(world: World):
    """Started when their workflow had none, they are put into its pool when they are due."""
    old = world.app()
    async with old:
        runs = [await old.start("work", f"r{n}") for n in range(6)]
    async with world.working(limits=THREE) as (app, _), world.working(limits=THREE):
        await eventually(lambda: world.inside["work"] == 3, "three")
        handles = [await app.get_run(run.id) for run in runs]
        statuses = [str((await run.status()).status) for run in handles]
        assert (statuses.count("running"), statuses.count("queued")) == (3, 3)
        world.open.set()
        assert len([await run.result(20) for run in handles]) == 6
        assert world.most["work"] == 3


@everywhere
async def test_a_cancel_of_such_a_run_is_heard_at_once(world: World):
    """It is not put into the pool to wait with its cancel unread."""
    old = world.app()
    async with old:
        first = await old.start("work", "first")
        queued = await old.start("work", "queued", delay="1s")
        assert await queued.cancel()
    async with world.working(limits=ONE) as (app, _):
        with pytest.raises(RunCancelled):
            await (await app.get_run(queued.id)).result(10)
        world.open.set()
        assert await (await app.get_run(first.id)).result(20) == "first"


@everywhere
async def test_a_limit_that_is_no_more_keeps_nothing(world: World):
    """Runs that were started under it are found by workers whose code has none."""
    before = world.app(limit=1, queue={"limit": 1})
    async with before:
        runs = [await before.start("work", f"r{n}") for n in range(3)]
        runs += [await before.start("free", f"f{n}", queue="gpu") for n in range(3)]
    async with world.working("default", "gpu") as (app, _):
        await eventually(lambda: world.inside.total() == 6, "all of them")
        world.open.set()
        for run in runs:
            await (await app.get_run(run.id)).result(20)


@everywhere
async def test_work_until_idle_works_what_is_shared_out(world: World):
    """One after the other, and what sleeps is left with its time."""
    world.open.set()
    app = world.app(limit=1)
    async with app:
        for n in range(5):
            await app.start("work", f"r{n}")
        await app.start("doze", "sleeper", 1, 3600.0)
        await app.start("nest", 3)
    done = await app.work_until_idle(timeout=30)
    assert done.ended == 5 + 4
    assert done.next_at is not None
    assert world.most["work"] == 1


# --- what may be said -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits", [{"limit": 0}, {"limit": -1}, {"limit": "x"}, {"limit": True}, {"fair_by": "colour"}]
)
def test_a_bad_limit_is_told_where_it_is_declared(limits: dict[str, Any]):
    """What is wrong, and what it may be; as for a queue."""
    app = Outlast("memory://")
    with pytest.raises(InvalidSetting) as of_queue:
        app.queue("gpu", **limits)
    with pytest.raises(InvalidSetting) as caught:
        app.workflow(**limits)
    assert str(caught.value) == str(of_queue.value)
    assert repr(next(iter(limits.values()))) in str(caught.value)


@everywhere
async def test_a_listing_tells_of_limits(world: World):
    """What is said of a workflow stands in its description."""
    app = world.app(limit=3, fair_by="user")
    async with app:
        told = {workflow.name: (workflow.limit, workflow.fair_by) for workflow in app.workflows()}
    assert told["work"] == (3, "user")
    assert told["free"] == (None, None)


# --- fairness ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fair_by", ["user", "attributes.tenant"])
@everywhere
async def test_who_starts_much_keeps_nobody_waiting(world: World, fair_by: str):
    """Eight runs of one wait already when another comes with two: those have their turns among them."""
    limits = {"limit": 1, "fair_by": fair_by}
    app = world.app(**limits)
    async with app:
        for n in range(8):
            await app.start("work", f"a{n}", user="ada", attributes={"tenant": 1})
        for n in range(2):
            await app.start("work", f"b{n}", user="bob", attributes={"tenant": 2})
    world.open.set()
    async with world.working(limits=limits):
        await eventually(lambda: len(world.order) == 10, "all")
    assert [name[0] for name in world.order][:4] in (["a", "b", "a", "b"], ["b", "a", "b", "a"])


@everywhere
async def test_any_attribute_makes_a_group(world: World):
    """Also a number, one that is missing, and a long one."""
    limits = {"limit": 1, "fair_by": "attributes.tenant"}
    world.open.set()
    async with world.working(limits=limits) as (app, _):
        given: list[dict[str, Any]] = [{"tenant": value} for value in ("ab", 1.5, None, "é" * 5000, 7)]
        runs = [await app.start("work", f"r{n}", attributes=each) for n, each in enumerate([*given, {}])]
        assert [await run.result(20) for run in runs] == [f"r{n}" for n in range(6)]


def test_a_group_is_what_every_store_can_keep():
    """A child's attributes are its parent's to say, and may hold any character: a group shows one for those that cannot
    be in a text."""
    told = find_group("attributes.tenant", user=None, workflow="w", attributes=b'{"tenant":"a\\u0000b"}')
    assert told == "=a\ufffdb"


@everywhere
async def test_a_queue_is_fair_to_runs(world: World):
    """The same as a queue says it."""
    gpu = {"limit": 1, "fair_by": "user"}
    app = world.app(queue=gpu)
    async with app:
        for n in range(6):
            await app.start("free", f"a{n}", user="ada", queue="gpu")
        await app.start("free", "b0", user="bob", queue="gpu")
    world.open.set()
    async with world.working("gpu", queue=gpu):
        await eventually(lambda: len(world.order) == 7, "all")
    assert world.order.index("b0") <= 1


@everywhere
async def test_neither_pools_nor_others_have_only_what_is_left(world: World):
    """A worker with room for two runs and backlogs of both kinds works on both."""
    app = world.app(limit=5)
    async with app:
        for n in range(10):
            await app.start("free", f"f{n}")
            await app.start("work", f"r{n}")
    async with world.working(limits={"limit": 5}, max_hot=2):
        await eventually(lambda: world.inside.total() >= 2, "two")
        world.open.set()
        await eventually(lambda: len(world.order) >= 8, "some")
        assert {name[0] for name in world.order[:8]} == {"f", "r"}
        await eventually(lambda: len(world.order) == 20, "all")
        await asyncio.sleep(0)
