"""One run, from outside: result, status, story, steering (SPEC R5 to R10, O1 to O3)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from outlast.app import Outlast
from outlast.authoring.context import Context
from outlast.core.fold import fold
from outlast.errors import (
    InvalidName,
    InvalidSetting,
    RunCancelled,
    RunEnded,
    RunFailed,
    RunNotEnded,
    RunNotFailed,
    RunNotFound,
    WaitNotFound,
)
from outlast.run import RunInfo, TimelineItem


@dataclass
class Receipt:
    number: str
    amount: int


class CardDeclined(Exception):
    """A class that the codec can build again."""


@pytest.fixture(params=["memory", "sqlite"])
async def app(request, tmp_path):
    """An app with a worker, on each embedded store."""
    app = Outlast("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db")
    async with app.worker():
        yield app


class Gate:
    """A step that waits until the test lets it go on, and counts its executions."""

    def __init__(self, app, name="work", **options):
        self.is_open = asyncio.Event()
        self.entered = asyncio.Event()
        self.count = 0
        self.step = app.step(name=name, **options)(self._make())

    def _make(self):
        async def work(n: int) -> int:
            self.count += 1
            self.entered.set()
            await self.is_open.wait()
            return n * 2

        return work


def declare_steady(app, gate=None):
    """A workflow of one step."""
    gate = gate or Gate(app)

    @app.workflow(name="steady")
    async def steady(ctx: Context, n: int) -> int:
        return await gate.step(n)

    return gate, steady


# SPEC R6
@pytest.mark.parametrize("output", [0, False, "", None, [], {}, 0.0])
async def test_a_falsy_output_arrives_as_it_is(app, output):
    """No output is taken for none."""

    @app.workflow(name="falsy")
    async def falsy(ctx: Context):
        return output

    run = await app.start(falsy)
    found = await run.result(timeout=10)
    assert (found, type(found)) == (output, type(output))
    assert (await run.status()).output == output


# SPEC R6
async def test_the_output_is_of_the_type_the_workflow_says(app):
    """A dataclass comes back as itself; where the workflow is not known, as plain JSON."""

    @app.workflow(name="typed")
    async def typed(ctx: Context, amount: int) -> Receipt:
        return Receipt("r-1", amount)

    run = await app.start(typed, 3, id="T-1")
    assert await run.result(timeout=10) == Receipt("r-1", 3)
    assert await (await app.get_run("T-1")).result() == Receipt("r-1", 3)
    run._known = None  # as in a process that does not know the workflow
    assert await run.result() == {"number": "r-1", "amount": 3}


# SPEC R6, R8
async def test_a_failed_run_raises_what_its_body_raised(app):
    """`RunFailed` carries the original error, as its own class, and names the step; it is the `__cause__` too."""

    @app.step(name="charge", retries=0)
    async def charge(n: int) -> None:
        raise CardDeclined("no funds", n)

    @app.workflow(name="failing")
    async def failing(ctx: Context) -> None:
        await charge(7)

    run = await app.start(failing)
    with pytest.raises(RunFailed) as caught:
        await run.result(timeout=10)
    assert isinstance(caught.value.error, CardDeclined)
    assert caught.value.error.args == ("no funds", 7)
    assert caught.value.__cause__ is caught.value.error
    assert (caught.value.id, caught.value.status, caught.value.step) == (run.id, "failed", "charge")
    error = (await run.status()).error
    assert error is not None
    assert (error.type, error.message) == ("CardDeclined", "('no funds', 7)")
    assert "raise CardDeclined" in error.traceback


# SPEC R5
async def test_a_run_that_fails_at_once_can_still_be_read(app):
    """The id is the caller's before the run can fail."""

    @app.workflow(name="hasty")
    async def hasty(ctx: Context) -> None:
        raise ValueError("at once")

    run = await app.start(hasty, id="H-1")
    with pytest.raises(RunFailed, match="at once"):
        await run.result(timeout=10)
    assert (await (await app.get_run("H-1")).status()).status == "failed"


# SPEC R6
async def test_who_stops_waiting_leaves_the_run_alone(app):
    """TimeoutError, and the run goes on to its end."""
    gate, steady = declare_steady(app)
    run = await app.start(steady, 4)
    with pytest.raises(TimeoutError, match=r"has not ended within 20ms\. It goes on"):
        await run.result(timeout="20ms")
    gate.is_open.set()
    assert await run.result(timeout=10) == 8


