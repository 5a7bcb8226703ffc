"""One test's world: a store, a clock, a ledger, and the processes that live and die in it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from outlast.app import Outlast
from outlast.core.events import decode_events
from outlast.stores.store import RunRow
from tests.crash.checker import Problem, check_store
from tests.crash.flows import flows, make_app
from tests.crash.homes import make_home
from tests.crash.ledger import AppendFile, Ledger, Mark
from tests.crash.nursery import Request
from tests.crash.outputs import accepted_outputs
from tests.crash.worker_main import Settings

__all__ = ["Nursery", "Proc", "World", "until"]

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 30.0
T = TypeVar("T")


class Nursery:
    """The process that makes processes."""

    def __init__(self) -> None:
        environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment,
        )

    def ask(self, request: Request) -> int | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(request) + b"\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=int | None)

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.wait(PATIENCE_S)


class Proc:
    """A worker process."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery = nursery
        self.pid = pid

    @property
    def status(self) -> int | None:
        """None: it lives. Else what it returned, or minus the signal it died of."""
        status = self._nursery.ask(Request(poll=self.pid))
        return None if status is None else os.waitstatus_to_exitcode(status)

    def send(self, number: int) -> None:
        if self.status is None:
            os.kill(self.pid, number)

    @property
    def is_frozen(self) -> bool:
        """It is stopped by a signal. One that goes at this moment is not."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text()
        except OSError:
            return False
        return stat.rpartition(")")[2].split()[:1] == ["T"]

    async def frozen(self, patience_s: float = PATIENCE_S) -> None:
        """Wait until it is stopped."""
        await until(lambda: self.is_frozen, f"{self.pid} to freeze", patience_s)

    async def killed(self) -> None:
        """Kill it, and see it dead."""
        self.send(signal.SIGKILL)
        await self.gone()

    async def gone(self, patience_s: float = PATIENCE_S) -> int:
        """Wait for its end."""
        await until(lambda: self.status is not None, f"the end of process {self.pid}", patience_s)
        status = self.status
        assert status is not None
        return status


class World:
    """See the module's docstring."""

    def __init__(self, folder: Path, nursery: Nursery, backend: str = "sqlite") -> None:
        self.folder = folder
        self.backend = backend
        home = make_home(folder, backend)
        self.clock = home.clock
        self.ledger = Ledger(folder / "ledger", home.read_journal)
        self.procs: list[Proc] = []
        self.started: dict[str, tuple[str, list[Any]]] = {}
        """By id: every run that was asked for."""
        self.is_sealed = False
        """Values lie encrypted in the store; whoever comes has the key, unless it is told not to."""
        self._nursery = nursery

    # --- processes ----------------------------------------------------------------------------------------------------

    def spawn(self, **settings: Any) -> Proc:
        """A worker process, that may not have opened the store yet."""
        settings = {"key": self.is_sealed} | settings
        request = Request(Settings(str(self.folder), **settings), log=str(self.folder / "log"))
        pid = self._nursery.ask(request)
        assert pid is not None
        proc = Proc(self._nursery, pid)
        self.procs.append(proc)
        for workflow, arguments, id in settings.get("starts", ()):
            self.started[id] = (workflow, arguments)
        return proc

    async def spawn_ready(self, **settings: Any) -> Proc:
        """A worker process at work, that has started what it was to start."""
        proc = self.spawn(**settings)
        ids = {id for _, _, id in settings.get("starts", ())}
        await until(
            lambda: (proc.pid in self.told("ready") and ids <= {*self.told("started")}) or proc.status is not None,
            "a worker that is ready",
        )
        assert proc.status is None, f"it ended at once: {proc.status}\n{self.log()}"
        return proc

    async def close(self) -> None:
        for proc in self.procs:
            proc.send(signal.SIGKILL)
        for proc in self.procs:
            await proc.gone()

    def told(self, word: str) -> list[Any]:
        """What processes have said under this word."""
        return [line[word] for line in self.lines("told") if word in line]

    def deaths(self) -> list[str]:
        """Crash points at which processes died."""
        return [line["point"] for line in self.lines("deaths")]

    def warnings(self, pid: int, about: str) -> list[dict[str, Any]]:
        """What this process has warned of, with these words in it."""
        return [line for line in self.lines("records") if line["pid"] == pid and about in line["text"]]

    def log(self) -> str:
        """What they have logged."""
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def lines(self, name: str) -> list[Any]:
        """Of a file that processes append to."""
        return [msgspec.json.decode(line) for line in AppendFile(self.folder / name).lines()]

    # --- runs ---------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Outlast]:
        """The app in this process, without a worker."""
        async with make_app(self.folder, key=self.is_sealed) as app:
            yield app

    async def start(self, app: Outlast, workflow: str, *arguments: Any, id: str) -> None:
        """A run, due for whoever comes."""
        self.started[id] = (workflow, list(arguments))
        await app.start(f"crash:{workflow}", *arguments, id=id)

    async def cancel(self, app: Outlast, id: str) -> None:
        """Ask it to stop, and note whether that was acknowledged."""
        heard = await (await app.get_run(id)).cancel("enough")
        AppendFile(self.folder / "told").append({"cancelled": id, "heard": heard})

    async def rows(self, app: Outlast) -> dict[str, RunRow]:
        """All runs by id."""
        found = {id: await app._store.find_run(id) for id in self.started}
        return {id: row for id, row in found.items() if row is not None}

    async def forget_unstarted(self, app: Outlast) -> None:
        """Runs whose start was neither acknowledged nor made never were."""
        rows, acknowledged = await self.rows(app), self.told("started")
        self.started = {id: run for id, run in self.started.items() if id in rows or id in acknowledged}

    async def all_ended(self, app: Outlast, patience_s: float = PATIENCE_S) -> None:
        """Wait until no run that was started lives. When all that do are only due later, it is later.

        Patience is with runs that stand still: however slow the machine is, something is done or ends all the time."""
        deadline, done = time.monotonic() + patience_s, (0, 0)
        while True:
            rows = await self.rows(app)
            dues = [None if row.owner else row.wake_at for row in rows.values() if row.live]
            if dues and None not in dues and (due := min(filter(None, dues)) - self.clock()) > 1_000_000:
                self.clock.add(due / 1e6)
            live = {id: (str(row.status), row.waiting_on) for id, row in rows.items() if row.live}
            if not live and len(rows) == len(self.started):
                return
            if (now := (len(self.ledger.marks()), len(live))) != done:
                deadline, done = time.monotonic() + patience_s, now
            missing = self.started.keys() - rows.keys()
            assert time.monotonic() < deadline, f"not ended: {live}; not there: {missing}\n{self.log()[-6000:]}"
            await asyncio.sleep(0.02)

    def marks(self, uid: str, what: str = "before") -> list[Mark]:
        """The ledger's lines about one run."""
        return [mark for mark in self.ledger.marks() if (mark.uid, mark.what) == (uid, what)]

    async def bury(self, app: Outlast) -> None:
        """Time passes until somebody has noticed that all workers are dead, and what they had is due again."""
        self.clock.add(60)
        while await app._store.reap() is not None:
            pass
        self.clock.add(700)

    async def events(self, app: Outlast, kind: type[T], id: str = "") -> list[T]:
        """Of this kind, in all journals or in this run's."""
        found: list[T] = []
        for row in (await self.rows(app)).values():
            if id in {"", row.id}:
                for entry in await app._store.read_journal(row.uid):
                    found += [event for event in decode_events(entry.events) if isinstance(event, kind)]
        return found

    async def count(self, app: Outlast, kind: type) -> int:
        """Events of this kind in all journals."""
        return len(await self.events(app, kind))

    # --- judging ------------------------------------------------------------------------------------------------------

    async def check(self, app: Outlast, *, replays: bool = True, are_parked: bool = False, once: bool = True) -> None:
        """Every invariant, over every journal and the whole ledger; and every acknowledged run has its result."""
        problems = await self.find_problems(app, replays=replays, are_parked=are_parked, once=once)
        assert not problems, "\n".join(map(str, problems)) + "\n" + self.log()[-6000:]

    async def find_problems(
        self, app: Outlast, *, replays: bool = True, are_parked: bool = False, once: bool = True
    ) -> list[Problem]:
        """Without `replays` no body is run here: some kill whoever does. Without `once` a step that must not happen
        twice may have: a process frozen between its last look at the lease and the step cannot know (PROTOCOL F6)."""
        registry = flows if replays else None
        marks = self.ledger.marks()
        problems = await check_store(
            app._store, registry=registry, marks=marks, are_parked=are_parked, payloads=app._payloads
        )
        begun = Counter(mark.uid for mark in marks if (mark.what, mark.key) == ("before", "crash:once"))
        problems += [Problem(uid, f"ran its step {n} times") for uid, n in begun.items() if once and n > 1]
        rows = await self.rows(app)
        for id, (workflow, arguments) in self.started.items():
            if id in rows and str(rows[id].status) == "completed" and workflow != "cleaning":
                output = await (await app.get_run(id)).result(timeout=PATIENCE_S)
                if output not in accepted_outputs(workflow, arguments):
                    problems.append(Problem(rows[id].uid, f"{workflow} of run {id} ended with {output!r}"))
        for id, row in rows.items():
            if row.workflow == "crash:saga" and not row.live and str(row.status) != "compensated":
                problems.append(Problem(row.uid, f"run {id} was to be undone, and is {row.status}"))
        for id in self.told("started"):
            if id not in rows:
                problems.append(Problem(id, "was acknowledged, and is not there"))
        for line in self.lines("told"):
            if line.get("heard") and str(rows[line["cancelled"]].status) != "cancelled":
                problems.append(Problem(line["cancelled"], f"was cancelled, and is {rows[line['cancelled']].status}"))
        for id, (workflow, _) in self.started.items():
            if workflow == "cleaning" and id in rows and len(self.marks(rows[id].uid, "after")) < 2:
                problems.append(Problem(rows[id].uid, "did not clean up"))
        return problems


async def until(condition: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    """Wait for something that another process does."""
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        await asyncio.sleep(0.005)
