"""Queued steps whose values go through codecs: nothing of them lies in the store in the clear (SPEC D2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from outlast.app import Outlast
from outlast.engine.tasks import unread
from outlast.payloads import Encrypt
from tests.tasks.flows import flows, gates
from tests.tasks.world import eventually, step_of

KEY = bytes(range(32))


@asynccontextmanager
async def working(folder: Path, *queues: str, key: bytes | None = KEY, name: str = "k1") -> AsyncIterator[Outlast]:
    app = Outlast(f"sqlite:///{folder}/store.db", codecs=() if key is None else (Encrypt({name: key}),))
    app.include(flows)
    async with app.worker(queues=queues):
        yield app


async def test_what_a_queued_step_gets_says_and_gives_is_sealed(tmp_path: Path):
    """Its arguments, its progress and its result are read by workers that have the key, and by nobody else."""
    gates.reset()
    async with working(tmp_path, "default") as home, working(tmp_path, "gpu"):
        run = await home.start("t:hold", ["sesame"])
        await eventually(lambda: gates.began["sesame"], "the step")
        telling = await home.start("t:tell")
        await eventually(lambda: _progress(telling), "progress")
        rows = await home._store.list_tasks(telling.uid)
        assert b"$outlast:codec" in rows[0].progress
        gates.open.set()
        assert await run.result(20) == ["sesame!"]
        assert await telling.result(20) == "told"
    stored = _read_all(tmp_path)
    assert b"t:telling" in stored
    assert [text for text in (b'{"name":"sesame"', b"sesame!", b"told", b'{"at":1}') if text in stored] == []


async def test_a_queued_step_waits_for_a_worker_that_has_its_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """One without the key, or with another, gives it back and says so once: that is no failure and costs no attempt
    of steps that have but one."""
    monkeypatch.setattr(unread, "FIRST_DELAY_US", 20_000)
    monkeypatch.setattr(unread, "LAST_DELAY_US", 50_000)
    gates.reset()
    gates.open.set()
    async with working(tmp_path, "default") as home:
        async with working(tmp_path, "gpu", key=None), working(tmp_path, "gpu", key=bytes(32), name="k2"):
            run = await home.start("t:hold", ["sesame", "seeds"])
            await eventually(lambda: _count_warnings(caplog) == 4, "each worker's warning, of each step")
            await asyncio.sleep(0.3)  # several times more
            assert not gates.began
            assert [step.status for step in (await run.status()).steps] == ["pending"] * 2
        assert _count_warnings(caplog) == 4
        async with working(tmp_path, "gpu"):
            assert await run.result(20) == ["sesame!", "seeds!"]
        assert [(each.attempt, each.status) for each in await run.history()] == [(1, "succeeded")] * 2


def _count_warnings(caplog: pytest.LogCaptureFixture) -> int:
    texts = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    return sum("cannot be read here without aes-gcm:k1: it is left to one of queue gpu" in text for text in texts)


async def _progress(run) -> object:
    return (await step_of(run, "t:telling")).progress if (await run.status()).steps else None


def _read_all(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("store.db*"))
