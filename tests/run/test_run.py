"""How a run ends, and how it stands (SPEC R5 to R8)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from outlast import Context, RunCancelled, RunFailed, RunInfo
from outlast.core.fold import fold
from tests.run.gates import declare_steady


@dataclass
class Receipt:
    number: str
    amount: int


class CardDeclined(Exception):
    """A class that the codec can build again."""


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
    with pytest.raises(TimeoutError, match=r"within 10ms\."):  # seconds are said with their unit, too
        await run.result(timeout=0.01)
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
        "deterministic", "steps", "state", "output", "error", "input", "user", "attributes", "queue", "priority",
        "parent", "forked_from", "continued_from", "continued_as", "trace", "created_at", "due_at", "waits",
    )  # fmt: skip


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
