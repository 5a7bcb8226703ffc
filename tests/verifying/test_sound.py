"""What is as it should be is not told of: on every store, beside workers, and after all that people may do to a run."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from outlast import Context, Encrypt, Outlast, RunFailed, User
from outlast.engine.verifying import Verified, verify_store
from outlast.run.transfer import export_run, import_run
from outlast.stores.open import open_store
from outlast.stores.store import Store
from tests import postgres_schemas
from tests.verifying.world import build, make_app, problems_of


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def url(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[str]:
    """Of an empty store of each backend."""
    match request.param:
        case "memory":
            yield f"memory://{secrets.token_hex(4)}"
        case "sqlite":
            yield f"sqlite:///{tmp_path}/store.db"
        case _:
            yield postgres_schemas.shared_url()
            await postgres_schemas.empty_schema()


async def _open(url: str) -> Store:
    store = open_store(url)
    await store.open()
    return store


@pytest.mark.slow
async def test_nothing_is_told_of_a_sound_store(url: str) -> None:
    """On every backend, whatever its runs wait for, with values that are encrypted as well; and of one run alone."""
    store = await _open(url)
    await build(url, codecs=[Encrypt({"k": secrets.token_bytes(32)})])
    assert await problems_of(store) == []
    verified = Verified()
    row = await store.find_run("nap")
    assert [problem async for problem in verify_store(store, verified, run=row)] == []
    assert (verified.runs, verified.entries) == (1, 1)
    await store.close()


async def test_runs_that_move_are_no_problem(url: str) -> None:
    """Beside workers that write all the while, what is read is a journal at any moment."""
    app = make_app(url)
    verified = Verified()
    async with app.worker():
        runs: list[Any] = [await app.start("sum", list(range(60))) for _ in range(4)]
        runs += [await app.start("family", False) for _ in range(4)]
        ends = asyncio.gather(*(run.result(timeout=30) for run in runs))
        while not ends.done():
            assert [problem async for problem in verify_store(app._store, verified, are_all_kept=True)] == []
            await asyncio.sleep(0)
        assert verified.runs >= 12
        await ends
        assert await problems_of(app._store) == []


async def test_retries_forks_and_imports_are_no_problem(tmp_path: Any) -> None:
    """A retry uses numbers of attempts on, a fork begins with a copy, an import stands without what was beside it."""
    mended: list[bool] = []
    app = Outlast(f"sqlite:///{tmp_path}/here.db")

    @app.step(name="one", retries=1, backoff="1ms")
    async def one(text: str) -> str:
        if text == "b" and not mended:
            raise ValueError("not yet")
        return text

    @app.workflow(name="child")
    async def child(ctx: Context, text: str) -> str:
        return await one(text)

    @app.workflow(name="parent")
    async def parent(ctx: Context) -> list[Any]:
        done = [await child("a"), await one("b")]
        return [*done, await ctx.approval("ok?", bool)]

    elsewhere = Outlast(f"sqlite:///{tmp_path}/elsewhere.db")
    async with app.worker(), elsewhere:
        run: Any = await app.start("parent", id="r")
        with pytest.raises(RunFailed):
            await run.result(timeout=30)
        mended.append(True)
        await run.retry()
        await _is_asked(run)
        fork = await run.fork(at="one", id="f")
        await _is_asked(fork)
        for each in (run, fork):
            row = await app._here().get_row(each.uid)
            await import_run(elsewhere._here(), await export_run(app._here(), row))
        await run.approve("ok?", True, by=User("ann"))
        await run.result(timeout=30)
        while (await app._here().get_row(fork.uid)).owner is not None:
            await asyncio.sleep(0.02)
        assert await problems_of(app._store) == []
        assert await problems_of(elsewhere._store) == []


async def _is_asked(run: Any) -> None:
    async with asyncio.timeout(30):
        while not (await run.status()).waits:
            await asyncio.sleep(0.01)