# SPEC R6, X1
async def test_a_cancelled_run_raises_run_cancelled(app):
    """With the reason; a cancel of an ended run is False."""
    gate, steady = declare_steady(app)
    run = await app.start(steady, 4)
    await gate.entered.wait()
    assert await run.cancel("changed my mind") is True
    with pytest.raises(RunCancelled) as caught:
        await run.result(timeout=10)
    assert (caught.value.id, caught.value.reason) == (run.id, "changed my mind")
    assert await run.cancel("again") is False
    info = await run.status()
    assert (info.status, info.steps[0].status) == ("cancelled", "cancelled")
    assert info.error is not None
    assert (info.error.code, info.error.message) == ("RUN_CANCELLED", "changed my mind")


# SPEC R7
async def test_status_shows_a_hot_run_as_it_is(app):
    """Read from the journal: a step under way is started, though the run's row has not changed since its claim."""
    gate, steady = declare_steady(app)
    run = await app.start(steady, 4, id="S-1")
    await gate.entered.wait()
    info = await run.status()
    assert (info.uid, info.id, info.workflow, info.status) == (run.uid, "S-1", "steady", "running")
    assert [(step.key, step.status, step.attempts) for step in info.steps] == [("work", "started", 1)]
    assert (info.waiting_on, info.output, info.error, info.finished_at) == ("step work", None, None, None)
    assert info.started_at is not None
    gate.is_open.set()
    await run.result(timeout=10)
    info = await run.status()
    assert (info.status, info.output, info.waiting_on, info.version) == ("completed", 8, "", steady.version)
    assert info.steps[0].status == "succeeded"
    assert info.steps[0].duration is not None
    assert info.finished_at is not None
    assert info.finished_at >= info.started_at > datetime.now(UTC) - timedelta(minutes=1)


# SPEC R7
def test_status_has_these_fields():
    """What programs may rely on."""
    assert RunInfo.__struct_fields__ == (
        "uid", "id", "workflow", "version", "status", "waiting_on", "started_at", "finished_at", "planned_steps",
        "deterministic", "steps", "state", "output", "error",
    )  # fmt: skip


# SPEC R7, O1
async def test_records_are_json(app):
    """What a run shows can be sent to a browser as it is."""
    gate, steady = declare_steady(app)
    gate.is_open.set()
    run = await app.start(steady, 4)
    await run.result(timeout=10)
    for record in (await run.status(), await run.history(), await run.timeline(), await run.state_at(99)):
        assert msgspec.json.decode(msgspec.json.encode(record))


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


# SPEC R1, W2
async def test_a_suspended_run_is_resumed_by_its_reason(app):
    """Its code is what it waits on; another reason is refused and named; `result` waits on; a cancel ends it."""

    @app.workflow(name="stuck")
    async def stuck(ctx: Context) -> None:
        await asyncio.get_running_loop().create_future()

    run = await app.start(stuck)
    async with asyncio.timeout(10):
        while (await run.status()).status != "suspended":
            await asyncio.sleep(0.005)
    assert (await run.status()).waiting_on == "DEADLOCK"
    with pytest.raises(TimeoutError):
        await run.result(timeout=0.05)
    with pytest.raises(WaitNotFound, match="DEADLOCK"):
        await run.resume("PAYMENT")
    before = len(await run.timeline())
    await run.resume("DEADLOCK")
    async with asyncio.timeout(10):
        while len(await run.timeline()) < before + 2:
            await asyncio.sleep(0.005)
    assert [item.kind for item in await run.timeline()][before : before + 2] == ["resumed", "suspended"]
    assert await run.cancel("enough")
    with pytest.raises(RunCancelled):
        await run.result(timeout=10)
    with pytest.raises(RunEnded):
        await run.resume()


# SPEC W2
async def test_a_run_that_is_not_suspended_cannot_be_resumed(app):
    """There is nothing to open."""
    gate, steady = declare_steady(app)
    run = await app.start(steady, 4)
    with pytest.raises(WaitNotFound):
        await run.resume()
    gate.is_open.set()
    await run.result(timeout=10)


