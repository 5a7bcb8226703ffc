"""A store with runs in all kinds of states, made once, to be broken in copies."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from outlast import Context, Outlast, RunFailed, User
from outlast.engine.verifying import Problem, Verified, verify_store
from outlast.stores.store import RunRow, Store

__all__ = ["Events", "Tables", "build", "make_app", "problems_of"]

Events = list[dict[str, Any]]


mended: list[bool] = []
"""What the body of `gated` fails without: a retry finds it."""


def make_app(url: str, **options: Any) -> Outlast:
    app = Outlast(url, **options)

    @app.step(name="add", retries=2, backoff="1ms")
    async def add(a: int, b: int) -> int:
        if b < 0:
            raise ValueError("no such thing")
        return a + b

    @add.compensation
    async def subtract(a: int, b: int, result: int) -> None:
        return None

    @app.step(name="render", queue="gpu")
    async def render(scene: str) -> str:
        return f"picture of {scene}"

    @app.step(name="patient", retries=1, backoff="1d")
    async def patient() -> None:
        raise ConnectionError("later")

    add_workflows(app, add, render, patient)
    add_gated(app, render)
    return app


def add_workflows(app: Outlast, add: Any, render: Any, patient: Any) -> None:
    @app.workflow(name="sum")
    async def sum_up(ctx: Context, numbers: list[int]) -> int:
        total = 0
        for number in numbers:
            total = await add(total, number)
        return total

    @app.workflow(name="family")
    async def family(ctx: Context, naps: bool) -> int:
        total = await sum_up([1, 2])
        if naps:
            await nap(1)
        return total

    @app.workflow(name="nap")
    async def nap(ctx: Context, days: int) -> None:
        await ctx.sleep(f"{days}d")

    @app.workflow(name="blink")
    async def blink(ctx: Context) -> None:
        await ctx.sleep("1ms")

    @app.workflow(name="ask")
    async def ask(ctx: Context) -> object:
        return await ctx.approval("ship it?", bool, expires="3d")

    @app.workflow(name="queued")
    async def queued(ctx: Context) -> str:
        return await render("a house")

    @app.workflow(name="waits")
    async def waits(ctx: Context) -> None:
        await patient()

    @app.workflow(name="stuck")
    async def stuck(ctx: Context) -> None:
        await asyncio.Event().wait()


def add_gated(app: Outlast, render: Any) -> None:
    @app.workflow(name="gated")
    async def gated(ctx: Context, has_step: bool) -> None:
        """Fails beside an approval, until it is mended."""

        async def check() -> None:
            await ctx.sleep("1ms")
            if not mended:
                raise ValueError("not yet")

        steps = [render("a house")] if has_step else []
        await asyncio.gather(ctx.approval("go on?", bool), check(), *steps)


async def build(url: str, **options: Any) -> None:
    """All of it, and nobody left at work: what has not ended is parked, but for one due run that nobody has
    seen, and one that nobody has seen since it was retried."""
    app = make_app(url, **options)
    mended.clear()
    async with app.worker():
        done: Any = await app.start("sum", [1, 2, 3], id="done")
        assert await done.result(timeout=30) == 6
        undone: Any = await app.start("sum", [1, -1], id="undone")
        failed: Any = await app.start("family", False, id="family")
        await failed.result(timeout=30)
        with pytest.raises(RunFailed, match="compensated"):
            await undone.result(timeout=30)
        await (await app.start("blink", id="blink")).result(timeout=30)
        answered: Any = await app.start("ask", id="answered")
        while not (await answered.status()).waits:
            await asyncio.sleep(0.01)
        await answered.approve("ship it?", True, by=User("ann"))
        await answered.result(timeout=30)
        for name, input in (("nap", (3,)), ("ask", ()), ("queued", ()), ("waits", ()), ("stuck", ())):
            await app.start(name, *input, id=name)
        await app.start("family", True, id="waiting family")
        gated = [
            await app.start("gated", has_step, id=id) for id, has_step in (("gated", False), ("gated beside", True))
        ]
        for each in gated:
            with pytest.raises(RunFailed, match="not yet"):
                await each.result(timeout=30)
        mended.append(True)
        await gated[0].retry()
        expected = {"nap": "sleep", "ask": "approval", "queued": "step", "waits": "step", "stuck": "DEADLOCK",
                    "waiting family": "child", "gated": "approval"}  # fmt: skip
        for id, word in expected.items():
            await _until(app, id, lambda row, word=word: row.owner is None and word in row.waiting_on)
    async with app:
        await app.start("sum", [7], id="due")
        await (await app.get_run("gated beside")).retry()


async def _until(app: Outlast, id: str, is_so: Callable[[RunRow], bool]) -> None:
    async with asyncio.timeout(30):
        while True:
            row = await app._store.find_run(id)
            if row is not None and is_so(row):
                return
            await asyncio.sleep(0.02)


async def problems_of(store: Store, **options: Any) -> list[Problem]:
    """All that is told of a store, which must rest."""
    verified = Verified()
    problems = [problem async for problem in verify_store(store, verified, **options)]
    assert verified.moving == 0
    return problems


class Tables:
    """A copy of the store's file, to be changed in SQL."""

    def __init__(self, built: Path, folder: Path) -> None:
        self.path = folder / "broken.db"
        shutil.copy(built, self.path)
        self.url = f"sqlite:///{self.path}"

    def run(self, sql: str, *values: object) -> list[Any]:
        """A statement that must touch something."""
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            cursor = connection.execute(sql, values)
            rows = cursor.fetchall()
            assert rows or cursor.rowcount, f"nothing fits: {sql}"
            return rows

    def uid(self, id: str) -> str:
        return str(self.run("select uid from runs where id = ?", id)[0][0])

    def events(self, id: str) -> list[Events]:
        """Entry by entry."""
        rows = self.run("select events from journal where run_uid = ? order by seq", self.uid(id))
        return [msgspec.json.decode(events) for (events,) in rows]

    def edit(self, id: str, change: Callable[[Events], object], seq: int | None = None) -> None:
        """Change the events of one entry: the last, or that one."""
        entries = self.events(id)
        at = len(entries) - 1 if seq is None else seq
        change(entries[at])
        data = msgspec.json.encode(entries[at])
        self.run("update journal set events = ? where run_uid = ? and seq = ?", data, self.uid(id), at)

    def edit_event(self, id: str, kind: str, change: Callable[[dict[str, Any]], object], nth: int = 0) -> None:
        """Change one event, by its kind."""
        found = [
            (seq, number)
            for seq, events in enumerate(self.events(id))
            for number, event in enumerate(events)
            if event["event"] == kind
        ]
        seq, number = found[nth]
        self.edit(id, lambda events: change(events[number]), seq)

    def double(self, id: str, kind: str) -> None:
        """An event stands twice in its entry."""
        for seq, events in enumerate(self.events(id)):
            for number, event in enumerate(events):
                if event["event"] == kind:
                    self.edit(id, lambda events, number=number, event=event: events.insert(number, event), seq)
                    return
        raise AssertionError(f"run {id} has no {kind}")

    def drop(self, id: str, kind: str) -> None:
        """An event is gone from its entry."""
        for seq, events in enumerate(self.events(id)):
            if any(event["event"] == kind for event in events):
                self.edit(id, lambda events: events.remove(next(e for e in events if e["event"] == kind)), seq)
                return
        raise AssertionError(f"run {id} has no {kind}")
