"""`Run`: one run, from outside. Layer: run.

A handle holds a name, not a state: every call asks the store, so it may be made, kept and used in any process. It stays
with its run (`uid`) when the id is given to another by `on_conflict="restart"`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import msgspec

from outlast.authoring.codec import encode
from outlast.authoring.exceptions import rebuild_error
from outlast.core.durations import Duration, format_duration, parse_duration
from outlast.core.events import Event, RunCompleted
from outlast.core.events import RunCancelled as CancelledEvent
from outlast.core.events import RunFailed as FailedEvent
from outlast.core.fold import fold
from outlast.core.history import list_attempts
from outlast.core.instants import to_us
from outlast.core.keys import check_name
from outlast.core.lineage.children import STATUS_OF
from outlast.core.timeline import Timeline, state_at, tell
from outlast.engine.mail import CANCEL, RESUME, CancelPayload, ResumePayload
from outlast.errors import RunCancelled, RunEnded, RunFailed, RunNotEnded, RunNotFound, WaitNotFound
from outlast.run.describing import (
    describe_attempt,
    describe_item,
    describe_moment,
    describe_run,
    show_tasks,
)
from outlast.run.records import AttemptInfo, RunInfo, RunSnapshot, TimelineItem

if TYPE_CHECKING:
    from outlast.authoring.workflow import Workflow
    from outlast.engine.engine import Engine
    from outlast.stores.store import Entry, RunRow

__all__ = ["Run"]

R = TypeVar("R")
T = TypeVar("T")

LONG_JOURNAL = 1000
"""Entries. A fold takes some 5 µs for an event."""


class Run(Generic[R]):
    """A handle for one run. Get one from `app.start` or `app.get_run`; it needs the app to be open."""

    def __init__(
        self, reach: Callable[[], Engine], uid: str, id: str, workflow: str, known: Workflow[..., R] | None
    ) -> None:
        """`reach` gives the app's engine, or raises; `known` is the workflow, if this process knows it."""
        self.uid = uid
        """The run's own UUID: no other run ever has it."""
        self.id = id
        """The user's name for it."""
        self.workflow = workflow
        """Name of its workflow."""
        self._reach = reach
        self._known = known

    def __repr__(self) -> str:
        return f"<Run {self.id!r} of {self.workflow!r}>"

    # --- how it ends --------------------------------------------------------------------------------------------------

    async def result(self, timeout: Duration | None = None) -> R:
        """The output, as the workflow's annotation says; plain JSON where this process does not know the workflow.

        Waits for the end, also while the run is suspended. Raises RunFailed, whose `error` and `__cause__` is what the
        body raised; RunCancelled; RunNotFound; TimeoutError after `timeout`, and the run goes on.
        """
        timeout_us = None if timeout is None else parse_duration(timeout)
        try:
            end = await self._reach().wait_outcome(self.uid, None if timeout_us is None else timeout_us / 1_000_000)
        except RunNotFound:
            raise RunNotFound(self.id) from None
        except TimeoutError:
            limit = format_duration(timeout_us or 0)
            raise TimeoutError(f"Run {self.id!r} has not ended within {limit}. It goes on.") from None
        if isinstance(end, RunCompleted):
            return self._decode(end.output)
        if not isinstance(end, FailedEvent) and end.reason is not None:
            raise RunCancelled(self.id, end.reason)
        assert not isinstance(end, CancelledEvent)
        step = end.steps[0] if end.steps else None
        if end.error is None:
            cause: BaseException = RuntimeError("It was undone, since the run that started it was.")
        else:
            cause = rebuild_error(end.error, step=step or "")
        raise RunFailed(self.id, STATUS_OF[type(end)], cause, step)

    def _decode(self, output: msgspec.Raw) -> R:
        return cast("R", msgspec.json.decode(output)) if self._known is None else self._known.decode_output(output)

    # --- how it stands, and stood -------------------------------------------------------------------------------------

    async def status(self) -> RunInfo:
        """How it stands now. Raises RunNotFound."""
        row = await self._row()
        plan = await self._reach().versions.find_plan(row.workflow, row.version)
        view = await self._tell(fold)
        if any(step.queue and step.is_open for step in view.steps.values()):
            show_tasks(view, await self._reach().store.list_tasks(self.uid))
        return describe_run(row, view, self._decode, plan)

    async def history(self) -> list[AttemptInfo]:
        """Every attempt of every step: who ran it, when, with what, and how it ended."""
        return await self._tell(lambda journal: [describe_attempt(attempt) for attempt in list_attempts(journal)])

    async def timeline(self) -> list[TimelineItem]:
        """Everything that happened, in order: one item for each event, numbered from 0 (`seq`)."""
        return await self._tell(lambda journal: [describe_item(item) for item in tell(journal)])

    async def state_at(self, moment: int | datetime) -> RunSnapshot:
        """The run as it knew itself after event number `moment`, or at that time. Before the first event: seq -1."""
        seq, at = (moment, None) if isinstance(moment, int) else (None, to_us(moment, "state_at"))
        return await self._tell(lambda journal: describe_moment(state_at(journal, seq=seq, at=at), self._decode))

    async def events(self, after: int = -1) -> AsyncIterator[TimelineItem]:
        """The timeline as it grows, from behind the event number `after`; it ends when the run has ended.

        Whoever lost the connection goes on with `after=` the last `seq` seen, and misses nothing.
        """
        engine = self._reach()
        timeline, position = Timeline(), -1
        async with aclosing(engine.follow(self.uid)) as changes:
            async for _ in changes:
                read = await engine.read_events(self.uid, after=position, looking=True)
                if not read:
                    await self._row()  # deleted meanwhile?
                for entry, batch in read:
                    position = entry.seq
                    for item in timeline.tell(entry, batch):
                        if item.seq > after:
                            yield describe_item(item)
                if timeline.view.is_ended:
                    return

    # --- steering -----------------------------------------------------------------------------------------------------

    async def cancel(self, reason: str = "no reason given", *, force: bool = False) -> bool:
        """Ask it to stop; returns once that is stored. False: it had ended already.

        The body gets `CancelledError` where it waits, and may clean up, steps included; with `force` it gets no say.
        """
        payload = CancelPayload(check_name("reason", reason), force)
        return await self._send(CANCEL, msgspec.json.encode(payload))

    async def resume(self, reason: str | None = None) -> None:
        """Lift a suspension; returns once that is stored. `reason` is what it must be suspended on: its code.

        Raises WaitNotFound, naming what is open, if it is not suspended, or not on that; RunEnded.
        """
        if reason is not None:
            check_name("reason", reason)
        view = await self._tell(fold)
        if view.is_ended:
            raise RunEnded(self.id, str(view.status))
        open_gates = () if view.suspension is None else (view.suspension.code,)
        if not open_gates or reason not in {None, *open_gates, view.waiting_on}:
            raise WaitNotFound(self.id, reason or "", open_gates)
        if not await self._send(RESUME, msgspec.json.encode(ResumePayload(reason))):
            raise RunEnded(self.id, (await self._row()).status)

    async def retry(self) -> None:
        """Let a failed run go on from what failed, with a fresh budget of attempts; what succeeded stays.

        Returns once that is stored; `result()` then waits for the new end. Raises RunNotFailed.
        """
        await self._reach().retry(await self._row())

    async def fork(self, *, at: str, results: Mapping[str, object] | None = None, id: str | None = None) -> Run[R]:
        """A new run that begins with a copy of this one's journal before the step with the key `at`, and goes on with
        the code at hand. This one goes on as it is; its steps before `at` do not run again, those open then do.

        `results` replaces results of steps before `at`, by key. `status().forked_from` of the new run names this one.
        Raises InvalidSetting for keys that do not fit, NotEncodable, RunExists.
        """
        values = {key: msgspec.Raw(encode(value, f"the result of {key!r}")) for key, value in (results or {}).items()}
        name = None if id is None else check_name("run id", id)
        engine = self._reach()
        uid, name = await engine.fork(await self._row(), check_name("step key", at), name, values)
        return Run(self._reach, uid, name, self.workflow, self._known)

    async def delete(self) -> None:
        """Delete an ended run, with its journal and all else that is its own. Raises RunNotEnded."""
        if not await self._reach().store.delete_run(self.uid):
            raise RunNotEnded(self.id, (await self._row()).status)

    # --- asking -------------------------------------------------------------------------------------------------------

    async def _row(self) -> RunRow:
        row = await self._reach().store.find_uid(self.uid)
        if row is None:
            raise RunNotFound(self.id)
        return row

    async def _tell(self, tell: Callable[[list[tuple[Entry, list[Event]]]], T]) -> T:
        """What the journal says. A long one is told in a thread, so that nothing else in this loop waits for it."""
        journal = await self._reach().read_events(self.uid, looking=True)
        if not journal:
            raise RunNotFound(self.id)
        if len(journal) < LONG_JOURNAL:
            return tell(journal)
        return await asyncio.to_thread(tell, journal)

    async def _send(self, kind: str, payload: bytes) -> bool:
        """False: it has ended, and takes no message."""
        sent = await self._reach().send(self.uid, kind, payload)
        if sent.verdict == "missing":
            raise RunNotFound(self.id)
        return sent.verdict != "ended"
