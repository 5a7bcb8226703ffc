"""Queued steps whose values go through codecs: nothing of them lies in the store in the clear (SPEC D2)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from outlast.app import Outlast
from outlast.payloads import Encrypt
from tests.tasks.flows import flows, gates
from tests.tasks.world import eventually, step_of

KEY = bytes(range(32))


@asynccontextmanager
async def working(folder: Path, *queues: str, key: bytes | None = KEY) -> AsyncIterator[Outlast]:
    app = Outlast(f"sqlite:///{folder}/store.db", codecs=() if key is None else (Encrypt({"k1": key}),))
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


async def _progress(run) -> object:
    return (await step_of(run, "t:telling")).progress if (await run.status()).steps else None


def _read_all(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("store.db*"))