# SPEC R10
async def test_a_retried_run_goes_on_from_what_failed(app):
    """What succeeded stays and is not run again; the failed step has a fresh budget; the end is a new one."""
    counts = {"first": 0, "second": 0}

    @app.step(name="first")
    async def first() -> int:
        counts["first"] += 1
        return 1

    @app.step(name="second", retries=0)
    async def second() -> int:
        counts["second"] += 1
        if counts["second"] == 1:
            raise CardDeclined("once")
        return 2

    @app.workflow(name="retried")
    async def retried(ctx: Context) -> int:
        return await first() + await second()

    run = await app.start(retried)
    with pytest.raises(RunFailed):
        await run.result(timeout=10)
    await run.retry()
    assert await run.result(timeout=10) == 3
    assert counts == {"first": 1, "second": 2}
    info = await run.status()
    assert [(step.key, step.status, step.attempts) for step in info.steps] == [
        ("first", "succeeded", 1),
        ("second", "succeeded", 2),
    ]
    history = {(one.key, one.attempt): one.is_current for one in await run.history()}
    assert history == {("first", 1): True, ("second", 1): False, ("second", 2): True}
    with pytest.raises(RunNotFailed):
        await run.retry()


# SPEC R9
async def test_only_an_ended_run_can_be_deleted(app):
    """Before, it is refused; after, nothing of the run is left."""
    gate, steady = declare_steady(app)
    run = await app.start(steady, 4, id="D-1")
    await gate.entered.wait()
    with pytest.raises(RunNotEnded):
        await run.delete()
    gate.is_open.set()
    await run.result(timeout=10)
    await run.delete()
    for ask in (run.status, run.history, run.timeline, run.result, run.cancel, run.resume, run.retry):
        with pytest.raises(RunNotFound, match="D-1"):
            await ask()
    with pytest.raises(RunNotFound):
        await app.get_run("D-1")


# SPEC R6
async def test_a_handle_stays_with_its_run(app):
    """When the id is given to another run, the old handle still shows the old one."""
    gate, steady = declare_steady(app)
    gate.is_open.set()
    old = await app.start(steady, 4, id="again")
    await old.result(timeout=10)
    new = await app.start(steady, 5, id="again", on_conflict="restart")
    assert await new.result(timeout=10) == 10
    assert await old.result(timeout=10) == 8
    assert (await app.get_run("again")).uid == new.uid != old.uid


# SPEC D4
async def test_a_reason_is_a_name(app):
    """Over 512 bytes, or empty, it is refused before anything is sent."""
    gate, steady = declare_steady(app)
    run = await app.start(steady, 4)
    for reason in ("x" * 513, ""):
        with pytest.raises(InvalidName):
            await run.cancel(reason)
        with pytest.raises(InvalidName):
            await run.resume(reason)
    gate.is_open.set()
    assert await run.result(timeout=10) == 8


async def wait_for_row(app, run, is_there):
    """The run's row, once it is as wanted."""
    async with asyncio.timeout(10):
        while True:
            row = await app._here().store.find_uid(run.uid)
            if is_there(row):
                return row
            await asyncio.sleep(0.01)


@pytest.mark.slow
async def test_row_and_journal_say_the_same(app):
    """Of a parked, suspended or ended run: status, what it waits on, and how it ended (invariant 2)."""

    @app.workflow(name="sleeper")
    async def sleeper(ctx: Context) -> None:
        await ctx.sleep("1d")

    @app.workflow(name="napper")
    async def napper(ctx: Context) -> None:
        await ctx.milestone("begun")
        await asyncio.sleep(86_400)

    @app.workflow(name="stuck")
    async def stuck(ctx: Context) -> None:
        await asyncio.get_running_loop().create_future()

    @app.step(name="patient", retries=1, backoff="1d")
    async def patient() -> None:
        raise CardDeclined("later")

    @app.workflow(name="waiter")
    async def waiter(ctx: Context) -> None:
        await patient()

    @app.workflow(name="broken")
    async def broken(ctx: Context) -> None:
        raise CardDeclined("no")

    gate, steady = declare_steady(app)
    gate.is_open.set()
    runs = [await app.start(workflow) for workflow in (sleeper, napper, stuck, waiter, broken)]
    runs.append(await app.start(steady, 1))
    for run in runs:
        row = await wait_for_row(app, run, lambda row: row.owner is None)
        view = fold(await app._here().read_events(run.uid))
        assert (row.status, row.waiting_on) == (view.status, view.waiting_on), run.workflow
        told = None if row.error is None else msgspec.json.decode(row.error)
        assert told == (None if view.error is None else {"type": view.error.type, "message": view.error.message})
        assert (row.finished_at is None) == (view.finished_at is None)
