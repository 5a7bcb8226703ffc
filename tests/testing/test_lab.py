"""A lab: workflows that take a month, in no time (SPEC K1)."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from outlast import Context, Decided, Outlast, RunFailed, User
from outlast.testing import Faults, Lab, Ledger, StandsStill, running

ANN = User("ann")


def make_app() -> Outlast:
    """A trial of thirty days: a mail that fails twice, a gift that somebody must approve, a bill."""
    app = Outlast("sqlite:///never-made.db")
    failures = iter([True, True])

    @app.step(name="mail", retries=3, backoff="1h")
    async def mail(text: str) -> str:
        if next(failures, False):
            raise ConnectionError("no answer")
        return text

    @app.step(name="bill")
    def bill(name: str) -> str:
        return f"billed {name}"

    @app.workflow(name="trial")
    async def trial(ctx: Context, name: str) -> list[Any]:
        greeting = await mail(f"hello {name}")
        await ctx.sleep("29d")
        gift = await ctx.approval("gift", bool, expires="12h")
        await ctx.sleep("12h")
        return [greeting, gift.value if isinstance(gift, Decided) else None, await bill(name)]

    @app.workflow(name="nap")
    async def nap(ctx: Context, days: int) -> int:
        for _ in range(days):
            await ctx.sleep("1d")
        return days

    @app.workflow(name="fails")
    async def fails(ctx: Context) -> None:
        await ctx.sleep("1d")
        raise ValueError("as it is meant to")

    return app


async def _trial(lab: Lab) -> list[Any]:
    run: Any = await lab.app.start("trial", "eve")
    assert await lab.until_waiting(run)
    await run.approve("gift", True, by=ANN)
    result: list[Any] = await lab.result(run)
    return result


async def test_a_month_with_sleeps_retries_and_an_approval_takes_no_time() -> None:
    """Thirty days, three attempts and an approval are over in under a tenth of a second."""  # SPEC K1
    took = []
    for _ in range(5):
        async with running(make_app()) as lab:
            began, before = time.process_time(), lab.now
            assert await _trial(lab) == ["hello eve", True, "billed eve"]
            took.append(time.process_time() - began)
            assert timedelta(days=29, hours=13) < lab.now - before < timedelta(days=30)
            assert lab.ledger.keys() == ["mail", "mail", "mail", "bill"]
    assert min(took) < 0.1


async def test_what_waits_for_somebody_stands_still() -> None:
    """Time alone does not answer: a run that waits for a signal for ever is named, with what it waits for."""
    app = make_app()

    @app.workflow(name="waits")
    async def waits(ctx: Context) -> object:
        return await ctx.wait_for("paid")

    async with running(app) as lab:
        run = await lab.app.start(waits)
        with pytest.raises(StandsStill, match="paid") as caught:
            await lab.result(run)
        assert caught.value.run_id == run.id
        await run.signal("paid", 5)
        assert await lab.result(run) == 5


async def test_time_passes_as_it_is_told() -> None:
    """What is due within the time happens, each at its time, and what is due later does not."""
    async with running(make_app()) as lab:
        run: Any = await lab.app.start("nap", 10)
        await lab.pass_time("9d12h")
        info = await run.status()
        assert info.finished_at is None
        before = lab.now
        await lab.pass_time("12h")
        info = await run.status()
        assert info.finished_at is not None
        assert info.output == 10
        assert before < info.finished_at < lab.now + timedelta(seconds=1)
        with pytest.raises(TimeoutError, match="5d"):
            await lab.result(await lab.app.start("nap", 6), within="5d")


async def test_an_approval_does_not_expire_before_the_test_answers() -> None:
    """Between two calls of the lab no time is skipped; skipped past its expiry, an approval expires."""
    async with running(make_app()) as lab:
        run: Any = await lab.app.start("trial", "eve")
        await lab.until_waiting(run)
        await lab.settle()
        assert (await run.status()).waits
        assert await lab.result(run) == ["hello eve", None, "billed eve"]


async def test_a_failure_is_raised_as_ever() -> None:
    """A lab changes nothing of how a run ends."""
    async with running(make_app()) as lab:
        with pytest.raises(RunFailed) as caught:
            await lab.run("fails")
        assert isinstance(caught.value.__cause__, ValueError)


async def test_labs_know_nothing_of_each_other() -> None:
    """Two labs of one app have a store each, and the app's own store is not made (SPEC K1: no global state)."""
    app = make_app()
    async with running(app) as one, running(app) as other:
        run = await one.app.start("nap", 1, id="same")
        twin = await other.app.start("nap", 2, id="same")
        assert (await one.result(run), await other.result(twin)) == (1, 2)


async def test_the_fixtures_count_effects(outlast_lab: Any, outlast_ledger: Ledger) -> None:
    """The plugin's lab notes every attempt in the plugin's ledger, with its invocation id."""
    async with outlast_lab(make_app()) as lab:
        await _trial(lab)
    first, *others, bill = outlast_ledger.effects
    assert [effect.attempt for effect in (first, *others, bill)] == [1, 2, 3, 1]
    assert {first.invocation_id} == {effect.invocation_id for effect in others} != {bill.invocation_id}
    twice = Ledger()
    twice.effects += [first, first]
    with pytest.raises(AssertionError, match="carried out 2 times"):
        twice.check()


@pytest.mark.parametrize("seed", range(5))
async def test_a_store_with_its_bad_days_changes_nothing_of_what_a_workflow_does(seed: int) -> None:
    """Calls fail, and some of those have landed; the run ends as ever, and no attempt is carried out twice."""
    faults = Faults(seed, lost=0.15, untold=0.15, full=0.1, slow_s=0.005)
    async with running(make_app(), faults=faults) as lab:
        assert await lab.run("nap", 3) == 3
        with pytest.raises(RunFailed):
            await lab.run("fails")
        lab.ledger.check()
    assert faults.met["lost"] > 0
    assert faults.met["untold"] > 0


def test_the_same_seed_gives_the_same_faults() -> None:
    """A test that failed can be made to fail again; another seed gives others."""

    def draw(seed: int) -> list[object]:
        faults = Faults(seed, lost=0.5)
        return [(faults.strikes("lost"), faults.delay_s(), faults.hint_delays()) for _ in range(50)]

    assert draw(1) == draw(1) != draw(2)
