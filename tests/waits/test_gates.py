"""Gates: `ctx.suspend`, and who opens them (SPEC W2, R1)."""

from __future__ import annotations

import asyncio

import pytest

from outlast import Outlast, RunCancelled, RunEnded, WaitNotFound
from outlast.core.events import GateOpened, WaitStarted
from outlast.engine.ids import new_uid
from outlast.engine.messages.waits import RESUME_MESSAGE
from tests.homes import everywhere
from tests.waits.place import Place, journal_of, note_of, parked, same_as_row, until, waits_on


# SPEC W2, R1
@everywhere
async def test_a_gate_opens_when_its_reason_is_resumed(app: Outlast, parks_at_once) -> None:
    """Until then the run is suspended, in its row as well once it is parked; then it is running."""
    gate = note_of(app)
    run = await app.start("noted", ["look"])
    await waits_on(run, "gate look")
    await parked(app, run)
    await same_as_row(app, run)
    row = (await app.runs(status="suspended", waiting_on="gate *")).runs[0]
    assert (row.id, row.status, row.waiting_on) == (run.id, "suspended", "gate look")
    await run.resume("look")
    await asyncio.wait_for(gate.entered.wait(), 10)
    assert (await run.status()).status == "running"

    async def is_shown_running() -> bool:
        return (await app.runs()).runs[0].status == "running"

    await until(is_shown_running)
    gate.is_open.set()
    assert await run.result(timeout=10) == ["look"]


# SPEC W2
async def test_only_its_own_reason_opens_a_gate(app: Outlast) -> None:
    """Another reason is refused, and named; nothing that comes otherwise opens it."""
    run = await app.start("gated", ["look", "sign"])
    await waits_on(run, "gate look")
    with pytest.raises(WaitNotFound, match="Open are: look"):
        await run.resume("sign")
    await run.signal("look")
    await app._here("a test").send(run.uid, RESUME_MESSAGE, b'{"gate":"sign"}')
    await run.resume("look")
    await waits_on(run, "gate sign")
    await run.resume("sign")
    assert await run.result(timeout=10) == ["look", "sign"]
    with pytest.raises(RunEnded):
        await run.resume("sign")


# SPEC W2
async def test_each_occurrence_of_a_reason_is_its_own_gate(app: Outlast) -> None:
    """The same reason twice is two gates; a resume that is delivered again does not open the next one."""
    run = await app.start("gated", ["look", "look"])
    await waits_on(run, "gate look")
    engine, message = app._here("a test"), new_uid(0)
    await engine.send(run.uid, RESUME_MESSAGE, b'{"gate":"look"}', message_id=message)

    async def is_second() -> bool:
        return [wait.key for wait in (await run.status()).waits] == ["look#1"]

    await until(is_second)
    await engine.send(run.uid, RESUME_MESSAGE, b'{"gate":"look"}', message_id=message)
    await engine.send(run.uid, RESUME_MESSAGE, b'{"gate":"look"}')
    await run.signal("last of all")

    async def is_read() -> bool:
        return (await run.timeline())[-1].kind == "signalled"

    await until(is_read)
    opened = [event for event in await journal_of(app, run) if isinstance(event, GateOpened)]
    assert len(opened) == 2  # the repeated message left no event
    assert await is_second()
    await run.resume("look")
    assert await run.result(timeout=10) == ["look", "look"]


# SPEC W2
async def test_without_a_reason_the_only_open_gate_is_meant(app: Outlast) -> None:
    """Of two gates neither is: the error names them both."""

    @app.workflow(name="both")
    async def both(ctx) -> None:
        await asyncio.gather(ctx.suspend("left"), ctx.suspend("right"))

    run = await app.start(both)
    await waits_on(run, "gate left")
    with pytest.raises(WaitNotFound, match="Open are: left, right"):
        await run.resume()
    await run.resume("right")
    await waits_on(run, "gate left")

    async def is_alone() -> bool:
        return len((await run.status()).waits) == 1

    await until(is_alone)
    await run.resume()
    assert await run.result(timeout=10) is None


