"""Deciding an approval from outside, and resuming a gate: what is sent, and how the answer comes back. Layer: run.

A decision is judged twice: here, by what the journal shows, so that whoever decides is told at once; and by the run,
whose word is on record. What always holds: also what is refused here is sent, so that the attempt is on record; and the
answer of an attempt is the journal's event that carries its id (PROTOCOL F21).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.core.durations import format_duration
from outlast.core.events import (
    OUTCOMES,
    DecisionJudged,
    DecisionMade,
    Event,
    RunCancelled,
    RunCompleted,
    RunFailed,
    RunStarted,
)
from outlast.core.instants import to_datetime
from outlast.core.keys import decision_id
from outlast.core.waits.approval import Decided, User
from outlast.core.waits.events import Judgement
from outlast.core.waits.standing import Refusal, Standing
from outlast.engine.ids import new_uid
from outlast.engine.messages.waits import DECISION_MESSAGE, DecisionPayload, make_record
from outlast.errors import ApprovalForbidden, ApprovalInvalid, ApprovalResolved, RunNotFound

if TYPE_CHECKING:
    from outlast.engine.engine import Engine
    from outlast.errors import RunError

__all__ = ["Attempt"]

LONG_JOURNAL = 5000
"""Events."""


class Attempt:
    """One attempt to decide: of this user, with this value, about the approval that goes by this reason or key."""

    def __init__(self, engine: Engine, uid: str, id: str, reason: str, value: bytes, by: User) -> None:
        self._engine = engine
        self._uid = uid
        self._id = id
        self._reason = reason
        self._value = msgspec.Raw(value)
        self._by = by
        self._message = ""
        self._key = reason
        self._position = -1
        self._events: list[Event] = []
        """The journal, as far as it was read."""
        self._made: DecisionMade | None = None
        self._judged: DecisionJudged | None = None
        self._has_ended = False
        self._is_stored = False
        self._next = ""
        """The round as which the run went on, if it did."""

    async def decide(self, key: str | None, timeout_us: int) -> Decided[Any]:
        """Send it, and wait until it is judged. With a `key`, whoever asks again asks about the same attempt."""
        if not await self._read():
            raise RunNotFound(self._id)
        standing = await self._stand()
        self._key = standing.find_key(self._reason)
        self._message = (
            new_uid(self._engine.clock.now_us()) if key is None else decision_id(self._origin, self._reason, key)
        )
        self._look(self._events)
        await self._look_back()
        if self._judged is None:
            refusal, uid = standing.refuse(self._key, self._by, await self._engine.store.now()), self._uid
            await self._send()
            if refusal is not None and not self._has_ended and self._uid == uid:  # else a later round has it to judge
                raise self._error(refusal)
            await self._follow(timeout_us)
            while not self._is_judged and self._next:
                await self._go_on(self._next)
                await self._follow(timeout_us)
        return await self._answer()

    async def _stand(self) -> Standing:
        """A long journal is read in a thread, so that nothing else in this loop waits for it."""
        if len(self._events) < LONG_JOURNAL:
            return Standing(self._events)
        return await asyncio.to_thread(Standing, self._events)

    async def _send(self) -> None:
        payload = DecisionPayload(self._key, self._value, self._by.id, tuple(self._by.scopes))
        encoded = msgspec.json.encode(payload)
        sent = await self._engine.send(self._uid, DECISION_MESSAGE, encoded, message_id=self._message)
        if sent.verdict == "missing":
            raise RunNotFound(self._id)
        if sent.uid is not None and sent.uid != self._uid:
            await self._go_on(sent.uid)
        self._is_stored = sent.verdict != "ended"
        if not self._is_stored:
            self._has_ended = True
            self._look(await self._read())  # it may have been judged just before

    async def _go_on(self, uid: str) -> None:
        """The run went on as this round, which has what is not judged yet (`ctx.continue_as_new`)."""
        self._uid, self._next, self._position, self._has_ended = uid, "", -1, False
        self._events.clear()
        self._look(await self._read())
        await self._look_back()

    async def _look_back(self) -> None:
        """What an earlier round has heard, this one does not hear again: it was judged there."""
        events: Sequence[Event] = self._events
        while self._judged is None and events:
            started = events[0]
            if not isinstance(started, RunStarted) or self._message not in started.known:
                return
            entries = await self._engine.read_events(started.continues, after=-1)
            events = [event for _, batch in entries for event in batch]
            self._look_for_it(events)

    @property
    def _is_judged(self) -> bool:
        return self._judged is not None

    @property
    def _origin(self) -> str:
        """uid of the run's first round: what it goes by in all of them."""
        started = self._events[0]
        return (started.origin if isinstance(started, RunStarted) else "") or self._uid

    async def _follow(self, timeout_us: int) -> None:
        """Until the run has judged it, or has ended."""
        if self._has_ended:
            return
        try:
            async with asyncio.timeout(timeout_us / 1_000_000), aclosing(self._engine.follow(self._uid)) as changes:
                await self._watch(changes)
        except TimeoutError:
            within = format_duration(timeout_us)
            text = (
                f"Recorded, but not judged within {within}: approval {self._reason!r} of run {self._id!r}. "
                "It will be, when a worker comes to it; ask again with the same key= to hear of it."
            )
            raise TimeoutError(text) from None

    async def _watch(self, changes: AsyncIterator[None]) -> None:
        async for _ in changes:
            read = await self._read()
            self._look(read)
            if self._judged is not None or self._has_ended:
                return
            if not read and await self._engine.store.find_uid(self._uid) is None:
                raise RunNotFound(self._id)

    async def _read(self) -> list[Event]:
        """What of the journal was not read yet."""
        entries = await self._engine.read_events(self._uid, after=self._position)
        if entries:
            self._position = entries[-1][0].seq
        events = [event for _, batch in entries for event in batch]
        self._events += events
        return events

    def _look(self, events: Sequence[Event]) -> None:
        self._look_for_it(events)
        for event in events:
            self._has_ended = type(event) in OUTCOMES
            self._next = event.next if isinstance(event, RunCompleted) else ""

    def _look_for_it(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, DecisionMade) and event.message == self._message:
                self._made = event
            elif isinstance(event, DecisionJudged) and event.message == self._message and self._judged is None:
                self._judged = event

    async def _answer(self) -> Decided[Any]:
        judged, made = self._judged, self._made
        if judged is None or made is None:
            if self._waits_for_retry:
                raise TimeoutError(
                    f"Recorded, but not judged: run {self._id!r} has failed. Should it be retried, approval "
                    f"{self._reason!r} is decided by it then; ask again with the same key= to hear of it."
                )
            raise self._unjudged(await self._stand())
        if judged.verdict is not Judgement.ACCEPTED:
            raise self._error(Refusal(judged.verdict, judged.reason))
        return Decided(msgspec.json.decode(made.value), User(made.user, made.scopes), to_datetime(made.sent_at))

    @property
    def _waits_for_retry(self) -> bool:
        """The run has ended, in a way that can be taken back, and had been sent it: on record or unread, it is kept."""
        if not (self._is_stored or self._made is not None):
            return False
        started, last = self._events[0], self._events[-1]
        is_child = isinstance(started, RunStarted) and bool(started.parent)
        return isinstance(last, RunFailed) or (isinstance(last, RunCancelled) and is_child)

    def _unjudged(self, standing: Standing) -> ApprovalResolved:
        """The run has ended, and will never judge it: this is the last that can be said of it."""
        started, now_us = self._events[0], self._engine.clock.now_us()
        assert isinstance(started, RunStarted)
        wait, refusal = standing.find_wait(self._key), standing.refuse(self._key, self._by, now_us)
        reason = "the run has ended" if refusal is None else refusal.reason
        made = DecisionMade(now_us, self._message, self._key, self._value, self._by.id, tuple(self._by.scopes), now_us)
        judged = DecisionJudged(self._message, self._key, Judgement.RESOLVED, reason)
        self._engine.audit.tell(make_record(started, made, judged, self._key if wait is None else wait.name))
        return ApprovalResolved(self._id, self._reason, reason)

    def _error(self, refusal: Refusal) -> RunError:
        if refusal.verdict is Judgement.FORBIDDEN:
            return ApprovalForbidden(self._id, self._reason, self._by.id, refusal.reason)
        if refusal.verdict is Judgement.INVALID:
            return ApprovalInvalid(self._id, self._reason, refusal.reason)
        return ApprovalResolved(self._id, self._reason, refusal.reason)
