"""A deploy, with real processes: 200 runs in all stages, workers of version 1, then of version 2, then of version 1."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path

import pytest

from outlast import Outlast, RunEnded, RunInfo, RunSummary
from tests.cli.commands import begin
from tests.versions.fleet import NEW, OLD

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.timeout(400)]

RUNS = 200
PATIENCE_S = 120
WORKFLOWS = ("compatible", "planned", "incompatible")
DONE = {
    "compatible": ["first", "second"],
    "planned": ["first", "second", "second"],
    "incompatible": ["first", "second"],
}
"""What version 1 does."""


class Fleet:
    """Worker processes in a folder with both versions, and their runs."""

    def __init__(self, folder: Path, app: Outlast) -> None:
        self.folder = folder
        self.app = app
        self.answering: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._workers: list[subprocess.Popen[str]] = []

    def start(self, version: str, count: int) -> list[subprocess.Popen[str]]:
        """Workers of this version."""
        queues = ("default", "later") if version == "new" else ("default",)
        log = ("--log-level", "error")  # nobody reads what they say
        command = (
            "worker",
            f"{version}/shop.py",
            "--lease",
            "3s",
            *log,
            *(word for q in queues for word in ("--queue", q)),
        )
        started = [begin(self.folder, *command) for _ in range(count)]
        self._workers += started
        return started

    async def stop(self, worker: subprocess.Popen[str], how: signal.Signals) -> None:
        worker.send_signal(how)
        await asyncio.to_thread(worker.communicate)
        self._workers.remove(worker)

    async def stop_all(self) -> None:
        for worker in list(self._workers):
            await self.stop(worker, signal.SIGTERM)

    async def statuses(self) -> dict[str, RunInfo]:
        """How all runs stand, by id."""
        runs = [await self.app.get_run(f"{name} {n}") for n, name in enumerate_runs()]
        return {run.id: await run.status() for run in runs}

    async def until(self, condition: Callable[[list[RunSummary]], bool]) -> None:
        """The rows of all runs fit."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not condition(await self.rows()):
                    await asyncio.sleep(0.2)
        except TimeoutError:
            stuck = [(row.id, row.status, row.waiting_on, row.due_at) for row in await self.rows()]
            raise AssertionError([told for told in stuck if told[1] != "completed"]) from None

    async def rows(self) -> list[RunSummary]:
        """Of all but children."""
        return [row for name in WORKFLOWS for row in (await self.app.runs(workflow=name, limit=RUNS)).runs]

    async def answer(self) -> None:
        """Send what is waited for, once to each run, for ever."""
        answered = set[str]()
        while True:
            for wait in await self.app.waits(limit=500):
                if wait.run_id not in answered:
                    answered.add(wait.run_id)
                    with contextlib.suppress(RunEnded):
                        await (await self.app.get_run(wait.run_id)).signal(wait.name)
            await asyncio.sleep(0.2)


def enumerate_runs() -> list[tuple[int, str]]:
    return [(n, WORKFLOWS[n % 3]) for n in range(RUNS)]


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    for version, source in (("old", OLD), ("new", NEW)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "shop.py").write_text(source)
    async with Outlast(f"sqlite:///{tmp_path}/shop.db") as app:
        fleet = Fleet(tmp_path, app)
        yield fleet
        fleet.answering.cancel()
        for worker in list(fleet._workers):
            worker.kill()
            worker.communicate()


async def start_all(fleet: Fleet) -> None:
    """From a process that has version 1; some on a queue that only version 2 serves. They wait for different things."""
    code = f"""
import asyncio, sys
sys.path.insert(0, "old")
from shop import app
async def main():
    async with app:
        for n in range({RUNS}):
            name = {WORKFLOWS!r}[n % 3]
            queue = "later" if n % 10 == 9 else "default"
            await app.start(name, n, (n // 12 % 3) * 2.5, id=f"{{name}} {{n}}", queue=queue)
asyncio.run(main())
"""
    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", code], cwd=fleet.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


