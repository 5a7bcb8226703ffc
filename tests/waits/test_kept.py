"""What people sent outlives the failure of a run that had not read it: a retry has it, once, in order (W3, R10)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from outlast import ApprovalResolved, Context, Outlast, Run, RunEnded, User
from outlast.core.events import CancelRequested, DecisionMade, GateOpened, RunResumed, SignalReceived
from outlast.core.keys import child_uid
from outlast.engine.messages.waits import RESUME_MESSAGE
from outlast.stores.store import Progress
from tests.homes import everywhere
from tests.waits.place import Decision, Place, journal_of, parked, same_as_row, until, waits_on

BOB, EVE = User("bob"), User("eve")
YES = {"ok": True}
MANY = 520
"""More than a page of an inbox."""


class Leg:
    """What a body needs, and is broken at first."""

    is_mended = False


@pytest.fixture
def leg() -> Leg:
    """Of the test's own."""
    return Leg()


def declare(app: Outlast, leg: Leg) -> Outlast:
    """Bodies that fail when they are told to go, as long as the leg is broken."""

    @app.workflow(name="goes")
    async def goes(ctx: Context, times: int) -> list[Any]:
        """And then takes so many signals, and a decision."""
        await ctx.wait_for("go")
        if not leg.is_mended:
            raise RuntimeError("the leg is broken")
        found = [await ctx.wait_for("paid", int) for _ in range(times)]
        return [*found, (await ctx.approval("ship it?", Decision)).by.id]

    @app.workflow(name="goes beside a gate")
    async def goes_beside(ctx: Context) -> str:
        async def go() -> None:
            await ctx.wait_for("go")
            if not leg.is_mended:
                raise RuntimeError("the leg is broken")

        await asyncio.gather(ctx.suspend("look"), go())
        return "looked"

    declare_families(app, leg)
    return app


def declare_families(app: Outlast, leg: Leg) -> None:
    """Parents of such."""

    @app.step(name="leap", retries=0)
    async def leap() -> None:
        if not leg.is_mended:
            raise RuntimeError("the leg is broken")

    @app.workflow(name="counts")
    async def counts(ctx: Context, times: int) -> list[int]:
        await ctx.wait_for("go")
        if not leg.is_mended:
            raise RuntimeError("the leg is broken")
        return [await ctx.wait_for("paid", int) for _ in range(times)]

    @app.workflow(name="parent of")
    async def parent_of(ctx: Context, times: int) -> list[int]:
        return await counts(times)

    @app.workflow(name="parent beside")
    async def parent_beside(ctx: Context) -> int:
        """Fails itself, and its child is cancelled with it."""
        child = asyncio.ensure_future(one())
        await ctx.wait_for("go")
        await leap()
        return await child

    @app.workflow(name="parent elsewhere")
    async def parent_elsewhere(ctx: Context) -> int:
        return await one.options(queue="elsewhere", timeout=5)()

    @app.workflow(name="one")
    async def one(ctx: Context) -> int:
        return await ctx.wait_for("paid", int)


async def has_failed(run: Run[Any]) -> None:
    """Wait until it has."""

    async def look() -> bool:
        return (await run.status()).status == "failed"

    await until(look, "its failure")


async def asks_for(run: Run[Any], *names: str) -> None:
    """Wait until it waits for just these."""

    async def look() -> bool:
        return {wait.name for wait in (await run.status()).waits} == {*names}

    await until(look, "its waits")


async def child_of(app: Outlast, run: Run[Any], key: str) -> Run[Any]:
    """Its child, once it is there."""

    async def is_there() -> bool:
        return await app._here("a test").store.find_uid(child_uid(run.uid, key)) is not None

    await until(is_there, "its child")
    return await app.get_run(child_uid(run.uid, key))


class Crossing:
    """Has something done right before a commit is given to the store: it is thought through, and has not landed."""

    def __init__(self, app: Outlast, fits: Callable[[Progress], bool], do: Callable[[], Awaitable[None]]) -> None:
        store: Any = app._store
        self.has_crossed = False
        commit = store.commit

        async def crossed(worker: Any, batch: Any) -> Any:
            if not self.has_crossed and any(fits(progress) for progress in batch):
                self.has_crossed = True
                await do()
            return await commit(worker, batch)

        store.commit = crossed


