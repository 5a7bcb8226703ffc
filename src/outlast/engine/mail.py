"""A run's mail: what may be asked of a run from outside, and how it becomes events of its. Layer: engine.

What always holds: only a run's owner turns messages into events, each id once in the run's life (PROTOCOL F18); and a
message is taken out of the inbox by the entry that has its event, so that none is lost between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from outlast.core.events import CancelRequested, RunResumed
from outlast.core.lineage.children import CHILD_MESSAGE, RETRY_MESSAGE, REVIVE_MESSAGE, UNWIND_MESSAGE
from outlast.engine.messages.children import read_end
from outlast.engine.tasks.outcomes import OUTCOME_KINDS, Arrival
from outlast.payloads import UNREADABLE

if TYPE_CHECKING:
    from outlast.engine.hot import HotRun
    from outlast.stores.store import Inbox, Message

__all__ = ["CANCEL", "RESUME", "CancelPayload", "ResumePayload", "cancel_payload", "take_mail"]

CANCEL = "cancel"
RESUME = "resume"
KINDS = frozenset({CANCEL, RESUME, CHILD_MESSAGE, RETRY_MESSAGE, REVIVE_MESSAGE, UNWIND_MESSAGE, *OUTCOME_KINDS})


class CancelPayload(msgspec.Struct):
    """What a `CANCEL` message says."""

    reason: str = ""
    force: bool = False


def cancel_payload(reason: str, *, force: bool = False) -> bytes:
    """A `CANCEL` message's."""
    return msgspec.json.encode(CancelPayload(reason, force))


class ResumePayload(msgspec.Struct):
    """What a `RESUME` message says."""

    reason: str | None = None


def take_mail(run: HotRun, inbox: Inbox, *, advance: bool = True) -> None:
    """Put the messages into the run's queue, and let it `advance`; those already on record are consumed without one.

    So are calls to go on or to undo itself: only a run that has ended heeds them, and its load has done so."""
    for message in inbox.messages:
        if message.no <= run.seen:
            continue
        if message.kind == UNREADABLE and not run.is_loading:
            if run.is_quiet:  # else it is looked at again soon: the load sets the run aside
                run.evict()
                run.home.load_again(run)
            return
        run.seen = message.no
        _take(run, message)
    if not inbox.full:
        run.seen = max(run.seen, inbox.mail)
    if advance:
        run.advance()


def _take(run: HotRun, message: Message) -> None:
    if message.kind in OUTCOME_KINDS and message.id not in run.known:
        run.queue.append(Arrival(message))  # it leaves the inbox once it is judged
        return
    if message.kind not in KINDS:
        return  # for a newer release: it stays in the inbox
    run.consumed.append(message.no)
    if message.id in run.known:
        return
    run.known.add(message.id)
    if message.kind == CANCEL:
        cancel = msgspec.json.decode(message.payload, type=CancelPayload)
        at = max(message.sent_at, run.last_at)
        run.queue.append(CancelRequested(at, message.id, cancel.reason, cancel.force))
    elif message.kind == RESUME:
        run.queue.append(RunResumed(message.sent_at, message.id))
    elif message.kind == CHILD_MESSAGE:
        run.queue.append(read_end(run, message))
