"""Another process on a SQLite store, for tests that need real ones: `python -m tests.stores.sqlite_peer ROLE FILE …`.

A peer says on standard output what it has done, a line at a time, and ends with 1 and a traceback on any error.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import uuid
from pathlib import Path

from outlast.core.states import RunStatus
from outlast.errors import StoreError
from outlast.stores.sqlite import SqliteStore
from outlast.stores.store import (
    Claiming,
    Effects,
    NewMessage,
    NewRun,
    Outcome,
    Progress,
    Release,
    RowChange,
    Send,
    Verdict,
    WorkerRow,
)

ROOT = Path(__file__).parents[2]
LEASE_US = 60_000_000
NOBODY = 65534


def spawn(role: str, *arguments: object, **options) -> subprocess.Popen[str]:
    """Start a peer."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.Popen(
        [sys.executable, "-m", "tests.stores.sqlite_peer", role, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        cwd=ROOT,
        **options,
    )


def finish(peer: subprocess.Popen[str], timeout: float = 30) -> str:
    """What it said, when it ended well."""
    out, err = peer.communicate(timeout=timeout)
    assert peer.returncode == 0, err
    return out


def say(*words: object) -> None:
    print(*words, flush=True)


# --- roles ------------------------------------------------------------------------------------------------------------


async def open_at_once(file: str) -> None:
    """Open when told, all together, and leave a run behind."""
    store = SqliteStore(f"sqlite:///{file}")
    say("ready")
    sys.stdin.readline()
    await store.open()
    uid = str(uuid.uuid4())
    await store.commit(None, [Progress(uid, 0, mark=1, effects=Effects(start=NewRun(uid, "w", "v")))])
    await store.close()


async def send_when_told(file: str, uid: str) -> None:
    """Send a message for each line that is read."""
    store = SqliteStore(f"sqlite:///{file}")
    await store.open()
    say("ready")
    for number, _ in enumerate(sys.stdin, 1):
        await store.send(uid, NewMessage(f"m{number}", "signal"))
    await store.close()


async def open_as_nobody(file: str) -> None:
    """Open as a user without rights, and say which error it was. The rights go late: Python itself may be secret."""
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    try:
        store = SqliteStore(f"sqlite:///{file}")
        await store.open()
        await store.close()
    except Exception as error:
        say(type(error).__name__, str(error))
    else:
        say("opened")


async def freeze_in_a_write(file: str) -> None:
    """Hold the file against everybody, and stop."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("begin immediate")
    say("ready")
    os.kill(os.getpid(), signal.SIGSTOP)


async def hold(file: str, seconds: str) -> None:
    """Hold the file against everybody for a while."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("begin immediate")
    say("ready")
    await asyncio.sleep(float(seconds))
    connection.execute("commit")
    connection.close()


async def limit_file_size(file: str) -> None:
    """Commit where no file may grow any more, then where it may."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    store = SqliteStore(f"sqlite:///{file}")
    await store.open()
    worker = "worker"
    await store.register(WorkerRow(worker, "host", 1), LEASE_US)
    begun = Effects(start=NewRun("r", "w", "v", claimed=True))
    await store.commit(worker, [Progress("r", 0, mark=1, effects=begun)])
    entry = Progress("r", 1, mark=2, prev=1, events=bytes(300_000), effects=Effects(row=RowChange(waiting_on="x")))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
    try:
        await store.commit(worker, [entry])
    except StoreError as error:
        say(type(error).__name__)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    [outcome] = await store.commit(worker, [entry])
    say(outcome.verdict.value)
    say("entries", len(await store.read_journal("r")))
    await store.close()


async def hammer(file: str) -> None:
    """Be a worker with clients until told to stop: start, move, send, park, claim and end runs. Says what the store has
    acknowledged."""
    store = SqliteStore(f"sqlite:///{file}")
    await store.open()
    told = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await Hammer(store, f"worker-{os.getpid()}").run(told)
    await store.close()


class Hammer:
    """A worker whose runs do nothing, as fast as they can."""

    def __init__(self, store: SqliteStore, worker: str) -> None:
        self.store = store
        self.worker = worker
        self.dice = random.Random(worker)
        self.heads: dict[str, tuple[int, int, int]] = {}  # of its runs: next position, last mark, epoch

    async def run(self, until: asyncio.Future[str]) -> None:
        await self.store.register(WorkerRow(self.worker, "host", os.getpid()), LEASE_US)
        loop = asyncio.get_running_loop()
        while not until.done():
            await self.start_some()
            await self.move_all()
            await self.park_some()
            await self.claim_some()
            renewed = await loop.run_in_executor(None, self.store.renew, self.worker, LEASE_US)
            assert renewed is not None
            await self.store.reap()
        await self.store.retire(self.worker)

    async def start_some(self) -> None:
        batch = []
        for _ in range(5):
            uid = str(uuid.UUID(int=self.dice.getrandbits(128)))
            batch.append(self.entry(uid, 0, 0, 1, Effects(start=NewRun(uid, "w", "v", claimed=True))))
        await self.commit(batch)

    async def move_all(self) -> None:
        """Plain entries for all, then one that sends to another run."""
        await self.commit([self.entry(uid, *head) for uid, head in self.heads.items()])
        if len(self.heads) > 1:
            sender, recipient = self.dice.sample([*self.heads], 2)
            message = NewMessage(f"{sender}-{self.heads[sender][0]}", "signal", b"1")
            effects = Effects(sends=(Send(recipient, message),))
            await self.commit([self.entry(sender, *self.heads[sender], effects)])
            say("sent", recipient, message.id)

    async def park_some(self) -> None:
        """Release half of the runs: due at once, asleep for good but for mail, or ended."""
        batch = []
        for uid in self.dice.sample([*self.heads], len(self.heads) // 2):
            seq, mark, epoch = self.heads[uid]
            inbox = await self.store.read_inbox(uid)
            consumed = tuple(message.no for message in inbox.messages)
            row = RowChange(release=Release(epoch, inbox.mail, self.dice.choice([0, None])))
            if self.dice.random() < 0.1 and not consumed:
                row = RowChange(status=RunStatus.COMPLETED, ended=True)
            batch.append(self.entry(uid, seq, mark, epoch, Effects(consumed=consumed, row=row)))
        await self.commit(batch)
        for progress in batch:
            del self.heads[progress.uid]

    async def claim_some(self) -> None:
        claiming = Claiming(self.worker, ("default",), "d", 20)
        for claimed in await self.store.claim(claiming):
            [last] = (await self.store.read_journal(claimed.uid, limit=100_000))[-1:]
            self.heads[claimed.uid] = (last.seq + 1, last.mark, claimed.epoch)

    def entry(self, uid: str, seq: int, prev: int, epoch: int, effects: Effects | None = None) -> Progress:
        mark = self.dice.getrandbits(63)
        self.heads[uid] = (seq + 1, mark, epoch)
        return Progress(uid, seq, at=1, mark=mark, prev=prev, events=b"[]", effects=effects)

    async def commit(self, batch: list[Progress]) -> None:
        outcomes = await self.store.commit(self.worker, batch)
        assert outcomes == [Outcome(Verdict.LANDED)] * len(batch), outcomes
        for progress in batch:
            say("landed", progress.uid, progress.seq, progress.mark)


ROLES = {
    role.__name__: role
    for role in (open_at_once, open_as_nobody, send_when_told, freeze_in_a_write, hold, limit_file_size, hammer)
}

if __name__ == "__main__":
    asyncio.run(ROLES[sys.argv[1]](*sys.argv[2:]))
