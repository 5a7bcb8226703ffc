"""What a deploy does to runs in flight."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from dataclasses import dataclass
from typing import Any

import pytest

from outlast import Context, ExpectedError, Outlast, RunFailed, VersionConflict
from outlast.core.states import RunStatus
from outlast.stores.memory import MemoryStore
from outlast.stores.store import WorkerRow

PATIENCE_S = 20


class Deploys:
    """Apps of several versions on one store."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._ahead = 0
        MemoryStore(url, lambda: time.time_ns() // 1000 + self._ahead)
        self.done: list[str] = []
        """What steps did, whoever ran them."""

    def pass_an_hour(self) -> None:
        """What slept is due for the next worker."""
        self._ahead += 3_600_000_000

    def app(self, body: Any, **settings: Any) -> Any:
        """An app whose workflow `fulfil` is this body; its steps are always the same."""
        app: Any = Outlast(self.url, **settings)

        @app.step(name="charge", retries=0)
        async def charge(order: str, amount: int = 1) -> str:
            self.done.append(f"charge {order} {amount}")
            return f"receipt {order} {amount}"

        @app.step(name="pack", retries=0)
        async def pack(item: str) -> str:
            self.done.append(f"pack {item}")
            return f"parcel {item}"

        app.workflow(name="fulfil")(body(charge, pack))
        return app


@pytest.fixture
def deploys(request: pytest.FixtureRequest) -> Deploys:
    return Deploys(f"memory://{request.node.name}")


async def until(condition: Any) -> Any:
    """What the condition gives, once it is something."""
    async with asyncio.timeout(PATIENCE_S):
        while not (value := await condition()):
            await asyncio.sleep(0.01)
    return value


async def park(deploys: Deploys, app: Any) -> None:
    """Start a run, work it until it sleeps, and let it be due."""
    async with app.worker():
        run = await app.start("fulfil", "a", id="r")

        async def sleeps() -> bool:
            return (await run.status()).waiting_on.startswith("sleep")

        await until(sleeps)
    deploys.pass_an_hour()


async def finish(app: Any) -> Any:
    """Work the run to its end."""
    async with app.worker():
        run = await app.get_run("r")
        return await run.result(timeout=PATIENCE_S)


async def suspended(app: Any) -> Any:
    """Its status, once it is suspended."""

    async def look() -> Any:
        info = await (await app.get_run("r")).status()
        return info if info.status is RunStatus.SUSPENDED else None

    return await until(look)


def one(charge: Any, pack: Any) -> Any:
    async def fulfil(ctx: Context, order: str) -> list[str]:
        receipt = await charge(order)
        await ctx.sleep("1h")
        return [receipt, await pack(order)]

    return fulfil


def later_changed(charge: Any, pack: Any) -> Any:
    async def fulfil(ctx: Context, order: str) -> list[str]:
        receipt = await charge(order)
        await ctx.sleep("1h")
        return [receipt, await pack(order), await pack("a second parcel")]

    return fulfil


def begun_otherwise(charge: Any, pack: Any) -> Any:
    async def fulfil(ctx: Context, order: str) -> list[str]:
        parcel = await pack(order)
        await ctx.sleep("1h")
        return [parcel]

    return fulfil


def unclosed(charge: Any, pack: Any) -> Any:
    async def fulfil(ctx: Context, order: str) -> list[str]:
        import math  # a plan has no imports

        receipt = await charge(order, math.floor(1.5))
        await ctx.sleep("1h")
        return [receipt]

    return fulfil


async def taken(app: Any) -> list[tuple[str | None, str]]:
    """Which versions a run went on with, and how."""
    timeline = await (await app.get_run("r")).timeline()
    return [(item.name, item.detail) for item in timeline if item.kind == "version"]


async def test_a_run_that_fits_goes_on_with_the_new_version(deploys: Deploys) -> None:
    """Its journal fits the new code: from there on it does what the new code says, and says so."""  # SPEC V3
    await park(deploys, deploys.app(one))
    new = deploys.app(later_changed)
    assert await finish(new) == ["receipt a 1", "parcel a", "parcel a second parcel"]
    async with new:
        assert await taken(new) == [(new.find_workflow("fulfil").version, "code")]
        info = await (await new.get_run("r")).status()
    assert info.version != new.find_workflow("fulfil").version, "a run keeps the version that it was started with"


async def test_a_run_that_does_not_fit_goes_on_from_its_stored_plan(deploys: Deploys) -> None:
    """It ends as its own version would have ended it, on workers that do not have that code any more."""  # SPEC V3
    old = deploys.app(one)
    await park(deploys, old)
    new = deploys.app(begun_otherwise)
    assert await finish(new) == ["receipt a 1", "parcel a"]
    assert deploys.done == ["charge a 1", "pack a"]
    async with new:
        assert await taken(new) == [(old.find_workflow("fulfil").version, "plan")]


async def test_a_stored_plan_survives_workers(deploys: Deploys) -> None:
    """Parked, taken over, replayed after each event: a run stays on its plan, and notes that once."""

    def twice(charge: Any, pack: Any) -> Any:
        async def fulfil(ctx: Context, order: str) -> list[str]:
            receipt = await charge(order)
            await ctx.sleep("1h")
            parcel = await pack(order)
            await ctx.sleep("1h")
            return [receipt, parcel, await pack("last")]

        return fulfil

    await park(deploys, deploys.app(twice))
    new = deploys.app(begun_otherwise)
    async with new.worker(max_hot=0):
        run = await new.get_run("r")
        await until(lambda: is_packed(run))
    deploys.pass_an_hour()
    async with new.worker(max_hot=0):
        run = await new.get_run("r")
        assert await run.result(timeout=PATIENCE_S) == ["receipt a 1", "parcel a", "parcel last"]
        assert len(await taken(new)) == 1


async def is_packed(run: Any) -> bool:
    info = await run.status()
    return len(info.steps) == 2 and info.waiting_on.startswith("sleep")


async def test_a_run_that_nothing_fits_is_suspended_with_both_sides(deploys: Deploys) -> None:
    """Where they part, side by side, and why its plan does not help; a worker of its version ends it."""  # SPEC V3
    old = deploys.app(unclosed)
    await park(deploys, old)
    new = deploys.app(begun_otherwise)
    async with new.worker():
        info = await suspended(new)
        timeline = await (await new.get_run("r")).timeline()
    assert info.waiting_on == "VERSION_CONFLICT"
    said = next(item.detail for item in timeline if item.kind == "suspended")
    assert "import math" in said
    assert "the journal (version" in said
    assert "step 'charge'" in said
    assert "step 'pack'" in said
    assert await finish(old) == ["receipt a 1"]
    assert deploys.done == ["charge a 1"]


async def test_another_deploy_may_fit_a_suspended_run(deploys: Deploys) -> None:
    """A third version that fits takes it: nobody has to resume it."""  # SPEC V4
    await park(deploys, deploys.app(unclosed))
    new = deploys.app(begun_otherwise)
    async with new.worker():
        await suspended(new)
    mended = deploys.app(one)
    assert await finish(mended) == ["receipt a 1", "parcel a"]


async def test_a_deploy_that_does_not_fit_looks_once(deploys: Deploys) -> None:
    """Restarted with the same code, it neither moves the run nor says the same again."""
    await park(deploys, deploys.app(unclosed))
    for _ in range(2):
        new = deploys.app(begun_otherwise)
        async with new.worker():
            await suspended(new)
    third = deploys.app(lambda charge, pack: begun_otherwise(pack, charge))
    async with third.worker():
        await suspended(third)
        timeline = await (await third.get_run("r")).timeline()
    assert [item.kind for item in timeline].count("suspended") == 1


async def test_without_a_stored_plan_the_version_is_not_found(deploys: Deploys) -> None:
    """Said with another code: whoever looks knows that no plan will help."""  # SPEC V3
    old = deploys.app(one)
    await park(deploys, old)
    new = deploys.app(begun_otherwise)
    old._store._tables.versions.clear()
    async with new.worker():
        assert (await suspended(new)).waiting_on == "VERSION_NOT_FOUND"


async def test_a_suspended_run_can_be_cancelled_by_any_deploy(deploys: Deploys) -> None:
    """It ends as cancelled, without its body."""  # SPEC X1
    await park(deploys, deploys.app(unclosed))
    new = deploys.app(begun_otherwise)
    async with new.worker():
        await suspended(new)
        run = await new.get_run("r")
        await run.cancel("enough")

        async def is_cancelled() -> bool:
            return (await run.status()).status is RunStatus.CANCELLED

        await until(is_cancelled)


async def test_an_option_makes_it_fail_instead(deploys: Deploys) -> None:
    """For those who would rather hear of it at once."""  # SPEC V3
    await park(deploys, deploys.app(unclosed))
    new = deploys.app(begun_otherwise, on_version_conflict="fail")
    async with new.worker():
        run = await new.get_run("r")
        with pytest.raises(RunFailed) as caught:
            await run.result(timeout=PATIENCE_S)
    assert isinstance(caught.value.error, VersionConflict)
    assert "import math" in str(caught.value.error)


async def test_a_run_is_left_to_a_live_worker_of_its_version(deploys: Deploys) -> None:
    """While workers of both versions are up, each run ends on the one that fits; nothing is suspended."""  # SPEC V4
    old, new = deploys.app(unclosed), deploys.app(begun_otherwise)
    await park(deploys, old)
    async with old.worker(), new.worker():
        run = await new.get_run("r")
        assert await run.result(timeout=PATIENCE_S) == ["receipt a 1"]
        timeline = await run.timeline()
    assert not [item for item in timeline if item.kind in {"suspended", "version"}]


async def test_what_was_left_to_a_worker_that_went_is_taken_back(deploys: Deploys, monkeypatch: Any) -> None:
    """The last worker of the old version leaves before it took the run: then its stored plan has to do."""  # SPEC V4
    monkeypatch.setattr("outlast.engine.sweeper.CARE_EVERY", 2)
    old, new = deploys.app(one), deploys.app(begun_otherwise)
    await park(deploys, old)
    async with new.worker() as worker:
        version = old.find_workflow("fulfil").version
        worker.home.peers = [*worker.home.peers, _peer(version)]
        worker.home.deploy = new._engine.deploy
        run = await new.get_run("r")
        assert await run.result(timeout=PATIENCE_S) == ["receipt a 1", "parcel a"]


def _peer(version: str, *queues: str) -> Any:
    served = (f"fulfil#{version}",)
    return WorkerRow("gone", "host", 1, queues or ("default",), ("fulfil",), deploy="other", versions=served)


async def test_what_was_left_before_all_went_is_taken_back(deploys: Deploys) -> None:
    """All workers of both versions are gone; of those that come back the first looks again."""  # SPEC V4
    old, new = deploys.app(one), deploys.app(begun_otherwise)
    await park(deploys, old)
    async with new:
        await new._store.register(_peer(old.find_workflow("fulfil").version), 60_000_000)
    async with new.worker():
        await until(lambda: is_left(new))
    async with new:
        await new._store.retire("gone")
    assert await finish(new) == ["receipt a 1", "parcel a"]


async def is_left(app: Any) -> bool:
    return bool(app._store._tables.runs[(await app.get_run("r")).uid].unfit)


async def test_a_run_is_left_to_nobody_who_does_not_serve_its_queue(deploys: Deploys) -> None:
    """A worker of its version that serves other queues would never come for it."""  # SPEC V4
    old, new = deploys.app(one), deploys.app(begun_otherwise)
    await park(deploys, old)
    async with new:
        await new._store.register(_peer(old.find_workflow("fulfil").version, "night"), 60_000_000)
    assert await finish(new) == ["receipt a 1", "parcel a"]


async def test_a_plan_that_cannot_go_on_asks_for_nothing_more(deploys: Deploys) -> None:
    """It comes to a method that it must not call: no `finally`, its own or a task's, runs a step on the way out."""

    def touching(charge: Any, pack: Any) -> Any:
        async def beside(ctx: Context) -> None:
            try:
                await ctx.sleep("3h")
            finally:
                await pack("beside")

        async def fulfil(ctx: Context, order: str) -> str:
            try:
                async with asyncio.TaskGroup() as group:
                    task = group.create_task(beside(ctx))
                    await charge(order)
                    await ctx.sleep("1h")
                    told = order.format()  # looks into what it is given: no program may
                    task.cancel()
                return told
            finally:
                await pack("what is left")

        return fulfil

    old, new = deploys.app(touching), deploys.app(begun_otherwise)
    await park(deploys, old)
    assert "the method 'format'" in await told_in_conflict(new)
    assert deploys.done == ["charge a 1"]
    assert await finish(old) == "a"
    assert deploys.done == ["charge a 1", "pack beside", "pack what is left"]


async def told_in_conflict(app: Any) -> str:
    """Work the run until it is suspended; what that says."""
    async with app.worker():
        assert (await suspended(app)).waiting_on == "VERSION_CONFLICT"
        timeline = await (await app.get_run("r")).timeline()
    told: list[str] = [item.detail for item in timeline if item.kind == "suspended"]
    return told[-1]


async def test_a_plan_that_cannot_go_on_fails_where_the_app_says_so(deploys: Deploys) -> None:
    """With the reason; what it did stays done."""  # SPEC V3

    def touching(charge: Any, pack: Any) -> Any:
        async def fulfil(ctx: Context, order: str) -> str:
            await charge(order)
            await ctx.sleep("1h")
            return order.format()

        return fulfil

    await park(deploys, deploys.app(touching))
    with pytest.raises(RunFailed, match="the method 'format'") as caught:
        await finish(deploys.app(begun_otherwise, on_version_conflict="fail"))
    assert isinstance(caught.value.error, VersionConflict)


async def test_a_plan_whose_calls_are_too_deep_does_not_fail(deploys: Deploys) -> None:
    """Walking a program takes more of the stack than running its source: it is set aside, as what cannot be done."""

    def deep(charge: Any, pack: Any) -> Any:
        def depth(n: int) -> int:
            return 0 if n == 0 else 1 + depth(n - 1)

        async def fulfil(ctx: Context, order: str) -> list[int]:
            await charge(order)
            await ctx.sleep("1h")
            return [depth(5), depth(400)]

        return fulfil

    old = deploys.app(deep)
    await park(deploys, old)
    assert "calls that are too deep" in await told_in_conflict(deploys.app(begun_otherwise))
    assert await finish(old) == [5, 400]


@pytest.mark.parametrize("undo", [False, True])
async def test_closures_that_run_as_steps_have_no_place_in_a_plan(deploys: Deploys, undo: bool) -> None:
    """What such a closure is for is nothing that a plan can do."""

    def closures(charge: Any, pack: Any) -> Any:
        async def fulfil(ctx: Context, order: str) -> str:
            return await ctx.do("tell", lambda: order)

        async def undone(ctx: Context, order: str) -> None:
            ctx.compensate(lambda: order)

        return undone if undo else fulfil

    workflow = deploys.app(closures).find_workflow("fulfil")
    assert not workflow.definition_json()
    assert "ctx" in workflow.plan.unclosed


async def test_a_plan_gives_the_engine_no_functions(deploys: Deploys) -> None:
    """Such as a backoff: the engine calls it where a body's errors have no place."""

    def tuned(charge: Any, pack: Any) -> Any:
        async def fulfil(ctx: Context, order: str) -> str:
            await charge(order)
            await ctx.sleep("1h")
            return await pack.options(backoff=lambda attempt, error: order.format())(order)

        return fulfil

    await park(deploys, deploys.app(tuned))
    assert "a function as the option 'backoff'" in await told_in_conflict(deploys.app(begun_otherwise))


@dataclass
class Order:
    name: str
    since: dt.date = dt.date(2026, 7, 1)


def typed(charge: Any, pack: Any) -> Any:
    async def fulfil(ctx: Context, order: Order, extra: list[str]) -> list[str]:
        receipt = await charge(order.name, order.since.year)
        await ctx.sleep("1h")
        return [receipt, *extra, order.since.isoformat()]

    return fulfil


async def park_typed(deploys: Deploys) -> Any:
    app = deploys.app(typed)
    async with app.worker():
        run = await app.start("fulfil", Order("a"), ["b"], id="r")
        await until(lambda: sleeps(run))
    deploys.pass_an_hour()
    return app


async def sleeps(run: Any) -> bool:
    return (await run.status()).waiting_on.startswith("sleep")


async def test_a_plan_gets_its_input_as_its_version_did(deploys: Deploys) -> None:
    """By the types that the code has under the same names; what is plain JSON is what it was."""  # SPEC V3

    def fewer(charge: Any, pack: Any) -> Any:
        async def fulfil(ctx: Context, order: Order) -> list[str]:
            return [await pack(order.name)]

        return fulfil

    await park_typed(deploys)
    assert await finish(deploys.app(fewer)) == ["receipt a 2026", "b", "2026-07-01"]


async def test_a_plan_whose_types_are_gone_does_not_guess(deploys: Deploys) -> None:
    """The run is set aside with the parameter and its type, and ends when its version is back."""  # SPEC V3
    old = await park_typed(deploys)
    assert "the input 'order', which is no Order to the code at hand" in await told_in_conflict(
        deploys.app(begun_otherwise)
    )
    assert await finish(old) == ["receipt a 2026", "b", "2026-07-01"]


class Refused(ExpectedError):
    pass


async def test_a_stored_plan_is_undone_like_any_run(deploys: Deploys) -> None:
    """A run that goes on from its plan and fails fails as its source would have."""

    def failing(charge: Any, pack: Any) -> Any:
        async def fulfil(ctx: Context, order: str) -> None:
            await charge(order)
            await ctx.sleep("1h")
            raise Refused(f"no {order}")

        return fulfil

    await park(deploys, deploys.app(failing))
    new = deploys.app(begun_otherwise)
    with pytest.raises(RunFailed) as caught:
        await finish(new)
    assert isinstance(caught.value.error, Refused)
    assert str(caught.value.error) == "no a"
