"""Starting runs: ids, input, options (SPEC R2 to R4, O5)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from outlast import (
    Context,
    FunctionNotFound,
    InvalidDefinition,
    InvalidInput,
    InvalidName,
    InvalidSetting,
    Module,
    RunConflict,
    RunExists,
    RunNotFound,
)

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass
class Order:
    id: str
    amount: int


# SPEC R3
async def test_the_same_id_is_the_same_run(app, twice):
    """Started twice with the same input, it is one run; the engine makes a time-ordered id where none is given."""
    async with app.worker():
        first = await app.start(twice, 1, id="A-17")
        again = await app.start(twice, 1, id="A-17")
        assert (first.uid, first.id) == (again.uid, again.id)
        assert first.id == "A-17"
        made = [(await app.start(twice, n)).id for n in range(3)]
        assert made == sorted(made)
        assert len(set(made)) == 3


# SPEC R3
async def test_an_id_stands_for_one_workflow_and_input(app, twice):
    """Another input or workflow under the same id is a conflict, whatever on_conflict says."""

    @app.workflow(name="other")
    async def other(ctx: Context, n: int) -> int:
        return n

    async with app:
        await app.start(twice, 1, id="A-17")
        for how in ("return", "restart", "raise"):
            error = RunExists if how == "raise" else RunConflict
            with pytest.raises(error):
                await app.start(twice, 2, id="A-17", on_conflict=how)
        with pytest.raises(RunConflict, match="workflow"):
            await app.start(other, 1, id="A-17")
        with pytest.raises(RunExists):
            await app.start(twice, 1, id="A-17", on_conflict="raise")


# SPEC R3
async def test_an_ended_run_can_be_started_anew(app, twice):
    """`restart` gives the id to a new run once the old one has ended."""
    async with app.worker():
        old = await app.start(twice, 1, id="A-17")
        await old.result(timeout=10)
        new = await app.start(twice, 1, id="A-17", on_conflict="restart")
        assert new.uid != old.uid
        assert await new.result(timeout=10) == 2


# SPEC R2
async def test_wrong_input_is_refused_before_anything_is_stored(app):
    """The field is named, and what was expected; the store has no run of it."""

    @app.workflow(name="ship")
    async def ship(ctx: Context, order: Order) -> None: ...

    async with app:
        with pytest.raises(InvalidInput) as caught:
            await app.start(ship, {"id": "x", "amount": "many"})
        assert caught.value.field.endswith("amount")
        with pytest.raises(InvalidInput):
            await app.start(ship)
        with pytest.raises(InvalidInput):
            await app.start(ship, Order("x", 1), 2)
        assert (await app.runs()).runs == ()
        await app.start(ship, {"id": "x", "amount": 1})
        assert len((await app.runs()).runs) == 1


# SPEC R2
async def test_only_workflows_of_this_app_can_be_started(app):
    """An unknown name, a plain function, a workflow of somebody else: refused, and nothing is stored."""
    elsewhere = Module("elsewhere")

    @elsewhere.workflow(name="theirs")
    async def theirs(ctx: Context) -> int:
        return 7

    async def plain(ctx: Context) -> None: ...

    async with app.worker():
        with pytest.raises(FunctionNotFound, match="twise"):
            await app.start("twise", 1)
        with pytest.raises(InvalidDefinition, match=r"@app\.workflow"):
            await app.start(plain)
        with pytest.raises(InvalidDefinition, match="not one of this app"):
            await app.start(theirs)
        assert (await app.runs()).runs == ()
        assert await (await app.start("twice", 4)).result(timeout=10) == 8
        app.include(elsewhere)
        assert await (await app.start(theirs)).result(timeout=10) == 7


# SPEC R2, R4
@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"at": datetime(2026, 7, 1)}, InvalidSetting),  # noqa: DTZ001 - that it has no zone is the point
        ({"id": "x" * 513}, InvalidName),
        ({"queue": ""}, InvalidName),
        ({"attributes": {"a": []}}, InvalidSetting),
        ({"unheard_of": 1}, TypeError),
    ],
)
async def test_options_are_checked_before_anything_is_stored(app, twice, options, error):
    """A start that is refused leaves nothing behind."""
    async with app:
        with pytest.raises(error):
            await app.start(twice, 1, **options)
        assert (await app.runs()).runs == ()


# SPEC R4
async def test_a_run_can_begin_later(app, twice):
    """After a delay, or at a time: until then it is queued, and says when it is due."""
    async with app.worker():
        soon = await app.start(twice, 1, delay="50ms")
        assert (await soon.status()).status == "queued"
        assert await soon.result(timeout=10) == 2
        status = await soon.status()
        asked = (await soon.timeline())[0].at
        assert status.started_at is not None
        assert status.started_at - asked >= timedelta(milliseconds=50)
        when = datetime.now(UTC) + timedelta(days=3)
        later = await app.start(twice, 1, at=when)
        row = (await app.runs()).runs[0]
        assert (row.id, row.status, row.due_at) == (later.id, "queued", when)
        past = await app.start(twice, 3, at=datetime.now(UTC) - timedelta(days=3))
        assert await past.result(timeout=10) == 6


# SPEC R4, O5
async def test_what_is_said_of_a_run_is_kept(app, twice):
    """Priority, queue, user and attributes on its row; the trace that was given, or one of its own."""
    async with app:
        run = await app.start(
            twice, 1, priority=2, queue="slow", user="ada", attributes={"region": "eu", "n": 3}, trace=TRACE
        )
        (row,) = (await app.runs()).runs
        assert (row.priority, row.queue, row.user, row.attributes) == (2, "slow", "ada", {"region": "eu", "n": 3})
        store = app._here().store
        assert (await store.find_uid(run.uid)).trace == TRACE
        other = await app.start(twice, 2)
        made = (await store.find_uid(other.uid)).trace
        version, trace_id, span_id, flags = made.split("-")
        assert (version, len(trace_id), len(span_id), flags) == ("00", 32, 16, "01")
        assert int(trace_id, 16)
        assert int(span_id, 16)


async def test_a_run_that_is_not_there_is_not_found(app):
    """By name; a name that can be none is refused."""
    async with app:
        with pytest.raises(RunNotFound, match="nobody"):
            await app.get_run("nobody")
        with pytest.raises(InvalidName):
            await app.get_run("a\0b")
