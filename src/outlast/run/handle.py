"""`Run`: one run, from outside. Layer: run.

A handle holds a name, not a state: every call asks the store, so it may be made, kept and used in any process. It stays
with its run (`uid`) when the id is given to another by `on_conflict="restart"`. Of a run that went on as a next round
(`ctx.continue_as_new`) it tells the round that it was got for; what it sends, and `result()`, are about the last.
"""

# ruff: noqa: SLF001 - the handles of a run's rounds reach into each other

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

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
from outlast.core.keys import check_name, signal_id
from outlast.core.lineage.children import STATUS_OF
from outlast.core.timeline import Timeline, state_at, tell
from outlast.core.waits.approval import Decided, User
from outlast.core.waits.events import WaitKind
from outlast.engine.mail import CANCEL, CancelPayload
from outlast.engine.messages.waits import RESUME_MESSAGE, SIGNAL_MESSAGE, ResumePayload, SignalPayload
from outlast.errors import InvalidSetting, RunCancelled, RunEnded, RunFailed, RunNotEnded, RunNotFound, WaitNotFound
from outlast.run.approval import Attempt
from outlast.run.describing import (
    Read,
    describe_attempt,
    describe_item,
    describe_moment,
    describe_run,
    plain,
    show_tasks,
)
from outlast.run.records import AttemptInfo, RunInfo, RunSnapshot, TimelineItem

if TYPE_CHECKING:
    from outlast.authoring.workflow import Workflow
    from outlast.core.view import RunView
    from outlast.engine.engine import Engine
    from outlast.stores.store import Entry, RunRow

__all__ = ["Run"]

R = TypeVar("R")
T = TypeVar("T")