async def test_a_deploy_strands_no_run(fleet: Fleet) -> None:
    """What fits goes on with version 2, what has a plan ends by it as version 1 would have; the rest waits, with its
    reason, for a worker of version 1."""  # SPEC V3, V4
    await start_all(fleet)
    door = fleet.folder / "closed"
    door.touch()
    killed, drained = fleet.start("old", 2)
    async with asyncio.timeout(PATIENCE_S):
        while not are_in_all_stages((await fleet.statuses()).values()):
            await asyncio.sleep(0.5)
    await fleet.stop(killed, signal.SIGKILL)
    await fleet.stop(drained, signal.SIGTERM)
    before = await fleet.statuses()
    begun = {id for id, info in before.items() if info.steps}
    ended = {id for id, info in before.items() if info.status == "completed"}
    assert begun - ended
    assert set(before) - begun

    mortal, _ = fleet.start("new", 2)
    door.unlink()
    fleet.answering = asyncio.create_task(fleet.answer())
    await fleet.until(lambda rows: sum(row.status == "completed" for row in rows) > len(ended) + RUNS // 8)
    await fleet.stop(mortal, signal.SIGKILL)
    fleet.start("new", 1)
    await fleet.until(lambda rows: all(row.status in {"completed", "suspended"} for row in rows))
    middle = await fleet.statuses()
    for n, name in enumerate_runs():
        check_after_deploy(n, name, middle[f"{name} {n}"], begun, ended)
    await fleet.stop_all()
    for id in [id for id, info in middle.items() if info.status == "suspended"][:5]:
        timeline = await (await fleet.app.get_run(id)).timeline()
        (reason,) = [item.detail for item in timeline if item.kind == "suspended"]
        assert "the journal (version" in reason
        assert "import math" in reason

    fleet.start("old", 1)
    await fleet.until(lambda rows: all(row.status == "completed" for row in rows))
    after = await fleet.statuses()
    for n, name in enumerate_runs():
        if f"{name} {n}" in begun and name != "compatible":
            assert after[f"{name} {n}"].output == [f"{step} {n}" for step in DONE[name]]
    await fleet.stop_all()
    assert {run.status for run in (await fleet.app.runs(workflow="errand", limit=RUNS)).runs} == {"completed"}
    check_ledger(fleet.folder / "ledger.txt")


STAGES = ("sleep", "signal", "step pass_door", "child")


def are_in_all_stages(infos: Collection[RunInfo]) -> bool:
    """Some have ended, some have not begun; others sleep, are retried, and wait for signals and for children."""
    begun = [info.waiting_on for info in infos if info.status == "running"]
    has_each = all(any(waiting.startswith(stage) for waiting in begun) for stage in STAGES)
    return has_each and {"queued", "completed"} <= {info.status for info in infos} and len(begun) > RUNS // 4


def check_after_deploy(n: int, name: str, info: RunInfo, begun: set[str], ended: set[str]) -> None:
    """What became of a run when only version 2 was there."""
    old = [f"{step} {n}" for step in DONE[name]]
    if info.id in ended or (name == "planned" and info.id in begun):
        assert info.output == old, info
    elif name == "compatible":
        assert info.output == [*old, f"extra {n}"], info
    elif info.id in begun:
        assert (info.status, info.waiting_on) == ("suspended", "VERSION_CONFLICT"), info
    else:
        assert info.output == [f"extra {n}"], info


def check_ledger(path: Path) -> None:
    """Each effect under ids of its own; twice at most for what a killed worker was doing."""
    lines = [line.rsplit(" ", 1) for line in path.read_text().splitlines()]
    ids = collections.defaultdict(set)
    for what, invocation in lines:
        ids[what].add(invocation)
    for what, known in ids.items():
        n = int(what.split()[1])
        assert len(known) == (2 if what.startswith("second") and n % 3 == 1 else 1), what
    assert len(lines) < sum(map(len, ids.values())) + 60