def is_end(uid: str) -> Callable[[Progress], bool]:
    """The entry that ends this run."""
    return lambda each: bool(each.uid == uid and each.effects and each.effects.row and each.effects.row.ended)


async def events_of(app: Outlast, run: Run[Any], kind: type) -> list[Any]:
    """Those of this kind that are on record."""
    return [event for event in await journal_of(app, run) if isinstance(event, kind)]


@everywhere
async def test_what_came_with_what_made_a_run_fail_is_there_when_it_is_retried(place: Place, leg: Leg) -> None:
    """Signals and a decision, read in one page with the signal that the body fails at: fed neither then nor lost."""
    asks, works = declare(place.make_app(), leg), declare(place.make_app(), leg)
    async with asks:
        run = await asks.start("goes", 2)
        await run.signal("go")
        await run.signal("paid", 7, key="evt_7")
        with pytest.raises(TimeoutError, match="not judged within"):
            await run.approve("ship it?", YES, by=BOB, key="b", timeout=0.01)
        await run.signal("paid", 8)
        async with works.worker():
            await has_failed(run)
            assert await events_of(asks, run, DecisionMade) == []
            with pytest.raises(RunEnded):
                await run.signal("paid", 9)
            await run.signal("paid", 7, key="evt_7")  # it is stored, and whoever asks again is told so
            leg.is_mended = True
            await run.retry()
            assert await run.result(timeout=10) == [7, 8, "bob"]
        heard = await events_of(asks, run, SignalReceived)
        assert [bytes(event.payload) for event in heard] == [b"null", b"7", b"8"]


@everywhere
async def test_what_is_sent_while_the_end_is_on_its_way_is_there_when_the_run_is_retried(
    place: Place, leg: Leg
) -> None:
    """The run has thought of its end, and the store has not: who sends now is told that it is stored, and so it is."""
    asks, works = declare(place.make_app(), leg), declare(place.make_app(), leg)
    async with asks:
        run = await asks.start("goes", 2)

        async def send() -> None:
            await run.signal("paid", 1)
            await run.signal("paid", 2)

        crossing = Crossing(works, is_end(run.uid), send)
        async with works.worker():
            await waits_on(run, "signal go")
            await run.signal("go")
            await has_failed(run)
            assert crossing.has_crossed
            leg.is_mended = True
            await run.retry()
            await waits_on(run, "approval ship it?")
            await run.approve("ship it?", YES, by=BOB)
            assert await run.result(timeout=10) == [1, 2, "bob"]


@everywhere
async def test_an_opened_gate_stays_open_through_a_failure(place: Place, leg: Leg) -> None:
    """Somebody resumed it, and the run failed before it heard: it is not asked for again."""
    asks, works = declare(place.make_app(), leg), declare(place.make_app(), leg)
    async with asks:
        async with works.worker():
            run = await asks.start("goes beside a gate")
            await asks_for(run, "look", "go")
        await run.signal("go")
        await run.resume("look")
        async with declare(place.make_app(), leg).worker():
            await has_failed(run)
            assert await events_of(asks, run, GateOpened) == []
            leg.is_mended = True
            await run.retry()
            assert await run.result(timeout=10) == "looked"


async def test_a_call_to_lift_a_suspension_that_was_over_lifts_nothing_later(memory_place: Place, leg: Leg) -> None:
    """It was unread when the run failed, and is noted when that is retried; a gate that it comes to then stays shut."""
    asks, works = declare(memory_place.make_app(), leg), declare(memory_place.make_app(), leg)
    async with asks:
        run = await asks.start("goes beside a gate")
        await run.signal("go")

        async def send() -> None:
            await asks._here("a test").send(run.uid, RESUME_MESSAGE, b"{}")

        Crossing(works, is_end(run.uid), send)
        async with works.worker():
            await has_failed(run)
            assert await events_of(asks, run, RunResumed) == []
            leg.is_mended = True
            await run.retry()
            await asks_for(run, "look")
            await parked(asks, run)
            assert len(await events_of(asks, run, RunResumed)) == 1
            await same_as_row(asks, run)
            await run.resume("look")
            assert await run.result(timeout=10) == "looked"


