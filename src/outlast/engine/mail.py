"""A run's mail: what may be asked of a run from outside, and how it becomes events of its. Layer: engine.

What always holds: only a run's owner turns messages into events, each id once in the run's life (PROTOCOL F18); and a
message is taken out of the inbox by the entry that has its event, so that none is lost between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from outlast.core.events import CancelRequested, DecisionMade, GateOpened, SignalReceived
from outlast.core.lineage.children import CHILD_MESSAGE, RETRY_MESSAGE, REVIVE_MESSAGE, UNWIND_MESSAGE
from outlast.engine.messages.children import read_end
from outlast.engine.messages.waits import (
    DECISION_MESSAGE,
    RESUME_MESSAGE,
    SIGNAL_MESSAGE,
    read_decision,
    read_resume,
    read_signal,
)
from outlast.engine.tasks.outcomes import OUTCOME_KINDS, Arrival
from outlast.errors import StoreError
from outlast.payloads import UNREADABLE
from outlast.telemetry.logs import fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from outlast.core.events import Event
    from outlast.engine.hot import HotRun
    from outlast.stores.store import Inbox, Message

__all__ = [
    "CANCEL",
    "CancelPayload",
    "Reading",
    "ask",
    "cancel_payload",
    "give_back",
    "read_mail",
    "reads_on",
    "take_mail",
]

CANCEL = "cancel"
FROM_PEOPLE = (SignalReceived, DecisionMade, GateOpened)
MOST_BYTES = 1 << 20
"""Of payload in one entry; a message that goes beyond is the last of it (PROTOCOL F8)."""
RETRY_S = 1.0
"""After a fault of the store."""


class CancelPayload(msgspec.Struct):
    """What a `CANCEL` message says."""

    reason: str = ""
    force: bool = False


def cancel_payload(reason: str, *, force: bool = False) -> bytes:
    """A `CANCEL` message's."""
    return msgspec.json.encode(CancelPayload(reason, force))


def _read_cancel(run: HotRun, message: Message) -> CancelRequested:
    cancel = msgspec.json.decode(message.payload, type=CancelPayload)
    return CancelRequested(max(message.sent_at, run.last_at), message.id, cancel.reason, cancel.force)


_READERS: dict[str, Callable[[HotRun, Message], Event]] = {
    CANCEL: _read_cancel,
    CHILD_MESSAGE: read_end,
    RESUME_MESSAGE: read_resume,
    SIGNAL_MESSAGE: read_signal,
    DECISION_MESSAGE: read_decision,
}
"""What the messages of each kind are."""
_KINDS = frozenset({*_READERS, RETRY_MESSAGE, REVIVE_MESSAGE, UNWIND_MESSAGE, *OUTCOME_KINDS})


class Reading:
    """How far a run has read its mail."""

    __slots__ = ("has_more", "is_under_way", "until_us")

    def __init__(self) -> None:
        self.until_us = 0
        """It has all that the store took before."""
        self.has_more = False
        """There is more than one entry may take."""
        self.is_under_way = False


def take_mail(run: HotRun, inbox: Inbox, read_at: int = 0, *, advance: bool = True) -> None:
    """Put the messages into the run's queue, and let it `advance`; those already on record are consumed without one.

    So are calls to go on or to undo itself: only a run that has ended heeds them, and its load has done so. The inbox
    was read at `read_at`. What would make too large an entry comes with the next."""
    reading, size, is_readable = run.reading, 0, True
    reading.has_more = inbox.full
    for message in inbox.messages:
        if message.no <= run.seen:
            continue
        if size > MOST_BYTES:
            reading.has_more = True
            break
        if message.kind == UNREADABLE and not run.is_loading:
            is_readable = reading.has_more = False
            break
        run.seen = message.no
        size += len(message.payload)
        _take(run, message)
    if not is_readable:
        _stop_at(run)
    elif not reading.has_more:
        run.seen = max(run.seen, inbox.mail)
        reading.until_us = max(reading.until_us, read_at)
    if advance:
        run.advance()


def _take(run: HotRun, message: Message) -> None:
    if message.kind in OUTCOME_KINDS and message.id not in run.known:
        run.queue.append(Arrival(message))  # it leaves the inbox once it is judged
        return
    if message.kind not in _KINDS:
        return  # for a newer release: it stays in the inbox
    run.consumed[message.no] = message.id
    if message.id not in run.known:
        run.known[message.id] = None
        read = _READERS.get(message.kind)
        if read is not None:
            run.queue.append(read(run, message))


def give_back(run: HotRun) -> None:
    """The run ends: what people sent that was read, and was not fed to the body any more, is not taken from its inbox.
    The store keeps it there, for a retry, or sweeps it (`RowChange.ended`)."""
    unheard = {event.message for event in run.queue if isinstance(event, FROM_PEOPLE)}
    if unheard:
        run.consumed = {no: message for no, message in run.consumed.items() if message not in unheard}


def _stop_at(run: HotRun) -> None:
    """What comes next cannot be read here. A load sets the run aside for that; until it may be loaded, look again."""
    if run.is_quiet:
        run.evict()
        run.home.load_again(run)
    else:
        run.reading.is_under_way = True
        run.home.loop.call_later(RETRY_S, _go_on, run)


def ask(run: HotRun) -> None:
    """Have its mail read, and let it go on then: a deadline of its is over, and what came before it counts."""
    if not run.reading.is_under_way:
        run.reading.is_under_way = True
        run.home.loader.spawn(_read(run))


def reads_on(run: HotRun) -> bool:
    """Whether its mail is being read. If there is more than it has taken, it is."""
    if run.reading.has_more:
        ask(run)
    return run.reading.is_under_way


async def read_mail(run: HotRun) -> None:
    """Read what has come for it since the last time, if it takes mail."""
    if run.takes_mail and not run.reading.is_under_way:
        run.reading.is_under_way = True
        await _read(run)


async def _read(run: HotRun) -> None:
    read_at = run.now_us()
    try:
        inbox = await run.home.store.read_inbox(run.uid, after=run.seen)
    except StoreError as error:
        text = "mail of run %s could not be read: %s"
        run.home.log.warning(text, run.name, error, extra=fields(run.started))
        run.home.loop.call_later(RETRY_S, _go_on, run)
        return
    run.reading.is_under_way = False
    if run.takes_mail:  # it may have been set aside meanwhile: what it took then would move nothing
        take_mail(run, inbox, read_at)


def _go_on(run: HotRun) -> None:
    """After a failure: what waits for its mail asks again."""
    run.reading.is_under_way = False
    run.advance()
