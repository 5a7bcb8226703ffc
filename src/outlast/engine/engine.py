"""The engine of one open app: starts, waits, steers. Layer: engine.

A process may start and steer runs without working any; with a worker beside it, a start is claimed in its own commit
and thought ahead. What always holds: what `start` and `send` acknowledge is durable; nobody but a run's owner writes
its journal, save for a start, and a retry of a run nobody owns (PROTOCOL, who may write an entry).
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import Executor
from types import MappingProxyType
from typing import TYPE_CHECKING, cast

import msgspec

from outlast.core.events import (
    OUTCOMES,
    Event,
    RunCompleted,
    RunOutcome,
    RunReopened,
    encode_events,
)
from outlast.core.lineage.forking import find_fork, list_forks, list_results
from outlast.core.reopening import find_cut
from outlast.core.states import RunStatus
from outlast.engine.changes import Changes
from outlast.engine.claims.pools import RunShares
from outlast.engine.clock import StoreClock, boottime_us
from outlast.engine.ids import new_mark, new_uid
from outlast.engine.messages.waits import show_waits
from outlast.engine.starting import Start, Starter, start_traced
from outlast.engine.tasks.queues import QueueSettings
from outlast.engine.versions.keeping import VersionKeeper
from outlast.engine.versions.serving import python_version
from outlast.engine.worker import Worker, WorkerSettings
from outlast.engine.writer import Writer
from outlast.errors import InvalidSetting, RunNotFailed, RunNotFound
from outlast.payloads import Payloads, seal_progress, with_payloads
from outlast.stores.store import (
    Effects,
    Entry,
    NewMessage,
    Outcome,
    Progress,
    RowChange,
    RunRow,
    Sent,
    Store,
    Verdict,
)
from outlast.telemetry.audit import Audit
from outlast.telemetry.observer import Observers

if TYPE_CHECKING:
    from outlast.authoring.module import Module
    from outlast.authoring.workflow import Workflow
    from outlast.telemetry.tracing import Tracing

__all__ = ["Engine", "WorkDone"]

PAGE = 1000
"""Entries that are read at once."""
KEYS_TOLD = 30
"""In an error; a run may have called thousands."""


class WorkDone(msgspec.Struct, frozen=True):
    """What `work_until_idle` did."""

    entries: int
    """Entries written: starts, steps, ends."""
    ended: int
    """Runs that ended."""
    next_at: int | None
    """µs: when the next run is due, if one is known."""


class Engine:
    """One for each app; opened and closed by reference count."""

    def __init__(
        self,
        store: Store,
        registry: Module,
        *,
        dev: bool,
        executors: Mapping[str, Executor],
        log: logging.Logger,
        observers: Observers | None = None,
        payloads: Payloads | None = None,
        queues: Mapping[str, QueueSettings] = MappingProxyType({}),
        audit: Audit | None = None,
        tracing: Tracing | None = None,
        fails_on_conflict: bool = False,
    ) -> None:
        self.payloads = Payloads() if payloads is None else payloads
        self.store = with_payloads(store, self.payloads)
        self.tracing = tracing
        self.registry = registry
        self.dev = dev
        self.executors = executors
        self.queues = queues
        self.log = log
        self.clock = StoreClock()
        self.observers = Observers() if observers is None else observers
        self.audit = Audit() if audit is None else audit
        self.writer = Writer(store, self._on_fenced, self.trouble, self.observers, self.payloads)
        self.worker: Worker | None = None
        self.changes = Changes(store, self._is_hot)
        self.versions = VersionKeeper(self.store, registry, self.payloads, log, fails_on_conflict=fails_on_conflict)
        self.shares = RunShares(registry, queues)
        self._starter = Starter(self)
        self._known: tuple[str, ...] | None = None
        self._deploy = ""
        self.ended = 0
        self._open = 0
        self._opening = asyncio.Lock()
        self._had_trouble = False

    # --- opening ------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the store, unless it is; raises what `Store.open` does. Each call has its `close`."""
        async with self._opening:
            if self._open == 0:
                await self.store.open()
                self.clock.set(await self.store.now())
                self.writer.open()
            self._open += 1

    async def close(self) -> None:
        """The last one writes what was submitted, and closes the store."""
        async with self._opening:
            self._open -= 1
            if self._open == 0:
                await self.writer.close()
                await self.audit.close()
                self.changes.close()
                self.versions.forget()
                await self.store.close()

    @property
    def deploy(self) -> str:
        """Fingerprint of what this process can do: names and versions of all it knows, the keys it has, its Python."""
        known = (*self.registry.functions(), *self.payloads.readable)
        if known != self._known:  # asked for at each look for work; a name is never given twice
            self._known, find = known, self.registry.find_workflow
            versions = [f"{name}={getattr(find(name), 'version', '')}" for name in self.registry.functions()]
            versions += [*self.payloads.readable, python_version()]
            self._deploy = hashlib.sha256("\n".join(sorted(versions)).encode()).hexdigest()[:16]
        return self._deploy

    def trouble(self) -> None:
        """The store had an error: an answer may have been lost, so reconcile soon."""
        self._had_trouble = True

    def take_trouble(self) -> bool:
        """Whether it had one since this was last asked."""
        had, self._had_trouble = self._had_trouble, False
        return had

    def _on_fenced(self, worker_id: str) -> None:
        if self.worker is not None:
            self.worker.on_fenced(worker_id)

    def moved(self, uid: str, end: RunOutcome | None, left: bool) -> None:
        """An entry of the run landed; with `end`, its last. `left`: this process moves it no longer."""
        if end is not None:
            self.ended += 1
        self.changes.moved(uid, end, left=left)

    # --- starting -----------------------------------------------------------------------------------------------------

    async def start(self, workflow: Workflow[..., object], input: bytes, start: Start) -> tuple[str, str]:
        """Commit the run's row and its entry 0; gives (uid, id). Once it returns, the run will happen.

        Raises RunExists (on_conflict="raise", or "restart" of a run that has not ended) and RunConflict;
        InvalidDefinition for a graph whose functions are not there, or do not fit.
        """
        return await start_traced(
            self.tracing, workflow.name, start, lambda traced: self._starter.start(workflow, input, traced)
        )

    # --- reading ------------------------------------------------------------------------------------------------------

    async def get_row(self, uid: str) -> RunRow:
        """The run's row. Raises RunNotFound."""
        row = await self.store.find_uid(uid)
        if row is None:
            raise RunNotFound(uid)
        return row

    async def wait_outcome(self, uid: str, timeout_s: float | None) -> RunOutcome:
        """The event that ended the run, in its last round: at once when it ends in this process, else by hints and
        polling. Raises TimeoutError, and RunNotFound."""
        async with asyncio.timeout(timeout_s):
            while True:
                end = await self._wait_round(uid)
                if not isinstance(end, RunCompleted) or not end.next:
                    return end
                uid = await self.find_last(uid) or end.next

    async def find_last(self, uid: str) -> str | None:
        """uid of the last round, as far as is known now, of the run that this is a round of; None: it is not there.

        It may go on at any time; what is sent to any round reaches the last."""
        row = await self.store.find_uid(uid)
        if row is None or row.next is None:
            return None if row is None else uid
        first = row if row.origin is None else await self.store.find_uid(row.origin)
        return row.next if first is None else first.next

    async def _wait_round(self, uid: str) -> RunOutcome:
        with self.changes.watching(uid, only_end=True) as watch:
            while True:
                if watch.end is not None:
                    return watch.end
                is_hot = self._is_hot(uid)
                if not is_hot:
                    row = await self.get_row(uid)
                    if not row.live:
                        return await self._read_outcome(uid)
                    is_hot = self._is_hot(uid)
                await watch.wait(is_hot=is_hot)

    def _is_hot(self, uid: str) -> bool:
        """Whether this process moves the run itself, and so hears of its end without asking."""
        return self.worker is not None and self.worker.home is not None and self.worker.home.find(uid) is not None

    async def _read_outcome(self, uid: str) -> RunOutcome:
        for entry, events in reversed(await self.read_events(uid, looking=True)):
            if any(type(event) in OUTCOMES for event in events):
                read = self.payloads.decode_events(uid, entry.events)
                return cast(RunOutcome, next(event for event in reversed(read) if type(event) in OUTCOMES))
        raise RunNotFound(uid)

    async def read_events(
        self, uid: str, *, after: int = -1, most: int | None = None, looking: bool = False
    ) -> list[tuple[Entry, list[Event]]]:
        """The journal behind a position, decoded; with `most`, entries until there are so many events. Raises
        PayloadUnreadable; for who is only `looking`, a payload that cannot be read here is a `Sealed` instead."""
        read: list[tuple[Entry, list[Event]]] = []
        count, limit = 0, PAGE if most is None else max(min(most, PAGE), 1)
        decode, on_unreadable = self.payloads.decode_events, (lambda _: None) if looking else None
        while True:
            entries = await self.store.read_journal(uid, after=after, limit=limit)
            read += [(entry, decode(uid, entry.events, on_unreadable)) for entry in entries]
            count += sum(len(events) for _, events in read[-len(entries) :]) if entries else 0
            if len(entries) < limit or (most is not None and count >= most):
                return read
            after = entries[-1].seq

    async def follow(self, uid: str) -> AsyncGenerator[None, None]:
        """Yields whenever the run's journal may have grown."""
        with self.changes.watching(uid) as watch:
            while True:
                yield
                await watch.wait()

    # --- steering -----------------------------------------------------------------------------------------------------

    async def send(self, uid: str, kind: str, payload: bytes, *, message_id: str | None = None) -> Sent:
        """Put a message into the run's inbox; durable once it returns."""
        sent = await self.store.send(uid, NewMessage(message_id or new_uid(self.clock.now_us()), kind, payload))
        if self.worker is not None:
            self.worker.claims.wake()
        return sent

    async def retry(self, row: RunRow) -> None:
        """Go on from what failed (SPEC R10). Written by us, under the row's lock, since nobody owns an ended run."""
        while row.status is RunStatus.FAILED and row.owner is None:
            read = await self.read_events(row.uid, looking=True)
            last = read[-1][0]
            events = [event for _, batch in read for event in batch]
            at = max(self.clock.now_us(), last.at)
            reopened = RunReopened(at, "retry", find_cut(events))
            effects = Effects(
                unowned=RunStatus.FAILED,
                waits_opened=show_waits([*events, reopened]),
                row=RowChange(status=RunStatus.QUEUED, waiting_on="", error=b"", reopened=True),
            )
            progress = Progress(row.uid, last.seq + 1, at, new_mark(), last.mark, encode_events([reopened]), effects)
            outcome = await self.commit_alone(progress)
            # CRASH: the run is due again, and whoever asked does not know. [test_killed_at[reopened-and-not-told]]
            if outcome.verdict is Verdict.LANDED:
                self.changes.moved(row.uid, None)
                if self.worker is not None:
                    self.worker.claims.wake()
                return
            row = await self.get_row(row.uid)
        raise RunNotFailed(row.id, row.status)

    async def commit_alone(self, progress: Progress) -> Outcome:
        """Write an entry as a client, beside the writer: for runs nobody owns. Raises what `Store.commit` does."""
        sealed = seal_progress(progress, self.payloads)
        answers = await self.store.commit(None, [sealed])
        self.writer.report([sealed], answers)
        return answers[0]

    async def fork(self, row: RunRow, at: str, id: str | None, results: Mapping[str, msgspec.Raw]) -> tuple[str, str]:
        """Start a new run from a copy of the journal before a step; gives (uid, id). See `Run.fork`."""
        events = [event for _, batch in await self.read_events(row.uid) for event in batch]
        cut = find_fork(events, at)
        if cut is None:
            raise InvalidSetting(
                "at", at, f"the key of a step that run {row.id!r} has called: {_tell(list_forks(events))}"
            )
        known = list_results(events[:cut])
        for key in results:
            if key not in known:
                expected = f"keys of steps that succeeded before {at!r}: {_tell(known)}"
                raise InvalidSetting("results", key, expected)
        return await self._starter.fork(row, events[:cut], at, id, results)

    # --- working ------------------------------------------------------------------------------------------------------

    def make_worker(self, settings: WorkerSettings) -> Worker:
        """Works runs while it is entered; it opens the engine itself."""
        return Worker(self, settings)

    async def work_until_idle(self, timeout_s: float | None, settings: WorkerSettings) -> WorkDone:
        """Sweep, work what is due, hand the rest back (SPEC L12)."""
        entries, ended = self.writer.entries, self.ended
        async with self.make_worker(settings) as worker:
            next_at = await _work_until_idle(worker, timeout_s)
        return WorkDone(self.writer.entries - entries, self.ended - ended, next_at)


