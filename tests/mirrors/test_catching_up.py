"""Catching up after a process died between a commit and its mirrors (SPEC O4)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from outlast import Context, JsonLinesMirror, Outlast, SqlMirror
from outlast.mirrors.catching_up import CaughtUp, catch_up
from outlast.telemetry.observer import Landed
from tests.cli.commands import call

APP = """
import asyncio, sys
from outlast import Context, JsonLinesMirror, Outlast, SqlMirror

app = Outlast("sqlite:///x.db", mirrors=[JsonLinesMirror("m.jsonl", rotate_at=20_000), SqlMirror("sqlite:///m.db")])

@app.step(name="double")
async def double(n: int) -> int:
    return n * 2

@app.workflow(name="twice")
async def twice(ctx: Context, n: int) -> int:
    return await double(await double(n))

async def main() -> None:
    async with app.worker():
        for number in range(100_000):
            run = await app.start(twice, number)
            await run.result()
            print(number, flush=True)

if __name__ == "__main__":
    asyncio.run(main())
"""


def lines_of(mirror: JsonLinesMirror) -> dict[tuple[str, int], object]:
    found = [json.loads(line) for path in mirror.files() for line in path.read_bytes().splitlines()]
    return {(line["uid"], line["seq"]): line["events"] for line in found}


def table(path: Path, text: str) -> list[Any]:
    with sqlite3.connect(path) as file:
        return file.execute(text).fetchall()


# SPEC O4 L10
@pytest.mark.process
@pytest.mark.slow
def test_killed_beside_a_mirror(tmp_path, monkeypatch) -> None:
    """kill -9 at any instant, three times: what landed and was not mirrored is seen, and copied; then every copy is
    what the store holds, entry by entry, and once more nothing is missing."""
    (tmp_path / "app.py").write_text(APP)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    for moment in (5, 23, 60):
        process = subprocess.Popen(
            [sys.executable, "app.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True, env=environment
        )
        assert process.stdout is not None
        for _ in range(moment):
            assert process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait(20)
        process.stdout.close()
    monkeypatch.chdir(tmp_path)
    for target in ("file://m.jsonl", "sqlite:///m.db"):
        words = ("mirror", "--from", "sqlite:///x.db", "--to", target)
        missing = call(*words, "--check", "--json")
        assert missing.document["runs"] >= 88
        assert missing.code == (1 if missing.document["entries"] else 0)
        assert call(*words, "--json").document["entries"] == missing.document["entries"]
        again = call(*words, "--check")
        assert (again.code, "0 entries of 0 of them are missing" in again.out) == (0, True)
    journal = table(Path("x.db"), "select run_uid, seq, events from journal")
    stored = {(uid, seq): json.loads(events) for uid, seq, events in journal}
    assert lines_of(JsonLinesMirror("m.jsonl")) == stored
    rows = table(Path("m.db"), "select uid, seq, data from outlast_events order by uid, seq, position")
    copied: dict[tuple[object, object], list[object]] = {}
    for uid, seq, data in rows:
        copied.setdefault((uid, seq), []).append(json.loads(str(data)))
    assert copied == stored
    statuses = dict(table(Path("m.db"), "select uid, status from outlast_runs"))
    ended = dict(table(Path("x.db"), "select uid, status from runs where live = 0"))
    assert {uid: statuses[uid] for uid in ended} == ended


class Kept:
    """A mirror that says nothing of what it has."""

    def __init__(self) -> None:
        self.entries: list[Landed] = []

    async def positions(self, uids: Sequence[str]) -> dict[str, int]:
        return {}

    async def write(self, batch: Sequence[Landed]) -> None:
        self.entries += batch


async def test_all_runs_are_gone_through_in_pages(monkeypatch) -> None:
    """However many; long journals in parts; what is done so far is told."""
    monkeypatch.setattr("outlast.mirrors.catching_up.RUNS_AT_ONCE", 3)
    monkeypatch.setattr("outlast.mirrors.catching_up.ENTRIES_AT_ONCE", 2)
    app = Outlast("memory://")

    @app.step(name="step")
    async def step(n: int) -> int:
        return n

    @app.workflow(name="walk")
    async def walk(ctx: Context, n: int) -> None:
        for number in range(n):
            await step(number)

    async with app.worker():
        runs = [await app.start("walk", number) for number in range(8)]
        for run in runs:
            await run.result(timeout=20)
        store, kept, told = app._here().store, Kept(), list[CaughtUp]()
        looked = await catch_up(store, kept, only_look=True)
        assert kept.entries == []
        done = await catch_up(store, kept, on_progress=told.append)
        assert done == looked == told[-1]
        assert (done.runs, done.incomplete, len(told)) == (8, 8, 3)
        assert done.entries == len(kept.entries) == len({(entry.uid, entry.seq) for entry in kept.entries})
        for run in runs:
            assert [entry.seq for entry in kept.entries if entry.uid == run.uid] == [
                entry.seq for entry in await store.read_journal(run.uid)
            ]


async def test_an_app_catches_up_on_its_own_mirrors(tmp_path) -> None:
    """Runs from before it had any: copied in their threads, beside what lands."""
    url = f"sqlite:///{tmp_path}/x.db"

    def make(*mirrors: object) -> Outlast:
        app = Outlast(url, mirrors=mirrors)  # type: ignore[arg-type]

        @app.workflow(name="nothing")
        async def nothing(ctx: Context) -> None: ...

        return app

    async with (old := make()).worker():
        for _ in range(5):
            await (await old.start("nothing")).result(timeout=20)
    file, database = JsonLinesMirror(tmp_path / "m.jsonl"), SqlMirror(f"sqlite:///{tmp_path}/m.db")
    async with (app := make(file, database)).worker():
        await (await app.start("nothing")).result(timeout=20)
        async with asyncio.timeout(20):
            while any(info.waiting for info in app.mirrors()):
                await asyncio.sleep(0.001)
        done = await app.mirror_catch_up()
        assert {name: (each.runs, each.incomplete) for name, each in done.items()} == {
            "m.jsonl": (6, 5), f"sql:{tmp_path}/m.db": (6, 5),
        }  # fmt: skip
    assert table(tmp_path / "m.db", "select count(*) from outlast_runs where status = 'completed'") == [(6,)]
    assert len({uid for uid, _ in lines_of(file)}) == 6


def test_a_process_that_dies_at_once_is_no_trouble(tmp_path, monkeypatch) -> None:
    """A mirror of nothing: everything is missing, and nothing fails for want of a file."""
    monkeypatch.chdir(tmp_path)
    app = Outlast("sqlite:///x.db")

    @app.workflow(name="nothing")
    async def nothing(ctx: Context) -> None: ...

    app.run_sync("nothing")
    began = time.monotonic()
    done = call("mirror", "--store", "sqlite:///x.db", "--to", "file://m.jsonl", "--check")
    assert (done.code, "of 1 of them are missing" in done.out) == (1, True)
    assert call("mirror", "--store", "sqlite:///x.db", "--to", "file://m.jsonl").code == 0
    assert time.monotonic() - began < 20