@everywhere
async def test_who_decides_is_told_that_it_counts_if_the_run_is_retried(place: Place, leg: Leg) -> None:
    """Not that it is settled: it is kept. Who comes when the run has failed is refused, and not heard afterwards."""
    asks, works = declare(place.make_app(), leg), declare(place.make_app(), leg)
    async with asks:
        run = await asks.start("goes", 0)
        told: list[asyncio.Task[Any]] = []

        async def send() -> None:
            told.append(asyncio.create_task(run.approve("ship it?", YES, by=BOB, key="b")))
            await asyncio.sleep(0.1)

        Crossing(works, is_end(run.uid), send)
        async with works.worker():
            await waits_on(run, "signal go")
            await run.signal("go")
            await has_failed(run)
            with pytest.raises(TimeoutError, match="has failed"):
                await told[0]
            with pytest.raises(TimeoutError, match="has failed"):
                await run.approve("ship it?", YES, by=BOB, key="b")
            with pytest.raises(ApprovalResolved, match="the run has ended"):
                await run.approve("ship it?", YES, by=EVE)
            leg.is_mended = True
            await run.retry()
            assert (await run.approve("ship it?", YES, by=BOB, key="b")).by.id == "bob"
            assert await run.result(timeout=10) == ["bob"]
        assert len(await events_of(asks, run, DecisionMade)) == 1


@everywhere
async def test_a_child_that_failed_with_much_unread_has_all_of_it_with_a_retry_of_its_parent(
    place: Place, leg: Leg
) -> None:
    """The call to go on is behind more than a page of signals, and these come in their order."""
    asks, works = declare(place.make_app(), leg), declare(place.make_app(), leg)
    async with asks:
        async with works.worker():
            run = await asks.start("parent of", MANY)
            child = await child_of(asks, run, "counts")
            await waits_on(child, "signal go")
        await child.signal("go")
        for number in range(MANY):
            await child.signal("paid", number)
        async with declare(place.make_app(), leg).worker():
            await has_failed(run)
            assert (await child.status()).status == "failed"
            leg.is_mended = True
            await run.retry()
            assert await run.result(timeout=30) == list(range(MANY))


@everywhere
async def test_a_child_that_was_cancelled_with_its_parent_has_what_it_had_not_read(place: Place, leg: Leg) -> None:
    """It was sent behind the cancel, before the child knew of that; a retry of the parent revives the child."""
    asks, works = declare(place.make_app(), leg), declare(place.make_app(), leg)
    async with asks:
        run = await asks.start("parent beside")
        child_id = child_uid(run.uid, "one")

        async def send() -> None:
            await (await asks.get_run(child_id)).signal("paid", 5)

        crossing = Crossing(works, is_end(child_id), send)
        async with works.worker():
            await asks_for(run, "go")
            await asks_for(await child_of(asks, run, "one"), "paid")
            await run.signal("go")
            await has_failed(run)
            child = await asks.get_run(child_id)
            assert ((await child.status()).status, crossing.has_crossed) == ("cancelled", True)
            assert await events_of(asks, child, SignalReceived) == []
            assert len(await events_of(asks, child, CancelRequested)) == 1
            leg.is_mended = True
            await run.retry()
            assert await run.result(timeout=10) == 5


@everywhere
async def test_a_child_that_was_too_late_to_begin_has_what_it_was_sent(place: Place, leg: Leg) -> None:
    """Its deadline passed before anybody worked it, and its body never began; retried with its parent, it begins."""
    asks, works = declare(place.make_app(), leg), declare(place.make_app(), leg)
    async with asks:
        async with works.worker():
            run = await asks.start("parent elsewhere")
            child = await child_of(asks, run, "one")
        await child.signal("paid", 6)
        place.pass_time(10)
        async with declare(place.make_app(), leg).worker(queues=("default", "elsewhere")):
            await has_failed(run)
            assert (await child.status()).status == "cancelled"
            await run.retry()
            assert await run.result(timeout=10) == 6


@everywhere
async def test_what_was_kept_goes_when_the_run_ends_for_good(place: Place, leg: Leg) -> None:
    """A retried run that completes without it leaves nothing to anybody."""
    asks, works = declare(place.make_app(), leg), declare(place.make_app(), leg)
    async with asks:
        run = await asks.start("counts", 0)
        await run.signal("go")
        await run.signal("paid", 1)
        async with works.worker():
            await has_failed(run)
            leg.is_mended = True
            await run.retry()
            assert await run.result(timeout=10) == []
        assert (await asks._store.read_inbox(run.uid)).messages == ()
        with pytest.raises(RunEnded):
            await run.signal("paid", 1)
