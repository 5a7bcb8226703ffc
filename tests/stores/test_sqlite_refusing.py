"""What a SQLite store refuses: entries without the right to land, and what SQLite cannot keep."""

from __future__ import annotations

from pathlib import Path

import pytest

from outlast.errors import Fenced, StoreRefused
from outlast.stores.sqlite import SqliteStore
from outlast.stores.store import Effects, NewRun, Progress, Send, Verdict
from outlast.testing.stores.writing import (
    HOUR,
    commit,
    entry,
    land,
    mark_of,
    marks_of,
    message,
    own,
    park,
    register,
    start,
)

LANDED, STALE = Verdict.LANDED, Verdict.STALE


@pytest.fixture
async def store(tmp_path: Path):
    store = SqliteStore(f"sqlite:///{tmp_path}/store.db")
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def worker(store: SqliteStore) -> str:
    return await register(store, "worker-1", HOUR)


# --- one statement, all fences ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("runs", [1, 3])
async def test_plain_entries_of_a_dead_worker_are_refused(store: SqliteStore, runs: int):
    """The one statement that a step's entry is checks the worker's lease as every transaction does (F1)."""
    zombie = await register(store, "zombie", 0)
    uids = [f"r{n}" for n in range(runs)]
    await own(store, zombie, *uids)
    assert await store.reap() is not None
    with pytest.raises(Fenced):
        await store.commit(zombie, [entry(uid, 1) for uid in uids])
    assert [len(await store.read_journal(uid)) for uid in uids] == [1] * runs


@pytest.mark.parametrize("others", [0, 3])
async def test_a_plain_entry_with_a_stale_picture_does_not_land(store: SqliteStore, worker: str, others: int):
    """It checks the position and the mark before it too, and those beside a stale entry land (F2)."""
    uids = [f"r{n}" for n in range(others)]
    await own(store, worker, "stale", "ahead", "again", *uids)
    await land(store, worker, entry("again", 1))
    refusals = (entry("stale", 1, prev=5), entry("ahead", 2), entry("again", 1, mark=5))
    for seq, refused in enumerate(refusals, 1):
        batch = [refused, *(entry(uid, seq) for uid in uids)]
        assert await commit(store, worker, *batch) == [STALE] + [LANDED] * others
    assert await commit(store, worker, entry("again", 1)) == [LANDED]
    assert [len(await store.read_journal(uid)) for uid in ("stale", "ahead", "again", *uids)] == [1, 1, 2] + [
        4
    ] * others


# --- what no store can take -------------------------------------------------------------------------------------------

BAD_TEXTS = {"NUL": "a\0b", "half a surrogate pair": "a\ud800b"}


@pytest.mark.parametrize("text", BAD_TEXTS.values(), ids=BAD_TEXTS)
async def test_text_that_cannot_be_kept_is_refused(store: SqliteStore, worker: str, text: str):
    """A NUL or half a surrogate pair in a name is refused before it is in a group, with the run (D4, F8)."""
    await own(store, worker, "r")
    child = Progress(text, 0, effects=Effects(start=NewRun("x", "w", "v")))
    bad = [
        start("s", id=text),
        start("s", user=text),
        entry("r", 1, sends=(Send("r", message(text)),)),
        entry("r", 1, children=(child,)),
        park("r", waiting_on=text),
    ]
    for progress in bad:
        with pytest.raises(StoreRefused) as caught:
            await store.commit(worker, [progress])
        assert caught.value.run == progress.uid
    with pytest.raises(StoreRefused):
        await store.send("r", message(text))
    assert await marks_of(store, "r") == [mark_of(0)]
    assert await store.find_uid("s") is None


async def test_a_number_that_cannot_be_kept_is_refused(store: SqliteStore, worker: str):
    """What SQLite itself does not take is refused alone, and names its run; in a group nothing of the group happens."""
    await own(store, worker, "r", "s")
    bad = Progress("r", 1, at=1 << 64, mark=1, prev=mark_of(0), events=b"")
    with pytest.raises(StoreRefused) as caught:
        await store.commit(worker, [bad])
    assert caught.value.run == "r"
    with pytest.raises(StoreRefused):
        await store.commit(worker, [entry("s", 1), bad])
    assert [len(await store.read_journal(uid)) for uid in "rs"] == [1, 1]
