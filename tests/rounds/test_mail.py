"""What comes from outside while a run goes on as a next round: nothing is lost, and nothing heard twice (F30)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from outlast import (
    Context,
    Outlast,
    RunCancelled,
    RunEnded,
    RunFailed,
    User,
)
from outlast.engine import hotruns, loading, sweeper
from outlast.engine.messages import rounds
from outlast.errors import StoreUnavailable
from outlast.run.approval import Attempt
from outlast.stores.store import Inbox
from tests.rounds.bodies import PATIENCE_S, declare_reading


@pytest.mark.parametrize("parks", [False, True])
async def test_no_signal_is_lost_between_rounds(any_app: Outlast, monkeypatch, parks):
    """Sent all at once to the first round's handle, one after the other, or while the run goes on: each round takes
    one, and all are taken, in order."""
    app = any_app
    if parks:
        monkeypatch.setattr(hotruns, "PARK_AFTER_US", 0)
    declare_reading(app)
    async with app.worker():
        run = await app.start("reading", 12, id="r")
        for number in range(5):
            await run.signal("number", number)
        await asyncio.sleep(0.02)
        for number in range(5, 8):
            await run.signal("number", number)
            await asyncio.sleep(0.002)
        for number in range(8, 12):
            await (await app.get_run("r")).signal("number", number)
        assert await run.result(timeout=PATIENCE_S) == list(range(12))


async def test_a_signal_with_a_key_counts_once_in_all_rounds(any_app: Outlast):
    """Whoever sends it again, to whichever round, is told that it is there; and it is not heard again."""
    app = any_app
    declare_reading(app)
    async with app.worker():
        run = await app.start("reading", 3, id="r")
        for number in (1, 2):
            await run.signal("number", number, key=f"k{number}")
            async with asyncio.timeout(PATIENCE_S):
                while len((await (await app.get_run("r")).status()).input["seen"] or []) < number:
                    await asyncio.sleep(0.005)
            for _ in range(2):
                await run.signal("number", -1, key="k1")
                await (await app.get_run("r")).signal("number", -1, key="k1")
        await run.signal("number", 3)
        assert await run.result(timeout=PATIENCE_S) == [1, 2, 3]


async def test_what_came_behind_a_timer_that_ends_the_round_is_the_next_ones(any_app: Outlast):
    """Nobody was at work when the timer was due and when the messages came: they are read before it fires, and it comes
    first."""
    app = any_app

    @app.workflow(name="napping")
    async def napping(ctx: Context, is_second: bool = False) -> list[object]:
        if not is_second:
            await ctx.sleep("200ms")
            await ctx.continue_as_new(True)
        answer = await ctx.approval("ship it?", bool)
        return [await ctx.wait_for("number", int), await ctx.wait_for("number", int), answer.by.id]

    async with app:
        async with app.worker():
            run = await app.start(napping)
            async with asyncio.timeout(PATIENCE_S):
                while not any(item.kind == "sleeping" for item in await run.timeline()):
                    await asyncio.sleep(0.005)
        await asyncio.sleep(0.25)
        await run.signal("number", 1)
        with pytest.raises(TimeoutError):
            await run.approve("ship it?", True, by=User("bob"), timeout=0)
        await run.signal("number", 2)
        async with app.worker():
            assert await run.result(timeout=PATIENCE_S) == [1, 2, "bob"]


async def test_signals_that_one_round_did_not_take_are_the_next_ones(app: Outlast):
    """Read and recorded in one round, without anybody who waits for them: the next finds them at once, in order."""

    @app.workflow(name="late")
    async def late(ctx: Context, is_second: bool = False) -> list[object]:
        if not is_second:
            await ctx.wait_for("go")
            await ctx.continue_as_new(True)
        answer = await ctx.approval("ship it?", bool)
        return [await ctx.wait_for("a"), await ctx.wait_for("b"), await ctx.wait_for("a"), answer.by.id]

    async with app.worker():
        run = await app.start(late)
        await run.signal("a", 1)
        await run.signal("b", 2)
        await run.signal("a", 3)
        deciding = asyncio.create_task(run.approve("ship it?", True, by=User("bob"), timeout=PATIENCE_S))
        async with asyncio.timeout(PATIENCE_S):
            while sum(item.kind in {"signalled", "decided"} for item in await run.timeline()) < 4:
                await asyncio.sleep(0.005)
        await run.signal("go")
        assert await run.result(timeout=PATIENCE_S) == [1, 2, 3, "bob"]
        assert (await deciding).by == User("bob"), "who decided in the first round hears of the second's judgement"


async def test_a_gate_and_an_approval_of_a_later_round_are_found_by_the_first_handle(app: Outlast):
    """`resume`, `approve` and `cancel` are about the run as it stands."""

    @app.workflow(name="gated")
    async def gated(ctx: Context, n: int = 0) -> str:
        if n < 2:
            await ctx.continue_as_new(n + 1)
        await ctx.suspend("look")
        answer = await ctx.approval("ship it?", bool)
        await ctx.wait_for("never")
        return answer.by.id

    async with app.worker():
        run = await app.start(gated, id="g")
        async with asyncio.timeout(PATIENCE_S):
            while (await (await app.get_run("g")).status()).status != "suspended":
                await asyncio.sleep(0.005)
        await run.resume("look")
        assert (await run.approve("ship it?", True, by=User("bob"), timeout=PATIENCE_S)).by == User("bob")
        assert await run.cancel("enough")
        with pytest.raises(RunCancelled, match="enough"):
            await run.result(timeout=PATIENCE_S)
        assert not await run.cancel("again")


async def test_a_cancel_is_not_lost_between_rounds(app: Outlast):
    """One that is read when the round's end is decided already, and clean-up goes on, ends the next round; told that it
    was taken, it takes effect."""

    @app.step(name="tidy")
    async def tidy() -> None:
        await asyncio.sleep(0.05)

    @app.workflow(name="tidies")
    async def tidies(ctx: Context, n: int = 0) -> None:
        async def other() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await tidy()

        task = asyncio.create_task(other())
        await asyncio.sleep(0)
        assert not task.done()
        await ctx.continue_as_new(n + 1)

    async with app.worker():
        for number in range(5):
            run = await app.start(tidies, id=f"t{number}")
            await asyncio.sleep(0.013 * number)
            assert await run.cancel(f"enough {number}")
            with pytest.raises(RunCancelled, match=f"enough {number}"):
                await run.result(timeout=PATIENCE_S)


async def test_a_round_that_was_cancelled_before_it_started_does_not_begin_though_its_load_fails_first(
    memory_app: Outlast, monkeypatch
):
    """Whoever owned it before had not begun it for that. Found by seed 20261210/19685r of the simulation."""
    app = memory_app
    monkeypatch.setattr(loading, "RETRY_AFTER_US", 1000)
    may_end, begun, failures = asyncio.Event(), [], [StoreUnavailable(app.url, "the line is cut")]

    @app.step(name="wait")
    async def wait() -> None:
        await may_end.wait()

    @app.workflow(name="goes on")
    async def goes_on(ctx: Context, n: int = 0) -> None:
        begun.append(n)
        await wait() if n == 0 else None
        await ctx.continue_as_new(n + 1)

    async with app.worker():
        run = await app.start(goes_on, id="g")
        store, first = app._store, run.uid
        read_inbox = store.read_inbox

        async def read(uid: str, **options: Any) -> Inbox:
            if uid == first:
                return Inbox(0, ())  # it is not heard of before the round has ended
            if failures:
                raise failures.pop()
            return await read_inbox(uid, **options)

        monkeypatch.setattr(store, "read_inbox", read)
        assert await run.cancel("enough")
        may_end.set()
        with pytest.raises(RunCancelled, match="enough"):
            await run.result(timeout=PATIENCE_S)
    assert not failures
    assert begun == [0]


async def test_a_later_round_cleans_up_though_no_command_says_that_it_began(memory_app: Outlast, monkeypatch):
    """A body at rest in `asyncio.sleep` was parked; the cancel that wakes it reaches it where it waits."""
    app = memory_app
    monkeypatch.setattr(sweeper, "PARK_AFTER_US", 0)
    said: list[int] = []

    @app.step(name="tidy")
    async def tidy(n: int) -> None:
        said.append(n)

    @app.workflow(name="tidies")
    async def tidies(ctx: Context, n: int = 0) -> None:
        if n == 0:
            await ctx.continue_as_new(1)
        try:
            await asyncio.sleep(3600)
        finally:
            await tidy(n)

    async with app.worker():
        run = await app.start(tidies, id="t")
        async with asyncio.timeout(PATIENCE_S):
            while not await _is_parked(app, "t", run.uid):
                await asyncio.sleep(0.01)
        assert await run.cancel("enough")
        with pytest.raises(RunCancelled):
            await run.result(timeout=PATIENCE_S)
    assert said == [1]


async def _is_parked(app: Outlast, id: str, before: str) -> bool:
    row = await app._store.find_run(id)
    return row is not None and row.uid != before and row.owner is None and row.epoch > 0


async def test_a_decision_with_a_key_is_answered_by_a_later_round_too(memory_app: Outlast):
    """Who asks again, after the run went on, hears what the round before judged."""

    @memory_app.workflow(name="asks")
    async def asks(ctx: Context, n: int = 0) -> str:
        answer = await ctx.approval("ship it?", bool)
        if n < 2:
            await ctx.continue_as_new(n + 1)
        return answer.by.id

    async with memory_app.worker():
        run = await memory_app.start(asks, id="a")
        bob = User("bob")
        first = await run.approve("ship it?", True, by=bob, key="k0", timeout=PATIENCE_S)
        for n in (1, 2):
            async with asyncio.timeout(PATIENCE_S):
                while (await (await memory_app.get_run("a")).status()).input["n"] < n:
                    await asyncio.sleep(0.005)
            assert await run.approve("ship it?", True, by=bob, key="k0", timeout=PATIENCE_S) == first
            await run.approve("ship it?", True, by=bob, key=f"k{n}", timeout=PATIENCE_S)
        assert await run.result(timeout=PATIENCE_S) == "bob"


async def test_a_decision_that_a_later_round_gets_is_judged_there(app: Outlast, monkeypatch):
    """The round that was looked at had its answer already; while the decision was sent, the run went on and asked."""

    @app.workflow(name="asks")
    async def asks(ctx: Context, n: int = 0) -> str:
        answer = await ctx.approval("ship it?", bool)
        if n == 0:
            await ctx.wait_for("go")
            await ctx.continue_as_new(1)
        return answer.by.id

    async with app.worker():
        run = await app.start(asks, id="a")
        await run.approve("ship it?", True, by=User("ann"), timeout=PATIENCE_S)
        send = Attempt._send

        async def send_late(self: Attempt) -> None:
            await run.signal("go")
            async with asyncio.timeout(PATIENCE_S):
                while (await (await app.get_run("a")).status()).uid == run.uid:
                    await asyncio.sleep(0.005)
            await send(self)

        monkeypatch.setattr(Attempt, "_send", send_late)
        assert (await run.approve("ship it?", True, by=User("bob"), timeout=PATIENCE_S)).by == User("bob")
        assert await run.result(timeout=PATIENCE_S) == "bob"


async def test_a_run_whose_id_went_to_another_fails_instead_of_going_on(any_app: Outlast):
    """It failed, its id was started anew, by a run that goes on at once; then it was retried: there is no id for a next
    round of it, and it says so."""
    app = any_app
    is_first = True

    @app.workflow(name="moving")
    async def moving(ctx: Context, number: int) -> int:
        if is_first:
            raise ValueError("not yet")
        if not number:
            await ctx.continue_as_new(1)
        return number

    async with app.worker():
        old = await app.start(moving, 0, id="r")
        with pytest.raises(RunFailed, match="not yet"):
            await old.result(timeout=PATIENCE_S)
        is_first = False
        new = await app.start(moving, 0, id="r", on_conflict="restart")
        assert await new.result(timeout=PATIENCE_S) == 1
        await old.retry()
        with pytest.raises(RunFailed, match="'r'"):
            await old.result(timeout=PATIENCE_S)


async def test_who_signals_a_run_that_has_ended_is_told_how_its_last_round_did(memory_app: Outlast):
    """Whichever round the handle is of."""
    app = memory_app

    @app.workflow(name="short")
    async def short(ctx: Context, is_second: bool = False) -> None:
        if not is_second:
            await ctx.continue_as_new(True)
        raise ValueError("no")

    async with app.worker():
        run = await app.start(short)
        with pytest.raises(RunFailed):
            await run.result(timeout=PATIENCE_S)
        for key in (None, "k"):
            with pytest.raises(RunEnded) as told:
                await run.signal("number", 1, key=key)
            assert told.value.status == "failed"


async def test_messages_that_no_round_takes_are_warned_of(memory_app: Outlast, monkeypatch, caplog):
    """Each round has a copy of them, which costs more with each of them; they are there all the same."""
    monkeypatch.setattr(rounds, "MANY_LEFT", 3)
    app = memory_app

    @app.workflow(name="deaf")
    async def deaf(ctx: Context, left: int = 2) -> list[int]:
        await ctx.wait_for("go")
        if left:
            await ctx.continue_as_new(left - 1)
        return [await ctx.wait_for("number", int) for _ in range(3)]

    async with app:
        run = await app.start(deaf, id="r")
        for number in range(3):
            await run.signal("number", number)
        async with app.worker():
            for _ in range(3):
                await run.signal("go")
            assert await run.result(timeout=PATIENCE_S) == [0, 1, 2]
    told = [text for text in caplog.messages if "messages that no round has taken" in text]
    assert len(told) == 2
    assert told[0].startswith("run r goes on with ")
