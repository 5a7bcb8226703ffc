"""Signals from outside: kept, in order, once for each key, typed, in time (SPEC W3)."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime

import pytest

from outlast import (
    Context,
    InboxFull,
    InvalidName,
    NotEncodable,
    Outlast,
    RunCancelled,
    RunEnded,
    RunNotFound,
    ValueTooLarge,
)
from outlast.core.events import SignalReceived
from outlast.engine.mail import MOST_BYTES
from outlast.engine.versions.serving import Server
from outlast.stores.records import INBOX_LIMIT
from tests.homes import everywhere
from tests.waits.place import Place, journal_of, parked, same_as_row, waits_on


# SPEC W3
async def test_a_signal_reaches_the_body_that_waits(app: Outlast) -> None:
    """Typed as the body asks; the run is running while it waits for one."""
    run = await app.start("paid", 1)
    await waits_on(run, "signal paid")
    assert (await run.status()).status == "running"
    await run.signal("paid", 5)
    assert await run.result(timeout=10) == [5]
    with pytest.raises(RunEnded):
        await run.signal("paid", 6)


# SPEC W3
@everywhere
async def test_signals_sent_before_the_run_begins_are_kept_in_order(place: Place) -> None:
    """Whoever sends need not wait for anybody."""
    asks = place.make_app()
    async with asks:
        run = await asks.start("paid", 3)
        for amount in (1, 2, 3):
            await run.signal("paid", amount)
        async with place.make_app().worker():
            assert await run.result(timeout=10) == [1, 2, 3]


# SPEC W3, W7
@everywhere
async def test_a_signal_wakes_a_parked_run(app: Outlast, parks_at_once) -> None:
    """A run that waits holds a row and nothing else; what it is shown to wait for, its row says too."""
    run = await app.start("paid", 2)
    await parked(app, run)
    await same_as_row(app, run)
    await run.signal("paid", 1)
    await parked(app, run)
    await run.signal("paid", 2)
    assert await run.result(timeout=10) == [1, 2]


# SPEC W3
@everywhere
async def test_one_key_counts_once(app: Outlast) -> None:
    """However often it is sent, also after it was delivered; another name or key is another signal."""
    run = await app.start("paid", 3)
    await run.signal("paid", 1, key="evt_1")
    await run.signal("paid", 1, key="evt_1")
    await waits_on(run, "signal paid")
    await run.signal("paid", 1, key="evt_1")
    await run.signal("other", 1, key="evt_1")
    await run.signal("paid", 2, key="evt_2")
    await run.signal("paid", 3)
    assert await run.result(timeout=10) == [1, 2, 3]


# SPEC W3
async def test_an_ill_formed_signal_is_set_aside_with_a_warning_and_shown(app: Outlast, caplog) -> None:
    """The wait goes on; the timeline says what did not fit."""
    run = await app.start("paid", 1)
    with caplog.at_level(logging.WARNING, "outlast"):
        await run.signal("paid", {"amount": "ten"})
        await run.signal("paid", 7)
        assert await run.result(timeout=10) == [7]
    assert "a signal 'paid' does not fit" in caplog.text
    (aside,) = [item for item in await run.timeline() if item.kind == "set_aside"]
    assert (aside.name, aside.detail) == ("paid", "value: expected int, got object")


# SPEC W3
async def test_a_wait_for_a_signal_ends_when_its_time_is_up(app: Outlast) -> None:
    """The body gets TimeoutError, and a later signal is for the next wait."""
    run = await app.start("paid", 2, 0.05)
    assert await run.result(timeout=10) == ["late", "late"]
    run = await app.start("paid", 1, 0.0)
    assert await run.result(timeout=10) == ["late"]


# SPEC W3, L11
@everywhere
@pytest.mark.parametrize(("sent_after_s", "found"), [(30, 5), (90, "late")])
async def test_a_signal_sent_in_time_counts_however_late_it_is_read(place: Place, sent_after_s, found) -> None:
    """Nobody worked when it was sent, and when the time was up: which came first decides."""
    async with place.make_app() as asks:
        run = await asks.start("paid", 1, 60.0)
        async with place.make_app().worker():
            await waits_on(run, "signal paid")
        place.pass_time(sent_after_s)
        await run.signal("paid", 5)
        place.pass_time(100)
        async with place.make_app().worker():
            assert await run.result(timeout=10) == [found]


# SPEC W3
@everywhere
@pytest.mark.parametrize("moment", ["before the journal is read", "before the inbox is read", "before the replay"])
async def test_a_signal_that_comes_while_the_run_wakes_is_delivered_once(
    app: Outlast, parks_at_once, monkeypatch, moment: str
) -> None:
    """Whatever of the load it falls into, it is read by it or after it."""
    run = await app.start("paid", 3)
    await parked(app, run)
    store, sent, turns = app._here("a test").store, asyncio.Event(), iter((2,))

    async def send() -> None:
        for value in turns:
            await run.signal("paid", value)
            sent.set()

    read_journal, read_inbox, replay = store.read_journal, store.read_inbox, Server._replay

    async def reading_journal(*args, **options):
        if moment == "before the journal is read":
            await send()
        return await read_journal(*args, **options)

    async def reading_inbox(*args, **options):
        if moment == "before the inbox is read":
            await send()
        return await read_inbox(*args, **options)

    async def replaying(*args):
        if moment == "before the replay":
            await send()
        return await replay(*args)

    monkeypatch.setattr(store, "read_journal", reading_journal)
    monkeypatch.setattr(store, "read_inbox", reading_inbox)
    monkeypatch.setattr(Server, "_replay", replaying)
    await run.signal("paid", 1)
    await asyncio.wait_for(sent.wait(), 10)
    await run.signal("paid", 3)
    assert await run.result(timeout=10) == [1, 2, 3]


# SPEC W3
@everywhere
@pytest.mark.parametrize("moment", ["before the park lands", "when the park has landed"])
async def test_a_signal_that_crosses_a_park_is_delivered_once(
    app: Outlast, parks_at_once, monkeypatch, moment: str
) -> None:
    """One of the two sees the other (DESIGN §3)."""
    run = await app.start("paid", 2)
    store, sent, turns = app._store, asyncio.Event(), iter((1,))
    commit = store.commit

    async def send() -> None:
        for value in turns:
            await run.signal("paid", value)
            sent.set()

    async def committing(worker, batch):
        is_park = any(progress.uid == run.uid and progress.seq < 0 for progress in batch)
        if is_park and moment == "before the park lands":
            await send()
        outcomes = await commit(worker, batch)
        if is_park:
            await send()
        return outcomes

    monkeypatch.setattr(store, "commit", committing)
    await asyncio.wait_for(sent.wait(), 10)
    await run.signal("paid", 2)
    assert await run.result(timeout=10) == [1, 2]


# SPEC W3
async def test_many_signals_at_once_are_read_in_portions(memory_place: Place) -> None:
    """A page at a time, and no entry takes in more than its share; none is lost, none comes twice."""
    big = "x" * (MOST_BYTES // 2)
    async with memory_place.make_app() as asks:

        @asks.workflow(name="hoard")
        async def hoard(ctx, times: int) -> int:
            return sum([len(await ctx.wait_for("part", str)) for _ in range(times)])

        run = await asks.start(hoard, 1205)
        for number in range(1205):
            await run.signal("part", big if number < 5 else "y")
        async with asks.worker():
            assert await run.result(timeout=30) == 5 * len(big) + 1200
        assert len([event for event in await journal_of(asks, run) if isinstance(event, SignalReceived)]) == 1205
        assert max(len(entry.events) for entry in await asks._store.read_journal(run.uid)) < 2.6 * MOST_BYTES


async def test_a_body_is_replayed_for_every_signal_without_a_place_in_memory(place: Place) -> None:
    """With `max_hot=0` each stimulus is replayed, and what comes of it is the same."""
    app = place.make_app()
    async with app.worker(max_hot=0):
        run = await app.start("paid", 3)
        for amount in (1, 2, 3):
            await run.signal("paid", amount)
        assert await run.result(timeout=10) == [1, 2, 3]


# SPEC D4
@pytest.mark.parametrize(
    ("name", "value", "key", "error"),
    [
        ("", 1, None, InvalidName),
        ("x" * 513, 1, None, InvalidName),
        ("nul\0", 1, None, InvalidName),
        ("paid", 1, "", InvalidName),
        ("paid", object(), None, NotEncodable),
        ("paid", "x" * (2 << 20), None, ValueTooLarge),
    ],
)
async def test_what_cannot_be_a_signal_is_refused_before_it_is_sent(app: Outlast, name, value, key, error) -> None:
    """The error says what is wrong; the run never hears of it."""
    run = await app.start("paid", 1)
    with pytest.raises(error):
        await run.signal(name, value, key=key)
    assert [item.kind for item in await run.timeline() if item.kind == "signalled"] == []


# SPEC D4
@pytest.mark.parametrize("name", ["a#1", 'it\'s "quoted"', "../up", "🚚", "a:b", "%", "x" * 512])
async def test_odd_names_are_names(memory_place: Place, name: str) -> None:
    """Quotes, dots, slashes and emoji are stored as they are."""
    app = memory_place.make_app()

    @app.workflow(name="odd")
    async def odd(ctx, name: str) -> list[int]:
        first = await ctx.wait_for(name, int)
        return [first, await ctx.wait_for(name, int)]

    async with app.worker():
        run = await app.start(odd, name)
        await run.signal(name, 1, key=name)
        await run.signal("other", 0)
        await run.signal(name, 2)
        assert await run.result(timeout=10) == [1, 2]


async def test_a_flood_is_refused_and_a_run_that_is_gone_is_not_there(memory_place: Place) -> None:
    """Past 10,000 unread messages `signal` raises; a deleted run takes none."""
    async with memory_place.make_app() as app:
        run = await app.start("paid", 1)
        row = app._store._tables.runs[run.uid]  # type: ignore[attr-defined]  # 10,000 sends would take a second
        row.inbox = dict.fromkeys(range(1, INBOX_LIMIT + 1))
        row.mail = INBOX_LIMIT
        with pytest.raises(InboxFull):
            await run.signal("paid", 1)
        gone = await app.start("paid", 1)
        async with memory_place.make_app().worker():
            row.inbox.clear()
            await gone.cancel()
            with pytest.raises(RunCancelled):
                await gone.result(timeout=10)
        await gone.delete()
        with pytest.raises(RunNotFound):
            await gone.signal("paid", 1)


# SPEC O1, O2; PROTOCOL F37
async def test_what_follows_a_signal_begins_when_a_worker_has_read_it(tmp_path) -> None:
    """Not when it was sent: a step that follows took as long as it did, and the run did not know of it before."""
    app = Outlast(f"sqlite:///{tmp_path}/store.db")

    @app.step(name="quick")
    async def quick() -> None:
        return None

    @app.workflow(name="waiting")
    async def waiting(ctx: Context) -> None:
        await ctx.wait_for("go")
        await quick()

    async with app:
        async with app.worker():
            run = await app.start(waiting)
            await waits_on(run, "signal go")
        await run.signal("go")
        sent = (await app._store.now()) / 1_000_000
        await asyncio.sleep(0.4)
        at_work = (await app._store.now()) / 1_000_000
        async with app.worker():
            await run.result(timeout=10)
        ended = (await app._store.now()) / 1_000_000
        [attempt] = await run.history()
        assert attempt.began_at.timestamp() >= at_work > sent + 0.39
        [summary] = (await run.status()).steps
        assert summary.duration is not None
        assert summary.duration.total_seconds() < ended - at_work
        assert (await run.state_at(datetime.fromtimestamp(sent + 0.2, UTC))).steps == ()
