"""A store with a clock that a test moves, and apps on it: some work, some only ask."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from outlast import Context, Outlast, Run
from outlast.core.events import Event, decode_events
from outlast.core.fold import fold
from outlast.stores.memory import MemoryStore
from outlast.stores.sqlite import SqliteStore
from tests.postgres_schemas import move_clock, run_apart

PATIENCE_S = 20


@dataclass
class Decision:
    """What approvals of the tests ask for."""

    ok: bool
    note: str = ""


class Place:
    """One store. Time passes when the test says so; while a worker is up its lease would lapse by that."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.ahead_us = 0

    def now_us(self) -> int:
        return time.time_ns() // 1000 + self.ahead_us

    def pass_time(self, seconds: float) -> None:
        us = round(seconds * 1e6)
        self.ahead_us += us
        if self.url.startswith("postgres"):
            run_apart(move_clock(us))

    def make_app(self, **options: Any) -> Outlast:
        """An app with the workflows below. Others on the same place know the same."""
        app = Outlast(self.url, **options)
        if self.url.startswith("memory:"):
            app._store = MemoryStore(self.url, self.now_us)
        elif self.url.startswith("sqlite:"):
            app._store = SqliteStore(self.url, self.now_us)
        declare(app)
        return app


def declare(app: Outlast) -> None:
    """Bodies that wait."""

    @app.step(name="note")
    async def note(text: str) -> str:
        return text

    @app.workflow(name="paid")
    async def paid(ctx: Context, times: int, timeout: float | None = None) -> list[Any]:
        """As many signals as that, or "late"."""
        found: list[Any] = []
        for _ in range(times):
            try:
                found.append(await ctx.wait_for("paid", int, timeout=timeout))
            except TimeoutError:
                found.append("late")
        return found

    @app.workflow(name="gated")
    async def gated(ctx: Context, reasons: list[str]) -> list[str]:
        for reason in reasons:
            await ctx.suspend(reason)
            await note(reason)
        return reasons

    @app.workflow(name="shipped")
    async def shipped(
        ctx: Context, expires: float | None = None, approvers: str = "any", scope: str | None = None
    ) -> list[Any]:
        """Who decided what, or "expired"."""
        asked: Any = ctx.approval
        answer = await asked("ship it?", Decision, expires=expires, approvers=approvers, scope=scope)
        return [answer.value.ok, answer.by.id] if hasattr(answer, "value") else ["expired"]


async def until(condition: Callable[[], Awaitable[object]], what: str = "it") -> None:
    """Wait for something that comes by itself."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():
            await asyncio.sleep(0.005)
    del what


async def waits_on(run: Run[Any], text: str) -> None:
    """Wait until the run waits on this."""

    async def is_there() -> bool:
        return (await run.status()).waiting_on == text

    await until(is_there, text)


async def parked(app: Outlast, run: Run[Any]) -> None:
    """Wait until nobody owns it, as it is when it rests."""

    async def is_parked() -> bool:
        row = await app._here("a test").store.find_uid(run.uid)
        return row is not None and row.owner is None

    await until(is_parked, "a park")


async def journal_of(app: Outlast, run: Run[Any]) -> list[Event]:
    """All its events."""
    entries = await app._here("a test").store.read_journal(run.uid)
    return [event for entry in entries for event in decode_events(entry.events)]


async def same_as_row(app: Outlast, run: Run[Any]) -> None:
    """What the journal of a parked run says and what its row and its rows of waits say are the same (invariant 2)."""
    store = app._here("a test").store
    entries = await store.read_journal(run.uid)
    view = fold([(entry, decode_events(entry.events)) for entry in entries])
    row = await store.find_uid(run.uid)
    assert row is not None
    assert (row.status, row.waiting_on) == (view.status, view.waiting_on)
    rows = {one.wait.key: one.wait for one in await store.list_waits() if one.run == run.uid}
    shown = {key: (wait.kind, wait.name, wait.deadline, bytes(wait.policy)) for key, wait in view.waits.items()}
    assert {key: (one.kind, one.name, one.deadline, one.policy) for key, one in rows.items()} == shown


class Held:
    """A step that waits until the test lets it go on."""

    def __init__(self, app: Outlast) -> None:
        self.is_open = asyncio.Event()
        self.entered = asyncio.Event()

        async def held(text: str) -> str:
            self.entered.set()
            await self.is_open.wait()
            return text

        self.step = app.step(name="held")(held)


def note_of(app: Outlast) -> Held:
    """A step the test holds; and the workflow "noted", which suspends for each reason and calls it then."""
    held = Held(app)

    @app.workflow(name="noted")
    async def noted(ctx: Context, reasons: list[str]) -> list[str]:
        for reason in reasons:
            await ctx.suspend(reason)
            await held.step(reason)
        return reasons

    return held
