"""The app: opening it, and working what it has (SPEC R8, R11, L12, S6)."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from outlast import AppNotOpen, Context, EffectInBody, InvalidName, InvalidSetting, Module, Outlast, RunFailed


class Declined(Exception):
    expected = True


shared = Module("shared")


@shared.step(executor="own")
def where() -> str:
    """The thread it runs in. At the module's top, so that another process could find it."""
    return threading.current_thread().name


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


@pytest.mark.parametrize("call", ["app.start()", "app.runs()", "app.run_sync()"])
async def test_a_body_is_told_to_use_the_app_in_a_step(app, call):
    """It runs in a loop of its own, but another app is not what helps."""

    @app.workflow(name="inner")
    async def inner(ctx: Context) -> None:
        pass

    @app.workflow(name="outer")
    async def outer(ctx: Context) -> None:
        match call:
            case "app.start()":
                await app.start(inner)
            case "app.runs()":
                await app.runs()
            case _:
                app.run_sync(inner)

    async with app.worker():
        run = await app.start(outer)
        with pytest.raises(RunFailed) as caught:
            await run.result(timeout=10)
    assert isinstance(caught.value.error, EffectInBody)
    assert f"{call}. Do this in a step." in str(caught.value.error)


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
        assert [await run.result(timeout=10) for run in runs] == [0, 2, 4, 6, 8]
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


# SPEC R8, R11
def test_the_error_of_a_scripts_workflow_has_no_causes_of_ours(app):
    """That no event loop ran before is no part of an error's story."""

    @app.workflow(name="broken")
    async def broken(ctx: Context) -> None:
        raise LookupError("nothing there")

    with pytest.raises(RunFailed):
        app.run_sync(broken, id="S-2", timeout=10)

    async def read_error():
        async with app:
            return (await (await app.get_run("S-2")).status()).error

    error = asyncio.run(read_error())
    assert error.type == "LookupError"
    assert error.cause is None
    assert "During handling" not in error.traceback


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
