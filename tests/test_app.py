"""The app: opening, starting, listing, working (SPEC R2 to R4, R9, R11, L12, O5)."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from outlast.app import Outlast
from outlast.authoring.context import Context
from outlast.authoring.module import Module
from outlast.errors import (
    AppNotOpen,
    FunctionNotFound,
    InvalidDefinition,
    InvalidInput,
    InvalidName,
    InvalidSetting,
    RunConflict,
    RunExists,
    RunFailed,
    RunNotFound,
)

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass
class Order:
    id: str
    amount: int


class Declined(Exception):
    expected = True


shared = Module("shared")


@shared.step(executor="own")
def where() -> str:
    """The thread it runs in. At the module's top, so that another process could find it."""
    return threading.current_thread().name


@pytest.fixture(params=["memory", "sqlite"])
def app(request, tmp_path):
    """An app on each embedded store, closed; with a workflow that doubles a number."""
    app = Outlast("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/app.db")

    @app.step(name="double")
    async def double(n: int) -> int:
        return n * 2

    @app.workflow(name="twice")
    async def double_it(ctx: Context, n: int) -> int:
        return await double(n)

    return app


@pytest.fixture
def twice(app):
    """Its workflow."""
    return app.find_workflow("twice")


# --- opening ----------------------------------------------------------------------------------------------------------


def test_where_an_app_keeps_its_runs(monkeypatch):
    """The URL given, else $OUTLAST_URL, else a file; dev mode as given, else $OUTLAST_DEV."""
    monkeypatch.delenv("OUTLAST_URL", raising=False)
    monkeypatch.delenv("OUTLAST_DEV", raising=False)
    assert (Outlast().url, Outlast().dev) == ("sqlite:///outlast.db", False)
    monkeypatch.setenv("OUTLAST_URL", "memory://")
    monkeypatch.setenv("OUTLAST_DEV", "1")
    assert (Outlast().url, Outlast().dev) == ("memory://", True)
    assert Outlast("memory://x", dev=False).url == "memory://x"
    assert Outlast(dev=False).dev is False


async def test_an_app_that_is_not_open_says_so(app, twice):
    """Each call names itself, and what to do."""
    for call in (
        lambda: app.start(twice, 1),
        lambda: app.get_run("x"),
        lambda: app.runs(),
        lambda: app.prune("1d"),
        lambda: app.workers(),
    ):
        with pytest.raises(AppNotOpen, match=r"async with app"):
            await call()


async def test_opening_nests(app, twice):
    """Alone or one in the other, with a worker or without: the last to leave closes it, and it can be opened again."""
    async with app:
        async with app.worker():
            async with app:
                run = await app.start(twice, 2, id="N-1")
            assert await run.result(timeout=10) == 4
        assert (await app.get_run("N-1")).uid == run.uid
    with pytest.raises(AppNotOpen):
        await run.status()
    async with app.worker():
        assert await run.result(timeout=10) == 4


async def test_opening_and_closing_at_once(app):
    """Many tasks may open and close it at the same time; each has it open while it is inside."""

    async def visit(n):
        async with app:
            await asyncio.sleep(n % 3 / 1000)
            assert (await app.runs()).next is None

    await asyncio.gather(*(visit(n) for n in range(20)))
    with pytest.raises(AppNotOpen):
        await app.runs()


async def test_an_app_belongs_to_one_event_loop(app):
    """A call from another loop is refused, in words; it would otherwise hang or corrupt."""
    async with app:
        failures = []

        def elsewhere():
            for call in (app.runs, app.__aenter__):
                try:
                    asyncio.run(call())
                except AppNotOpen as error:
                    failures.append(str(error))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        await asyncio.to_thread(thread.join)
        assert len(failures) == 2
        assert all("another event loop" in failure for failure in failures)
        assert (await app.runs()).runs == ()


async def test_a_store_that_cannot_be_opened_leaves_the_app_closed(tmp_path):
    """The error is the store's; a later try is a try of its own."""
    app = Outlast(f"sqlite:///{tmp_path}/missing/folder/app.db")
    for _ in range(2):
        with pytest.raises(Exception, match="missing"):
            async with app:
                pass
    with pytest.raises(AppNotOpen):
        await app.runs()


async def test_an_app_has_one_worker(app):
    """A second one in the same process would take the first one's runs away."""
    async with app.worker():
        with pytest.raises(AppNotOpen, match="has a worker already"):
            async with app.worker():
                pass
        with pytest.raises(AppNotOpen, match="has a worker already"):
            await app.work_until_idle()


# --- starting ---------------------------------------------------------------------------------------------------------


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


# --- lists and retention ----------------------------------------------------------------------------------------------


# SPEC R9
async def test_runs_are_listed_newest_first_in_pages(app, twice):
    """Every run once, whatever the size of the page."""
    async with app:
        ids = [(await app.start(twice, n)).id for n in range(7)]
        for limit in (1, 3, 7, 50):
            seen, after = [], None
            while True:
                page = await app.runs(limit=limit, after=after)
                assert len(page.runs) <= limit
                seen += [run.id for run in page.runs]
                after = page.next
                if after is None:
                    break
            assert seen == ids[::-1]


