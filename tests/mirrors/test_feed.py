"""What stands between the engine and a mirror (SPEC O4, invariant 11): nothing blocks, and every drop is counted."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from outlast import Context, InvalidSetting, Outlast
from outlast.mirrors import feed as feed_module
from outlast.mirrors.feed import Feed
from outlast.telemetry.observer import Landed
from tests.mirrors.conftest import commit, journal


class Kept:
    """A mirror that keeps what it is given, and does what a test wants."""

    name = "kept"

    def __init__(self) -> None:
        self.entries: list[Landed] = []
        self.batches: list[int] = []
        self.opened = self.closed = 0
        self.errors: list[Exception] = []
        self.gate = threading.Event()
        self.gate.set()
        self.begun = threading.Event()
        self.threads: set[int] = set()

    async def open(self) -> None:
        self.opened += 1

    async def close(self) -> None:
        self.closed += 1

    async def write(self, batch: Sequence[Landed]) -> None:
        self.begun.set()
        self.threads.add(threading.get_ident())
        self.gate.wait(30)
        if self.errors:
            raise self.errors.pop(0)
        self.batches.append(len(batch))
        self.entries += batch


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    """It tries again after 1 ms."""
    monkeypatch.setattr(feed_module, "FIRST_RETRY_S", 0.001)
    monkeypatch.setattr(feed_module, "LAST_RETRY_S", 0.004)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


# SPEC O4
def test_all_that_landed_is_written_in_order_and_in_company() -> None:
    """In a thread of its own; what waits while a write is under way shares the next; closing writes what is left."""
    mirror = Kept()
    mirror.gate.clear()
    feed = Feed(mirror)
    feed.open()
    entries = journal("u", 40)
    feed.landed(commit(entries[0]))
    assert mirror.begun.wait(10)
    assert feed.info().state == "writing"
    for entry in entries[1:]:
        feed.landed(commit(entry))
    mirror.gate.set()
    assert feed.close(10)
    assert mirror.entries == entries
    assert mirror.batches == [1, 40]
    assert (mirror.opened, mirror.closed) == (1, 1)
    assert threading.get_ident() not in mirror.threads
    info = feed.info()
    assert (info.name, info.state, info.written, info.dropped, info.waiting) == ("kept", "closed", 41, 0, 0)


# SPEC O4
def test_what_does_not_fit_is_dropped_and_counted(monkeypatch, caplog) -> None:
    """A mirror that hangs holds up nobody: its buffer fills, then each entry that comes is counted, and said once."""
    monkeypatch.setattr(feed_module, "MOST_ENTRIES", 10)
    mirror = Kept()
    mirror.gate.clear()
    feed = Feed(mirror)
    feed.open()
    entries = journal("u", 40)
    for entry in entries:
        feed.landed(commit(entry))
    info = feed.info()
    assert (info.waiting, info.dropped) == (10, 31)
    assert [record.getMessage()[:21] for record in caplog.records] == ["mirror kept is behind"]
    mirror.gate.set()
    assert feed.close(10)
    assert mirror.entries == entries[:10]


def test_a_buffer_is_bounded_in_bytes_too(monkeypatch) -> None:
    """A few entries may be large."""
    monkeypatch.setattr(feed_module, "MOST_BYTES", 500)
    mirror = Kept()
    mirror.gate.clear()
    feed = Feed(mirror)
    feed.open()
    for entry in journal("u", 40):
        feed.landed(commit(entry))
    info = feed.info()
    assert 0 < info.waiting < 20
    assert info.waiting + info.dropped == 41
    mirror.gate.set()
    assert feed.close(10)


# SPEC O4
def test_a_mirror_that_fails_gets_the_same_batch_again(caplog) -> None:
    """After a while, opened anew; it is said once, and once that it is over."""
    caplog.set_level("INFO", logger="outlast.mirrors")
    mirror = Kept()
    mirror.errors = [OSError("no line"), OSError("no line"), ValueError("odd")]
    feed = Feed(mirror)
    feed.open()
    entries = journal("u")
    feed.landed(commit(*entries))
    until(lambda: feed.info().written == 3)
    assert mirror.entries == entries
    assert (mirror.opened, feed.info().failures, feed.info().error) == (4, 3, None)
    assert feed.close(10)  # from here on its thread says nothing more
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


# SPEC O4
def test_a_write_that_takes_too_long_is_given_up_and_tried_again(monkeypatch) -> None:
    """One that waits in vain is cancelled; one that blocks cannot be, and is shown as stuck."""
    monkeypatch.setattr(feed_module, "HANG_S", 0.05)

    class Slow(Kept):
        async def write(self, batch: Sequence[Landed]) -> None:
            if feed.info().failures < 2:
                await asyncio.sleep(30)
            await super().write(batch)

    mirror = Slow()
    mirror.gate.clear()
    feed = Feed(mirror)
    feed.open()
    feed.landed(commit(*journal("u")))
    assert mirror.begun.wait(20)
    assert feed.info().failures == 2
    until(lambda: feed.info().state == "stuck")
    assert feed.info().busy_since is not None
    assert not feed.close(0.01)
    mirror.gate.set()
    assert feed.close(10)


def test_closing_does_not_wait_for_a_mirror_that_fails(caplog) -> None:
    """What is left has to be caught up on; the process can go."""
    mirror = Kept()
    mirror.errors = [OSError("no line")] * 10_000
    feed = Feed(mirror)
    feed.open()
    feed.landed(commit(*journal("u")))
    until(lambda: feed.info().failures > 1)
    assert feed.info().state == "failing"
    assert feed.close(10)
    assert feed.info().waiting == 3


def test_work_for_a_mirror_is_done_in_its_thread() -> None:
    """Between two writes; what it raises is told to who asked, and so is that it is closed."""
    mirror = Kept()
    feed = Feed(mirror)

    async def who(_mirror: object) -> int:
        return threading.get_ident()

    async def fail(_mirror: object) -> None:
        raise ValueError("no")

    with pytest.raises(RuntimeError, match="closed"):
        feed.call(who).result(10)
    feed.open()
    feed.landed(commit(*journal("u")))
    until(lambda: bool(mirror.entries))
    assert {feed.call(who).result(10)} == mirror.threads
    with pytest.raises(ValueError, match="no"):
        feed.call(fail).result(10)
    assert feed.close(10)


# --- with an app ------------------------------------------------------------------------------------------------------


def make_app(*mirrors: Kept) -> Outlast:
    app = Outlast("memory://", mirrors=mirrors)

    @app.step(name="double")
    async def double(n: int) -> int:
        return n * 2

    @app.workflow(name="twice")
    async def twice(ctx: Context, n: int) -> int:
        return await double(await double(n))

    return app


# SPEC O4
async def test_runs_go_on_beside_mirrors_that_fail_and_hang(monkeypatch) -> None:
    """A hundred runs end as ever; the good mirror has what it counts, and the counts of the others are right."""
    monkeypatch.setattr("outlast.run.mirroring.CLOSE_S", 0.05)
    monkeypatch.setattr(feed_module, "MOST_ENTRIES", 50)
    good, failing, hanging = Kept(), Kept(), Kept()
    failing.errors = [OSError("no line")] * 100_000
    hanging.gate.clear()
    app = make_app(good, failing, hanging)
    landed = 0
    async with app.worker(), asyncio.timeout(30):
        runs = [await app.start("twice", number) for number in range(100)]
        assert [await run.result() for run in runs] == [number * 4 for number in range(100)]
        for run in runs:
            landed += len(await app._store.read_journal(run.uid))
        async with asyncio.timeout(20):
            while (first := app.mirrors()[0]).waiting:
                await asyncio.sleep(0.001)
        assert first.written + first.dropped == landed
        assert len(good.entries) == first.written
        for info in app.mirrors()[1:]:
            assert info.written == 0
            assert info.waiting + info.dropped == landed
        assert "outlast_mirror_written" in await app.metrics_text()
    hanging.gate.set()


# SPEC O4
async def test_what_was_dropped_is_caught_up_on(monkeypatch) -> None:
    """From the store's journals, in the mirror's own thread, beside what lands; once more, nothing is missing."""
    monkeypatch.setattr(feed_module, "MOST_ENTRIES", 3)

    class Known(Kept):
        async def positions(self, uids: Sequence[str]) -> dict[str, int]:
            kept = {(entry.uid, entry.seq) for entry in self.entries}
            return {uid: next(seq for seq in range(10_000) if (uid, seq) not in kept) for uid in uids}

    mirror = Known()
    mirror.gate.clear()
    app = make_app(mirror)
    async with app.worker():
        runs = [await app.start("twice", number) for number in range(20)]
        for run in runs:
            await run.result(timeout=20)
        assert app.mirrors()[0].dropped > 0
        mirror.gate.set()
        done = (await app.mirror_catch_up())["kept"]
        assert (done.runs, done.entries > 0) == (20, True)
        assert (await app.mirror_catch_up())["kept"].entries == 0
        for run in runs:
            stored = await app._store.read_journal(run.uid)
            kept = {entry.seq: entry.events for entry in mirror.entries if entry.uid == run.uid}
            assert kept == {entry.seq: entry.events for entry in stored}


def test_what_is_no_mirror_is_refused() -> None:
    """When the app is made."""
    with pytest.raises(InvalidSetting):
        Outlast("memory://", mirrors=["file.jsonl"])  # type: ignore[list-item]
