"""Starting a run: its row and entry 0 in one commit, and what to do when its id is taken. Layer: engine.

Where this process works runs of that queue and has room, the run is claimed in that commit too, and thought ahead: the
first steps of its body are in entry 0. What always holds: nothing is stored of a start that raises but StoreError, and
what was acknowledged will happen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from outlast.authoring.current import find_current_step
from outlast.core.events import Event, RunStarted, encode_events
from outlast.core.lineage.forking import fork_events
from outlast.core.states import RunStatus
from outlast.core.trace import Trace
from outlast.engine.hot import HotRun
from outlast.engine.ids import new_mark, new_seed, new_trace, new_uid
from outlast.engine.messages.waits import show_waits
from outlast.engine.versions.serving import python_version
from outlast.engine.writer import Answer
from outlast.errors import RunConflict, RunExists, StoreError
from outlast.stores.store import Effects, NewRun, Outcome, Progress, RunRow, Verdict
from outlast.telemetry.otel import find_current_trace

if TYPE_CHECKING:
    from outlast.authoring.workflow import Workflow
    from outlast.engine.engine import Engine
    from outlast.engine.worker import Worker
    from outlast.telemetry.tracing import Tracing

__all__ = ["Start", "Starter", "start_traced"]


class Start(msgspec.Struct, frozen=True):
    """What `app.start` was asked for, checked."""

    id: str | None = None
    on_conflict: str = "return"
    """`return`, `raise` or `restart`."""
    at_us: int | None = None
    delay_us: int | None = None
    priority: int = 5
    queue: str = "default"
    user: str | None = None
    attributes: bytes = b"{}"
    timeout_us: int | None = None
    """How long it may take, from when it may begin."""
    trace: str | None = None

    def deadline_us(self, now_us: int) -> int | None:
        """When it is cancelled."""
        return None if self.timeout_us is None else max(self.due_us(now_us), now_us) + self.timeout_us

    def due_us(self, now_us: int) -> int:
        """When it may begin; 0: at once."""
        if self.delay_us is not None:
            return now_us + self.delay_us
        return self.at_us or 0


class Starter:
    """Starts runs for one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def start(self, workflow: Workflow[..., object], input: bytes, start: Start) -> tuple[str, str]:
        """See `Engine.start`."""
        workflow.check(self._engine.registry)
        # CRASH: a version that no run was started with is no harm. [test_killed_at[version-kept]]
        await self._engine.versions.keep([workflow])
        await self._engine.versions.check_active(workflow)
        now = self._engine.clock.now_us()
        uid = new_uid(now)
        started = RunStarted(
            at=now,
            uid=uid,
            id=start.id if start.id is not None else uid,
            workflow=workflow.name,
            version=workflow.version,
            input=msgspec.Raw(input),
            seed=new_seed(),
            python=python_version(),
            trace=start.trace or new_trace(uid),
            user=start.user,
            attributes=msgspec.Raw(start.attributes),
            due=start.due_us(now),
            priority=start.priority,
            deadline=start.deadline_us(now),
        )
        replaces: str | None = None
        while True:
            outcome = await self._try_start(workflow, started, start, replaces)
            # CRASH: the run is there and its caller does not know. The same id again answers with it; without an id the
            # caller has to look. [test_killed_at[started-and-not-told]]
            if outcome.verdict is Verdict.LANDED:
                return started.uid, started.id
            row = (
                await self._engine.store.find_uid(outcome.holder)
                if outcome.holder
                else await self._engine.store.find_run(started.id)
            )
            if row is None:
                replaces = None  # deleted meanwhile: the id is free again
                continue
            if row.uid == started.uid:
                return row.uid, row.id  # an earlier try of ours landed, and its answer was lost
            if await self._settle_conflict(started, start, row):
                return row.uid, row.id
            replaces = row.uid

    async def fork(
        self, row: RunRow, before: Sequence[Event], at: str, id: str | None, results: Mapping[str, msgspec.Raw]
    ) -> tuple[str, str]:
        """A new run that begins with these events of another, and goes on from there (SPEC R10); gives (uid, id).

        Raises RunExists when the id is taken.
        """
        engine = self._engine
        old = before[0]
        assert isinstance(old, RunStarted)
        workflow = engine.registry.find_workflow(old.workflow)
        uid = new_uid(now := engine.clock.now_us())
        started = msgspec.structs.replace(
            old,
            uid=uid,
            id=uid if id is None else id,
            version=old.version if workflow is None else workflow.version,
            python=python_version(),
            trace=new_trace(uid),
            parent="",
            parent_key="",
            root="",
            forked_from=old.uid,
            forked_at=at,
            continues="",
            origin="",
            known=(),
            deadline=None if old.deadline is None else now + old.deadline - max(old.at, old.due),
        )
        new = NewRun(
            id=started.id,
            workflow=started.workflow,
            version=started.version,
            queue=row.queue,
            priority=row.priority,
            deadline=started.deadline,
            root=uid,
            user=started.user,
            attributes=row.attributes,
            trace=started.trace,
        )
        new, _ = self._share_out(new)
        outcome = await self._start_for_anybody(fork_events(before, started, max(now, old.at), results), new)
        if outcome.verdict is not Verdict.LANDED:
            holder = await engine.store.find_run(started.id)
            raise RunExists(started.id, RunStatus.RUNNING if holder is None else holder.status)
        return uid, started.id

    async def _try_start(
        self, workflow: Workflow[..., object], started: RunStarted, start: Start, replaces: str | None
    ) -> Outcome:
        new = NewRun(
            id=started.id,
            workflow=started.workflow,
            version=started.version,
            queue=start.queue,
            priority=start.priority,
            wake_at=started.due or None,
            deadline=started.deadline,
            root=started.uid,
            user=started.user,
            attributes=start.attributes,
            trace=started.trace,
            replaces=replaces,
        )
        new, is_shared = self._share_out(new)
        worker = self._engine.worker
        is_served = worker is not None and worker.is_working and start.queue in worker.settings.queues
        # One that takes an id over is committed alone: what its body asks for at once may be a next round of that id.
        if worker is not None and is_served and not (started.due or is_shared) and replaces is None:
            home = worker.home
            if home is not None and home.free > 0:
                answer = await self._start_here(worker, workflow, started, new)
                if isinstance(answer, Outcome):
                    return answer
                if isinstance(answer, StoreError):
                    raise answer
        return await self._start_for_anybody([started], new)

    def _share_out(self, new: NewRun) -> tuple[NewRun, bool]:
        """With the place it is to take, and whether there is one: then it is claimed when it is its turn."""
        place = self._engine.shares.find_place(new.queue, new.workflow, user=new.user, attributes=new.attributes)
        return (
            (new, False) if place is None else (msgspec.structs.replace(new, pool=place.pool, group=place.group), True)
        )

    async def _start_here(
        self, worker: Worker, workflow: Workflow[..., object], started: RunStarted, new: NewRun
    ) -> Answer:
        """Claimed in its own commit, its first commands in entry 0. None: fenced meanwhile, nothing landed."""
        home = worker.home
        assert home is not None
        run = HotRun(home, started.uid, 1)
        run.started, run.answer_key = started, started.parent_key
        run.machine = home.loader.build(started, workflow)
        landed: asyncio.Future[Answer] = home.loop.create_future()

        def told(answer: Answer) -> None:
            home.on_their_way.discard(run.uid)
            if isinstance(answer, Outcome) and answer.verdict is Verdict.LANDED and run.owner == home.worker_id:
                home.add(run)
            else:
                run.evict()
                run.drop()
            if not landed.done():
                landed.set_result(answer)

        run.on_answer = told
        home.on_their_way.add(run.uid)
        run.begin(msgspec.structs.replace(new, claimed=True))
        return await landed

    async def _start_for_anybody(self, events: Sequence[Event], new: NewRun) -> Outcome:
        started = events[0]
        assert isinstance(started, RunStarted)
        effects = Effects(start=new, waits_opened=show_waits(events))
        progress = Progress(started.uid, 0, started.at, new_mark(), 0, encode_events(events), effects)
        landed: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._engine.writer.submit(progress, lambda answer: None if landed.done() else landed.set_result(answer))
        answer = await landed
        if answer is None:  # this process was fenced as a worker: a client may still start
            return await self._engine.commit_alone(progress)
        if isinstance(answer, StoreError):
            raise answer
        if self._engine.worker is not None:
            self._engine.worker.claims.wake()
        return answer

    async def _settle_conflict(self, started: RunStarted, start: Start, row: RunRow) -> bool:
        """The id is taken. True: that run is the answer; False: it has ended and may be replaced.

        Raises RunExists, RunConflict, and PayloadUnreadable where the two inputs cannot be compared."""
        if start.on_conflict == "raise":
            raise RunExists(row.id, row.status)
        first_round = row.origin or row.uid  # it was started with that one's input
        entries = await self._engine.store.read_journal(first_round, limit=1)
        if row.workflow != started.workflow:
            raise RunConflict(row.id, f"workflow: {row.workflow!r}, not {started.workflow!r}")
        if start.on_conflict == "restart" and not row.live:
            return False
        decode = self._engine.payloads.decode_events
        first = decode(first_round, entries[0].events)[0] if entries else None
        if isinstance(first, RunStarted) and not _same_json(bytes(first.input), bytes(started.input)):
            raise RunConflict(row.id, "input")
        if start.on_conflict == "restart":
            raise RunExists(row.id, row.status)
        return True