# SPEC W2
async def test_the_engines_own_suspension_is_lifted_by_its_code(app: Outlast) -> None:
    """While the run is set aside its gates do not count for a resume without a reason; what opens is recorded."""

    @app.workflow(name="waiting twice")
    async def waiting_twice(ctx) -> list[object]:
        return await asyncio.gather(ctx.suspend("look"), ctx.call("later"))

    run = await app.start(waiting_twice)
    await waits_on(run, "FUNCTION_NOT_FOUND later")
    await run.resume("look")  # recorded: the body that is replayed finds its gate open

    @app.step(name="later")
    async def later() -> int:
        return 7

    await run.resume()
    assert await run.result(timeout=10) == [None, 7]
    assert {"opened", "resumed"} <= {item.kind for item in await run.timeline()}


# SPEC R1
async def test_a_run_with_a_step_beside_its_gate_is_running(app: Outlast) -> None:
    """A step goes on beside it; when it has ended the gate alone is left, and the run is suspended."""
    gate = note_of(app)

    @app.workflow(name="beside")
    async def beside(ctx) -> None:
        await asyncio.gather(gate.step("x"), ctx.suspend("look"), ctx.sleep("1h"))

    run = await app.start(beside)
    await asyncio.wait_for(gate.entered.wait(), 10)
    info = await run.status()
    assert (info.status, info.waiting_on) == ("running", "step held")
    gate.is_open.set()
    await waits_on(run, "gate look")
    assert (await run.status()).status == "suspended"
    assert await run.cancel("enough")
    with pytest.raises(RunCancelled):
        await run.result(timeout=10)
    assert await app.waits() is not None
    assert len(await app.waits()) == 0


# SPEC P6
async def test_a_gate_that_the_body_gives_up_is_closed(app: Outlast) -> None:
    """After its time is up nobody can resume it; the body goes on."""

    @app.workflow(name="impatient")
    async def impatient(ctx) -> str:
        try:
            async with asyncio.timeout(0.05):
                await ctx.suspend("look")
        except TimeoutError:
            await ctx.suspend("look")
            return "second"
        return "first"

    run = await app.start(impatient)

    async def is_second() -> bool:
        return [wait.key for wait in (await run.status()).waits] == ["look#1"]

    await until(is_second)
    with pytest.raises(WaitNotFound):
        await run.resume("look#2")
    await run.resume("look")
    assert await run.result(timeout=10) == "second"


# SPEC W1, F22
@everywhere
@pytest.mark.parametrize(("resumed_after_s", "found"), [(30, "open"), (90, "late")])
async def test_a_resume_counts_when_it_was_sent(place: Place, resumed_after_s: int, found: str) -> None:
    """Nobody worked when it was resumed, and when the body's own timeout was due: which came first decides."""

    def declare(app: Outlast) -> Outlast:
        @app.workflow(name="timed")
        async def timed(ctx) -> str:
            try:
                async with asyncio.timeout(60):
                    await ctx.suspend("look")
            except TimeoutError:
                return "late"
            return "open"

        return app

    async with declare(place.make_app()) as asks:
        run = await asks.start("timed")
        async with declare(place.make_app()).worker():
            await waits_on(run, "gate look")
        place.pass_time(resumed_after_s)
        await run.resume("look")
        place.pass_time(100)
        async with declare(place.make_app()).worker():
            assert await run.result(timeout=10) == found


# SPEC R10
@everywhere
async def test_a_retried_run_shows_its_open_waits_again(app: Outlast) -> None:
    """Its rows of waits went when it failed; one that had been opened before is not asked for again."""
    attempts = []

    @app.step(name="risky", retries=0)
    async def risky() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("once")

    @app.workflow(name="retried")
    async def retried(ctx) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.suspend("beside"))
            await ctx.suspend("before")
            await risky()
        return "done"

    run = await app.start(retried)
    await waits_on(run, "gate before")
    await run.resume("before")

    async def has_failed() -> bool:
        return (await run.status()).status == "failed"

    await until(has_failed)
    assert len(await app.waits()) == 0
    await run.retry()

    async def is_shown() -> bool:
        return [wait.key for wait in await app.waits()] == ["beside"]

    await until(is_shown)
    started = [event.key for event in await journal_of(app, run) if isinstance(event, WaitStarted)]
    assert started == ["before", "beside"]
    await run.resume("beside")
    assert await run.result(timeout=10) == "done"