# SPEC R9
async def test_runs_are_filtered(app, twice):
    """By workflow, status, user, attributes and time; filters join."""

    @app.step(name="fail", retries=0)
    async def fail() -> None:
        raise ValueError("no")

    @app.workflow(name="failing")
    async def failing(ctx: Context) -> None:
        await fail()

    async with app.worker():
        good = await app.start(twice, 1, user="ada", attributes={"region": "eu", "n": 1})
        await good.result(timeout=10)
        bad = await app.start(failing, user="bob", attributes={"region": "eu"})
        with pytest.raises(RunFailed):
            await bad.result(timeout=10)

        async def ids(**filters):
            return [run.id for run in (await app.runs(**filters)).runs]

        assert await ids(workflow="twice") == await ids(workflow=twice) == [good.id]
        assert await ids(status="failed") == [bad.id]
        assert await ids(status=["failed", "completed"], attributes={"region": "eu"}) == [bad.id, good.id]
        assert await ids(user="ada", status="failed") == []
        assert await ids(attributes={"n": 1}) == [good.id]
        assert await ids(attributes={"n": True}) == []
        now = datetime.now(UTC)
        assert await ids(created_from=now - timedelta(minutes=1), created_until=now) == [bad.id, good.id]
        assert await ids(created_from=now + timedelta(minutes=1)) == []
        (failed,) = (await app.runs(status="failed")).runs
        assert failed.error == "ValueError: no"


# SPEC R9
async def test_old_runs_are_pruned(app, twice):
    """Those that ended before, of the statuses asked for; what goes on stays, however old."""

    @app.workflow(name="sleeper")
    async def sleeper(ctx: Context) -> None:
        await ctx.sleep("1d")

    async with app.worker():
        for n in range(3):
            await (await app.start(twice, n)).result(timeout=10)
        going = await app.start(sleeper)
        assert await app.prune(older_than="1h") == 0
        assert await app.prune(older_than=0, statuses="failed") == 0
        await asyncio.sleep(0.002)  # the clock has to move past the last end
        assert await app.prune(older_than=0) == 3
        assert [run.id for run in (await app.runs()).runs] == [going.id]


# --- working ----------------------------------------------------------------------------------------------------------


async def test_workers_are_listed(app):
    """With what they serve and know; a worker that left in good order is gone."""
    async with app:
        async with app.worker(queues=("default", "gpu")) as worker:
            (shown,) = await app.workers()
            assert (shown.id, shown.queues, shown.is_alive) == (worker.id, ("default", "gpu"), True)
            assert set(shown.functions) == {"double", "twice"}
            assert shown.expires_at > datetime.now(UTC)
        assert await app.workers() == []


# SPEC L12
async def test_a_host_without_a_long_life_works_what_is_due(app, twice):
    """One call sweeps, works, and hands back; it says what it did, and when to call again."""

    @app.workflow(name="napper")
    async def napper(ctx: Context) -> None:
        await ctx.sleep("1d")

    async with app:
        runs = [await app.start(twice, n) for n in range(5)]
        nap = await app.start(napper)
    done = await app.work_until_idle(timeout=20)
    assert done.ended == 5
    assert done.entries >= 6
    assert done.next_at is not None
    assert timedelta(hours=23) < done.next_at - datetime.now(UTC) < timedelta(hours=25)
    async with app:
        assert [await run.result(timeout=1) for run in runs] == [0, 2, 4, 6, 8]
        assert (await nap.status()).status == "running"
        assert await app.workers() == []


# SPEC R11
def test_a_script_runs_a_workflow_in_one_call(app, twice):
    """No event loop is needed, the result is the workflow's, and it can be done again."""
    assert app.run_sync(twice, 4, id="S-1", timeout=10) == 8
    assert app.run_sync("twice", 4, id="S-1", timeout=10) == 8
    assert app.run_sync(twice, 5, timeout=10) == 10


# SPEC R11
def test_a_script_gets_the_error_of_its_workflow(app):
    """What `result` raises."""

    @app.workflow(name="broken")
    async def broken(ctx: Context) -> None:
        raise LookupError("nothing there")

    with pytest.raises(RunFailed) as caught:
        app.run_sync(broken, timeout=10)
    assert isinstance(caught.value.__cause__, LookupError)


# SPEC R11
async def test_run_sync_does_not_block_an_event_loop(app, twice):
    """Where one runs, it says what to do instead."""
    with pytest.raises(AppNotOpen, match=r"Await app\.start"):
        app.run_sync(twice, 1)


# SPEC S6
async def test_a_step_runs_in_the_executor_it_names(app):
    """An executor is registered by name; what is none is refused."""
    app.include(shared)

    @app.workflow(name="asking")
    async def asking(ctx: Context) -> str:
        return await where()

    with pytest.raises(InvalidSetting, match="Executor"):
        app.executor("own", "a pool")
    with pytest.raises(InvalidName):
        app.executor("", ThreadPoolExecutor(1))
    with ThreadPoolExecutor(1, thread_name_prefix="own-pool") as pool:
        app.executor("own", pool)
        async with app.worker():
            assert (await (await app.start(asking)).result(timeout=10)).startswith("own-pool")


# SPEC R8
async def test_an_expected_error_makes_one_line_in_the_log(app, caplog):
    """And another comes with its traceback; both say run and step."""

    @app.step(name="charge", retries=0)
    async def charge(expected: bool) -> None:
        raise Declined("no funds") if expected else KeyError("x")

    @app.workflow(name="paying")
    async def paying(ctx: Context, expected: bool) -> None:
        await charge(expected)

    caplog.set_level(logging.INFO, logger="outlast")
    async with app.worker():
        for expected in (True, False):
            with pytest.raises(RunFailed):
                await (await app.start(paying, expected, id=f"P-{expected}")).result(timeout=10)
    lines = {record.run: record.getMessage() for record in caplog.records if getattr(record, "step", None) == "charge"}
    assert lines["P-True"] == "step charge of run P-True failed, attempt 1: Declined: no funds"
    assert "Traceback" in lines["P-False"]