def _tell(keys: Sequence[str]) -> str:
    """What there is to choose from."""
    more = len(keys) - KEYS_TOLD
    return ", ".join(keys[:KEYS_TOLD]) + (f" and {more} more" if more > 0 else "") or "there are none"


async def _work_until_idle(worker: Worker, timeout_s: float | None) -> int | None:
    """Until nothing is due and nothing moves, or the time is up; answers when the next run is due, in µs."""
    deadline = None if timeout_s is None else boottime_us() + round(timeout_s * 1e6)
    home, store = worker.home, worker.engine.store
    assert home is not None
    while (deadline is None or boottime_us() < deadline) and not worker.is_draining:
        is_idle, commits = not home.is_moving, worker.engine.writer.commits
        look = await store.look(worker.claims.looking())
        is_idle = is_idle and not (look.due or look.mail or look.dead or look.lapsed or home.is_moving)
        is_idle = is_idle and not (look.tasks and await home.tasks.claim())
        is_idle = is_idle and not (look.lanes and await home.pools.claim(look.lanes, at_once=True))
        # What moved meanwhile may have made something due behind the look, or a place free behind the claim.
        if is_idle and not home.is_moving and commits == worker.engine.writer.commits:
            return min((due for due in (look.next_at, home.next_due_us()) if due is not None), default=None)
        worker.claims.wake()
        await asyncio.sleep(0.01)
    return worker.claims.last_look.next_at if worker.claims.last_look else None
