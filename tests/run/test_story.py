"""What happened in a run: history, timeline, the past, live events (SPEC R7, O1 to O3)."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from threading import get_ident

import msgspec
import pytest

from outlast import Context, InvalidSetting, RunNotFound, TimelineItem, User, current_step
from outlast.core.events import decode_events
from outlast.run import approval, handle
from tests.run.gates import Gate, declare_steady


class CardDeclined(Exception):
    """A class that the codec can build again."""


# SPEC R7, O1
async def test_records_are_json(app):
    """What a run shows can be sent to a browser as it is."""
    gate, steady = declare_steady(app)
    gate.is_open.set()
    run = await app.start(steady, 4)
    await run.result(timeout=10)
    for record in (await run.status(), await run.history(), await run.timeline(), await run.state_at(99)):
        assert msgspec.json.decode(msgspec.json.encode(record))


# SPEC O1
async def test_the_history_says_what_a_step_is_called_in_the_world(app):
    """The invocation id that the step itself was given, on every attempt: who looks for its effect finds it."""
    given = []

    @app.step(name="pay", retries=1, backoff=0.001)
    async def pay() -> None:
        given.append(current_step().invocation_id)
        if len(given) == 1:
            raise OSError("busy")

    @app.workflow(name="paying")
    async def paying(_ctx: Context) -> None:
        await pay()

    run = await app.start(paying)
    await run.result(timeout=10)
    assert [attempt.invocation_id for attempt in await run.history()] == given
    assert len(given) == 2


# SPEC R7
async def test_state_shows_from_outside(app):
    """What the body sets with `set_state` is in its status."""

    @app.workflow(name="stateful")
    async def stateful(ctx: Context) -> None:
        await ctx.set_state("phase", {"at": 2})
        await ctx.milestone("half")

    run = await app.start(stateful)
    await run.result(timeout=10)
    assert (await run.status()).state == {"phase": {"at": 2}}
    snapshot = await run.state_at(99)
    assert [mark.name for mark in snapshot.milestones] == ["half"]


# SPEC O1
async def test_history_has_every_attempt(app):
    """With worker, times, arguments and outcome, failed ones too."""
    tries = []

    @app.step(name="flaky", retries=3, backoff=0)
    async def flaky(n: int) -> int:
        tries.append(n)
        if len(tries) < 3:
            raise CardDeclined("not yet")
        return n

    @app.workflow(name="stubborn")
    async def stubborn(ctx: Context) -> int:
        return await flaky(5)

    run = await app.start(stubborn)
    assert await run.result(timeout=10) == 5
    history = await run.history()
    assert [(one.key, one.attempt, one.status) for one in history] == [
        ("flaky", 1, "failed"),
        ("flaky", 2, "failed"),
        ("flaky", 3, "succeeded"),
    ]
    (worker,) = await app.workers()
    assert {one.worker for one in history} == {worker.id}
    assert history[0].error is not None
    assert (history[0].error.type, history[2].result) == ("CardDeclined", 5)
    assert 5 in (history[0].arguments if isinstance(history[0].arguments, list) else history[0].arguments.values())
    assert all(one.ended_at is not None and one.ended_at >= one.began_at for one in history)


# SPEC O1, O2
async def test_the_past_can_be_looked_at(app):
    """By number or by time: steps, results and path as the run knew them then; before the first event, nothing."""

    @app.step(name="double")
    async def double(n: int) -> int:
        return n * 2

    @app.workflow(name="chain")
    async def chain(ctx: Context) -> int:
        return await double(await double(1))

    run = await app.start(chain)
    assert await run.result(timeout=10) == 4
    timeline = await run.timeline()
    assert [item.seq for item in timeline] == list(range(len(timeline)))
    kinds = [(item.kind, item.step) for item in timeline]
    assert kinds == [
        ("queued", None),
        ("started", "double"),
        ("succeeded", "double"),
        ("started", "double#1"),
        ("succeeded", "double#1"),
        ("completed", None),
    ]
    for after in (-2, -1, 0, 3, 5, 9):
        for limit in (None, 0, 1, 3, 100):
            begin = max(after, -1) + 1
            part = timeline[begin : None if limit is None else begin + limit]
            assert await run.timeline(after=after, limit=limit) == part, (after, limit)
    past = await run.state_at(3)
    assert (past.seq, past.status, past.results, past.path) == (3, "running", {"double": 2}, ("double", "double#1"))
    assert (await run.state_at(timeline[-1].at)).output == 4
    empty = await run.state_at(timeline[0].at - timedelta(seconds=1))
    assert (empty.seq, empty.at, empty.status, empty.steps, empty.path) == (-1, None, None, (), ())
    assert await run.state_at(-1) == empty
    with pytest.raises(InvalidSetting, match="naive"):
        await run.state_at(datetime(2026, 7, 1))  # noqa: DTZ001 - that it has no zone is the point


# SPEC O3
async def test_events_come_live_and_end_with_the_run(app):
    """Each event as it happens; the stream ends when the run has; who comes back goes on where he was."""
    gate, steady = declare_steady(app)
    run = await app.start(steady, 4)
    seen: list[TimelineItem] = []

    async def follow():
        async for item in run.events():
            seen.append(item)  # noqa: PERF401 - one by one, since the test looks while they come

    following = asyncio.create_task(follow())
    await gate.entered.wait()
    async with asyncio.timeout(10):
        while len(seen) < 2:
            await asyncio.sleep(0.005)
    assert [item.kind for item in seen] == ["queued", "started"]
    gate.is_open.set()
    async with asyncio.timeout(10):
        await following
    assert seen == await run.timeline()
    assert [item async for item in run.events(after=1)] == seen[2:]
    assert [item async for item in run.events(after=99)] == []


# SPEC O3
async def test_the_events_of_a_deleted_run_end_with_an_error(app):
    """Nobody follows a run for ever that is not there."""
    gate, steady = declare_steady(app)
    gate.is_open.set()
    run = await app.start(steady, 4)
    await run.result(timeout=10)
    await run.delete()
    with pytest.raises(RunNotFound):
        async for _ in run.events():
            pass


# SPEC R7, O1, W4
@pytest.mark.parametrize("is_long", [True, False])
async def test_a_long_journal_is_told_in_a_thread(app, monkeypatch: pytest.MonkeyPatch, is_long: bool):
    """How long it is goes by its events: one entry of many makes a process wait as many entries do. Status, history,
    timeline, the past, and an approval's standing are read beside the event loop then, and in it from a short one."""
    gate = Gate(app)

    @app.workflow(name="wide")
    async def wide(ctx: Context) -> int:
        asked = asyncio.create_task(ctx.approval("ok?", bool))
        numbers = await asyncio.gather(*(gate.step(number) for number in range(60)))
        return len(numbers) * (await asked).value

    run = await app.start(wide)
    await asyncio.wait_for(gate.entered.wait(), 10)
    journal = await app._store.read_journal(run.uid)
    assert len(journal) < 10
    assert 60 < sum(len(decode_events(entry.events)) for entry in journal) < 100
    threads = []

    def watch(module, name: str) -> None:
        tell = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *args, **options: (threads.append(get_ident()), tell(*args, **options))[1]
        )

    for name in ("fold", "list_attempts", "tell", "state_at"):
        watch(handle, name)
    watch(approval, "Standing")
    for module in (handle, approval):
        monkeypatch.setattr(module, "LONG_JOURNAL", 60 if is_long else 100)
    for ask in (run.status, run.history, run.timeline, lambda: run.state_at(30)):
        assert await ask()
    await run.approve("ok?", True, by=User("ann"))
    assert len(threads) == 5
    assert [thread != get_ident() for thread in threads] == [is_long] * 5
    gate.is_open.set()
    assert await run.result(timeout=10) == 60
