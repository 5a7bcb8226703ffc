"""Who is told of every commit that landed (invariant 11): all of it, in order, and at nobody's cost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from outlast import Context, Outlast
from outlast.core.events import RunReopened, RunStarted, decode_events
from outlast.telemetry.observer import Commit, Landed
from outlast.testing.stores.writing import entry, park, start
from tests.engine.faulty import UNAVAILABLE


class Listener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.recollections: list[tuple[str, Sequence[Landed]]] = []

    def landed(self, commit: Commit) -> None:
        self.commits.append(commit)

    def recalled(self, uid: str, entries: Sequence[Landed]) -> None:
        self.recollections.append((uid, entries))

    @property
    def entries(self) -> list[Landed]:
        return [entry for commit in self.commits for entry in commit.entries]


class Broken(Listener):
    """Raises whenever it is told."""

    def landed(self, commit: Commit) -> None:
        raise RuntimeError("not today")

    def recalled(self, uid: str, entries: Sequence[Landed]) -> None:
        raise RuntimeError("nor today")


def make_app() -> Outlast:
    app = Outlast("memory://")

    @app.step(name="double")
    async def double(n: int) -> int:
        if n < 0:
            raise ValueError(n)
        return n * 2

    @app.workflow(name="twice")
    async def twice(ctx: Context, n: int) -> int:
        return await double.options(retries=0)(await double.options(retries=0)(n))

    return app


async def journal_of(app: Outlast, uid: str) -> list[Landed]:
    return [
        Landed(uid, entry.seq, entry.at, entry.writer, entry.events) for entry in await app._store.read_journal(uid)
    ]


# SPEC O4
async def test_an_observer_is_told_every_entry_as_the_store_has_it() -> None:
    """Position, time, writer and bytes; each once, in the order of the journal, also those that no worker wrote."""
    app, listener = make_app(), Listener()
    app._observers.add(listener)
    async with app:
        waiting = await app.start("twice", 1)  # nobody works here yet: a client's entry
        async with app.worker():
            assert await waiting.result(timeout=10) == 4
            failed = await app.start("twice", -1)
            await asyncio.wait([asyncio.ensure_future(failed.result(timeout=10))])
            await failed.retry()
            await asyncio.wait([asyncio.ensure_future(failed.result(timeout=10))])
        for run in (waiting, failed):
            told = [entry for entry in listener.entries if entry.uid == run.uid]
            assert told == await journal_of(app, run.uid)
        events = [event for entry in listener.entries for event in decode_events(entry.events)]
        assert [type(event) for event in events].count(RunReopened) == 1
        assert {entry.writer for entry in listener.entries} > {"client"}


# SPEC O4
async def test_an_observer_is_told_what_a_run_was_before_it_came_here() -> None:
    """A run that another process began: its journal up to here, once it is loaded."""
    app, listener = make_app(), Listener()
    async with app:
        run = await app.start("twice", 1)
        app._observers.add(listener)
        async with app.worker():
            await run.result(timeout=10)
        uid, entries = listener.recollections[0]
        assert (uid, list(entries)) == (run.uid, (await journal_of(app, run.uid))[:1])
        assert isinstance(decode_events(entries[0].events)[0], RunStarted)
        assert app.dev or len(listener.recollections) == 1


# SPEC O4
async def test_an_observer_that_raises_touches_no_run(caplog) -> None:
    """It is said once; others are told all the same, and the run goes on."""
    app, listener = make_app(), Listener()
    app._observers.add(Broken())
    app._observers.add(listener)
    async with app.worker():
        run = await app.start("twice", 1)
        assert await run.result(timeout=10) == 4
        assert listener.entries == await journal_of(app, run.uid)
    assert [record.name for record in caplog.records if record.exc_info] == ["outlast.telemetry"]


async def test_an_observer_that_was_removed_is_told_no_more() -> None:
    """And one that never was there may be removed."""
    app, listener = make_app(), Listener()
    app._observers.remove(listener)
    app._observers.add(listener)
    app._observers.remove(listener)
    async with app.worker():
        await (await app.start("twice", 1)).result(timeout=10)
    assert listener.commits == []


async def test_only_what_landed_is_told(writing) -> None:
    """Neither a park nor an entry that was refused; what landed with a lost answer is told once, with its children."""
    listener = Listener()
    writing.writer._observers.add(listener)
    await writing.register("w1")
    await writing.write(start("r", claimed=True), by="w1")
    await writing.write(park("r"), entry("gone", 3), by="w1")
    writing.store.fail(UNAVAILABLE, landed=True)
    await writing.write(entry("r", 1, children=(start("child"),)), by="w1")
    assert [(told.uid, told.seq, told.writer) for told in listener.entries] == [
        ("r", 0, "w1"), ("r", 1, "w1"), ("child", 0, "w1"),
    ]  # fmt: skip
    assert all(commit.took_us >= 0 for commit in listener.commits)