def _same_json(left: bytes, right: bytes) -> bool:
    return left == right or msgspec.json.decode(left) == msgspec.json.decode(right)


# --- its trace --------------------------------------------------------------------------------------------------------

NO_TRACE = "0" * 32


async def start_traced(
    tracing: Tracing | None, workflow: str, start: Start, go: Callable[[Start], Awaitable[tuple[str, str]]]
) -> tuple[str, str]:
    """Do the start, as part of the trace that its caller names; else of the span that is current here: a step's, a
    request's. Without one the run begins a trace of its own."""
    if start.trace is not None:
        return await go(start)
    span = None if tracing is None else tracing.begin_start(workflow)
    if tracing is None or span is None:
        return await go(_within(start, _find_trace()))
    run = None
    try:
        started = await go(_within(start, span.traceparent))
        run = started[1]
    finally:
        span.end(run)
    return started


def _find_trace() -> str | None:
    """Of the span that is current here; else of the step, though nobody makes spans in this process."""
    current = find_current_trace()
    if current is None:
        step = find_current_step()
        current = None if step is None else step.traceparent
    return current


def _within(start: Start, traceparent: str | None) -> Start:
    trace = Trace.parse(traceparent or "")
    if trace is None or trace.trace_id == NO_TRACE:
        return start
    return msgspec.structs.replace(start, trace=str(trace))
