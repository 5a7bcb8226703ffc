"""Messages for those who wait: signals, decisions, gates to open; and the rows of waits. Layer: engine.

What always holds: a wait's row opens and closes with the entry that says so; and what the store took when, its message
says, so that whether a decision came in time does not depend on when it is read (PROTOCOL F22).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from outlast.core.events import (
    DecisionJudged,
    DecisionMade,
    Event,
    GateOpened,
    RunResumed,
    SignalReceived,
    SignalRefused,
    WaitStarted,
)
from outlast.core.instants import to_datetime
from outlast.core.reopening import splice
from outlast.core.waits.approval import User
from outlast.core.waits.book import read_waits
from outlast.stores.store import NewWait
from outlast.telemetry.audit import AuditRecord
from outlast.telemetry.logs import fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.core.events import RunStarted
    from outlast.core.waits.book import OpenWait
    from outlast.engine.hot import HotRun
    from outlast.stores.store import Message

__all__ = [
    "DECISION_MESSAGE",
    "RESUME_MESSAGE",
    "SIGNAL_MESSAGE",
    "DecisionPayload",
    "ResumePayload",
    "SignalPayload",
    "WaitChanges",
    "make_record",
    "read_decision",
    "read_resume",
    "read_signal",
    "show_wait",
    "show_waits",
]

SIGNAL_MESSAGE = "signal"
"""Kind of the message that carries a signal."""
DECISION_MESSAGE = "decision"
RESUME_MESSAGE = "resume"


class SignalPayload(msgspec.Struct, frozen=True):
    """What a `SIGNAL_MESSAGE` says."""

    name: str
    value: msgspec.Raw


class DecisionPayload(msgspec.Struct, frozen=True):
    """What a `DECISION_MESSAGE` says."""

    name: str
    """Key of the approval, or its reason, if it was not open yet."""
    value: msgspec.Raw
    user: str
    scopes: tuple[str, ...] = ()


class ResumePayload(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a `RESUME_MESSAGE` says: the code of a suspension, or the key of a gate."""

    reason: str | None = None
    gate: str | None = None
    by: str | None = None


_decode_signal = msgspec.json.Decoder(SignalPayload).decode
_decode_decision = msgspec.json.Decoder(DecisionPayload).decode
_decode_resume = msgspec.json.Decoder(ResumePayload).decode


def read_signal(run: HotRun, message: Message) -> SignalReceived:
    """The event that the message is."""
    told = _decode_signal(message.payload)
    return SignalReceived(_time(run, message), message.id, told.name, msgspec.Raw(told.value), message.sent_at)


def read_decision(run: HotRun, message: Message) -> DecisionMade:
    """The event that the message is."""
    told = _decode_decision(message.payload)
    value = msgspec.Raw(told.value)
    return DecisionMade(_time(run, message), message.id, told.name, value, told.user, told.scopes, message.sent_at)


def read_resume(run: HotRun, message: Message) -> GateOpened | RunResumed:
    """The event that the message is."""
    told = _decode_resume(message.payload)
    if told.gate is None:
        return RunResumed(message.sent_at, message.id)
    return GateOpened(_time(run, message), message.id, told.gate, told.by, message.sent_at)


def _time(run: HotRun, message: Message) -> int:
    """When it happened to the run: when it was sent, but never before what happened before."""
    return max(message.sent_at, run.last_at)


class WaitChanges:
    """What an entry does to the rows of waits, and which decisions it judges."""

    __slots__ = ("closed", "judged", "opened")

    def __init__(self) -> None:
        self.opened: dict[str, NewWait] = {}
        self.closed: list[str] = []
        self.judged: list[tuple[DecisionMade, DecisionJudged, OpenWait | None]] = []
        """With the wait that it is about, if that is open."""

    def note(self, run: HotRun, event: Event) -> None:
        """An event that may open or end a wait, or be about one; it goes into the run's book too."""
        if type(event) is WaitStarted:
            self.opened[event.key] = show_wait(run.waits.start(event))
            return
        if type(event) is DecisionJudged:
            self._judge(run, event)
        elif type(event) is SignalRefused:
            text = "run %s: a signal %r does not fit what is waited for, and was set aside: %s"
            run.home.log.warning(text, run.name, event.name, event.problem, extra=fields(run.started))
        ended = run.waits.apply(event)
        if ended is not None and self.opened.pop(ended.key, None) is None:
            self.closed.append(ended.key)

    def reopen(self, run: HotRun) -> None:
        """The run had ended, and its rows went with it: those that are open again are shown again."""
        self.opened.update((key, show_wait(wait)) for key, wait in run.waits.items())

    def tell_audit(self, run: HotRun) -> None:
        """The decisions that were judged are on record."""
        started = run.started
        assert started is not None
        for made, judged, wait in self.judged:
            name = judged.key if wait is None else wait.name
            run.home.audit.tell(make_record(started, made, judged, name))

    def _judge(self, run: HotRun, judged: DecisionJudged) -> None:
        made = run.waits.undecided.get(judged.message)
        if made is not None:
            self.judged.append((made, judged, run.waits.get(judged.key)))


def make_record(started: RunStarted, made: DecisionMade, judged: DecisionJudged, name: str) -> AuditRecord:
    """What the audit is told of a decision."""
    return AuditRecord(
        at=to_datetime(made.sent_at),
        run_id=started.id,
        run_uid=started.uid,
        workflow=started.workflow,
        key=judged.key,
        name=name,
        by=User(made.user, made.scopes),
        value=msgspec.json.decode(made.value),
        verdict=judged.verdict,
        reason=judged.reason,
        message=made.message,
    )


def show_waits(journal: Sequence[Event]) -> tuple[NewWait, ...]:
    """The rows of the waits that are open at the end of a journal: of a run that had ended, and goes on."""
    return tuple(map(show_wait, read_waits(splice(journal)).values()))


def show_wait(wait: OpenWait) -> NewWait:
    """The row of a wait."""
    return NewWait(wait.key, wait.kind, wait.name, wait.opened_at, wait.deadline, bytes(wait.policy))