LONG_JOURNAL = 1000
"""Events. A fold takes some 5 µs for each."""
ALL = slice(None)


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

        Waits for the end of its last round, also while the run is suspended. Raises RunFailed, whose `error` and
        `__cause__` is what the body raised; RunCancelled; RunNotFound; TimeoutError after `timeout`, and the run goes
        on.
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
        return await _tell_aside(len(view.steps), lambda: describe_run(row, view, self._decode, plan))

    async def history(self) -> list[AttemptInfo]:
        """Every attempt of every step: who ran it, when, with what, and how it ended."""
        return await self._list_attempts()

    async def _list_attempts(self, key: str | None = None, part: slice = ALL, read: Read = plain) -> list[AttemptInfo]:
        """For the HTTP API: of one step alone, a part, with values as `read` gives them."""
        return await self._tell(
            lambda journal: [describe_attempt(self.uid, attempt, read) for attempt in list_attempts(journal, key)[part]]
        )

    async def timeline(self, *, after: int = -1, limit: int | None = None) -> list[TimelineItem]:
        """What happened, in order: one item for each event, numbered from 0 (`seq`).

        All of it; or what came behind the event number `after`, and of that the first `limit` items.
        """
        return await self._list_items(after, limit)

    async def _list_items(self, after: int, limit: int | None, read: Read = plain) -> list[TimelineItem]:
        """For the HTTP API: with values as `read` gives them."""
        begin = max(after, -1) + 1
        end = None if limit is None else begin + max(limit, 0)
        return await self._tell(
            lambda journal: [describe_item(self.uid, item, read) for item in tell(journal, begin, end)], most=end
        )

    async def state_at(self, moment: int | datetime) -> RunSnapshot:
        """The run as it knew itself after event number `moment`, or at that time. Before the first event: seq -1."""
        seq, at = (moment, None) if isinstance(moment, int) else (None, to_us(moment, "state_at"))
        return await self._tell(lambda journal: describe_moment(state_at(journal, seq=seq, at=at), self._decode))

    async def events(self, after: int = -1) -> AsyncIterator[TimelineItem]:
        """The timeline as it grows, from behind the event number `after`; it ends when the run has ended.

        Whoever lost the connection goes on with `after=` the last `seq` seen, and misses nothing.
        """
        async with aclosing(self._iter_items(after)) as items:
            async for item in items:
                yield item

    async def _iter_items(self, after: int, read: Read = plain) -> AsyncGenerator[TimelineItem, None]:
        """For the HTTP API: with values as `read` gives them."""
        engine = self._reach()
        timeline, position = Timeline(), -1
        async with aclosing(engine.follow(self.uid)) as changes:
            async for _ in changes:
                journal = await engine.read_events(self.uid, after=position, looking=True)
                if not journal:
                    await self._row()  # deleted meanwhile?
                for entry, batch in journal:
                    position = entry.seq
                    for item in timeline.tell(entry, batch, after + 1):
                        yield describe_item(self.uid, item, read)
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
        """Open the gate that the body waits at (`ctx.suspend`), or lift the engine's own suspension; returns once that
        is stored.

        `reason` is the gate's reason, or its key, where several have the same reason; or the code of the suspension.
        None: the only one that is open. Raises WaitNotFound, naming what is open; RunEnded.
        """
        if reason is not None:
            check_name("reason", reason)
        last = await self._last_round()
        view = await last._tell(fold)
        if view.is_ended and not view.next:
            raise RunEnded(self.id, str(view.status))
        payload = choose_gate(view, reason)
        if payload is None and not view.next:
            raise WaitNotFound(self.id, reason or "", name_gates(view))
        if payload is None or not await last._send(RESUME_MESSAGE, msgspec.json.encode(payload)):
            if (await last._row()).next is None:
                raise RunEnded(self.id, (await last._row()).status)
            await last.resume(reason)  # it went on meanwhile, and what is open now is another thing

    async def signal(self, name: str, value: object = None, *, key: str | None = None) -> None:
        """Send it a signal, which the body gets from `ctx.wait_for(name)`, now or when it comes to that.

        Returns once that is stored. With a `key`, such as the id of the event that it tells of, it counts once, however
        often it is sent (of a run that goes on in rounds: for as long as no 500 others came since). Raises InvalidName,
        NotEncodable or ValueTooLarge; RunEnded; InboxFull.
        """
        payload = SignalPayload(check_name("signal", name), msgspec.Raw(encode(value, f"the signal {name!r}")))
        message = None
        if key is not None:  # the same in all rounds, or one that was heard would be heard again
            message = signal_id((await self._row()).origin or self.uid, name, check_name("signal key", key))
        if not await self._send(SIGNAL_MESSAGE, msgspec.json.encode(payload), message):
            raise RunEnded(self.id, (await (await self._last_round())._row()).status)

    async def approve(
        self, reason: str, value: object, *, by: User, timeout: Duration = 30, key: str | None = None
    ) -> Decided[Any]:
        """Decide the approval with this reason, or key, as `by`. Returns once the run has judged that it counts.

        Raises ApprovalForbidden, ApprovalInvalid, or ApprovalResolved, which says how it was settled, and by whom, or
        that the run has ended; then the attempt is on record, and the approval as open as it was. TimeoutError: it is
        recorded and not judged yet, since no worker has come to it, or the body has not come to ask, or the run has
        failed and judges it when it is retried. With a `key`, the same call again asks about the same attempt.
        """
        check_name("reason", reason)
        if not isinstance(by, User):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidSetting("by", by, "a User: User('bob', scopes=['ship'])")
        _check_user(by)
        if key is not None:
            check_name("decision key", key)
        encoded = encode(value, f"the decision on {reason!r}")
        attempt = Attempt(self._reach(), (await self._last_round()).uid, self.id, reason, encoded, by)
        return await attempt.decide(key, parse_duration(timeout))

    async def retry(self) -> None:
        """Let a failed run go on from what failed, with a fresh budget of attempts; what succeeded stays.

        Returns once that is stored; `result()` then waits for the new end. Raises RunNotFailed.
        """
        await self._reach().retry(await (await self._last_round())._row())

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
            raise RunNotEnded(self.id, (await (await self._last_round())._row()).status)

    # --- asking -------------------------------------------------------------------------------------------------------

    async def _last_round(self) -> Run[R]:
        """The run as it stands, if it went on since (`ctx.continue_as_new`)."""
        uid = await self._reach().find_last(self.uid)
        if uid is None or uid == self.uid:
            return self
        return Run(self._reach, uid, self.id, self.workflow, self._known)

    async def _row(self) -> RunRow:
        row = await self._reach().store.find_uid(self.uid)
        if row is None:
            raise RunNotFound(self.id)
        return row

    async def _tell(self, tell: Callable[[list[tuple[Entry, list[Event]]]], T], most: int | None = None) -> T:
        """What the journal says, or its first `most` events. A long one is told in a thread, so that nothing else in
        this loop waits for it."""
        journal = await self._reach().read_events(self.uid, most=most, looking=True)
        if not journal:
            raise RunNotFound(self.id)
        return await _tell_aside(sum(len(events) for _, events in journal), lambda: tell(journal))

    async def _send(self, kind: str, payload: bytes, message_id: str | None = None) -> bool:
        """False: it has ended, and takes no message."""
        sent = await self._reach().send(self.uid, kind, payload, message_id=message_id)
        if sent.verdict == "missing":
            raise RunNotFound(self.id)
        return sent.verdict != "ended"


async def _tell_aside(size: int, tell: Callable[[], T]) -> T:
    """In a thread, if there is much to tell."""
    return tell() if size < LONG_JOURNAL else await asyncio.to_thread(tell)


def _check_user(by: User) -> None:
    if by.id:
        check_name("user", by.id)
    for scope in by.scopes:
        check_name("scope", scope)


def name_gates(view: RunView) -> tuple[str, ...]:
    """What can be resumed: keys of gates, and the code of a suspension."""
    keys = tuple(key for key, wait in view.waits.items() if wait.kind is WaitKind.GATE)
    return keys if view.suspension is None else (view.suspension.code, *keys)


def choose_gate(view: RunView, reason: str | None) -> ResumePayload | None:
    """What a resume means: the gate it opens, or the suspension it lifts. None: nothing that is open, or not one."""
    suspension = view.suspension
    gates = [wait for wait in view.waits.values() if wait.kind is WaitKind.GATE]
    if suspension is not None and reason in {None, suspension.code, view.waiting_on}:
        return ResumePayload(reason)
    if reason is None:
        return ResumePayload(gate=gates[0].key) if len(gates) == 1 and suspension is None else None
    chosen = next((gate for gate in gates if gate.key == reason), None)
    chosen = chosen or next((gate for gate in gates if gate.name == reason), None)
    return None if chosen is None else ResumePayload(gate=chosen.key)
