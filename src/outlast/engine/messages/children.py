"""Child runs, from the side of the worker that moves their parent or themselves. Layer: engine.

What always holds: a child's row and its first entry land with the parent's entry that asks for it, or not at all; and
whatever a run has to say to its child or its parent is an effect of an entry of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from outlast.authoring.exceptions import encode_error
from outlast.core.events import RunCancelled as CancelledEvent
from outlast.core.events import RunCompleted, RunFailed, RunReopened, RunStarted, encode_events
from outlast.core.keys import child_uid
from outlast.core.lineage.children import (
    CHILD_MESSAGE,
    RETRY_MESSAGE,
    REVIVE_MESSAGE,
    UNWIND_MESSAGE,
    ChildEnd,
    Reopen,
    end_message_id,
    judge_end,
    message_id,
    tell_end,
)
from outlast.core.reopening import UNWIND, find_cut
from outlast.core.trace import step_trace
from outlast.engine.ids import new_mark, new_seed
from outlast.engine.messages.waits import SIGNAL_MESSAGE, SignalPayload
from outlast.errors import RunCancelled
from outlast.stores.store import Effects, NewMessage, NewRun, Progress, Send

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.authoring.runs.child import ChildCall
    from outlast.core.calls import PendingStep
    from outlast.core.events import ChildSignalled, Event, RunOutcome, StepFailed, StepSucceeded
    from outlast.engine.hot import HotRun
    from outlast.stores.store import Inbox, Message

__all__ = [
    "cancel_child",
    "find_reopening",
    "read_end",
    "reopen_child",
    "settle_end",
    "signal_child",
    "start_child",
    "tell_parent",
]


def start_child(run: HotRun, pending: PendingStep) -> Progress:
    """The start of the run that this step is."""
    parent, call = run.started, cast("ChildCall", pending.call)  # authoring's calls are the only ones there are
    assert parent is not None
    settings = call.settings
    uid = child_uid(run.uid, pending.key)
    own = settings.attributes or {}
    attributes = _merge(parent.attributes, own) if own else parent.attributes
    now = run.now_us()
    started = RunStarted(
        at=now,
        uid=uid,
        id=settings.id or uid,
        workflow=call.function,
        version=call.version,
        input=msgspec.Raw(call.arguments),
        seed=new_seed(),
        python=parent.python,
        trace=step_trace(parent.trace, run.uid, pending.key, run.ends),
        user=parent.user,
        attributes=attributes,
        parent=run.uid,
        parent_key=pending.key,
        root=parent.root or run.uid,
        priority=settings.priority,
        deadline=None if settings.timeout_us is None else now + settings.timeout_us,
    )
    place = run.home.pools.shares.find_place(settings.queue, started.workflow, user=started.user, attributes=attributes)
    new = NewRun(
        id=started.id,
        workflow=started.workflow,
        version=started.version,
        queue=settings.queue,
        priority=settings.priority,
        deadline=started.deadline,
        parent=run.uid,
        root=started.root,
        user=started.user,
        attributes=bytes(attributes),
        trace=started.trace,
        pool=None if place is None else place.pool,
        group="" if place is None else place.group,
    )
    return Progress(uid, 0, started.at, new_mark(), 0, encode_events([started]), Effects(start=new))


def _merge(inherited: msgspec.Raw, own: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode({**(msgspec.json.decode(inherited) or {}), **own}))


def reopen_child(run: HotRun, pending: PendingStep, attempt: int) -> list[Send]:
    """Tell a child that ended to undo what it did, or, with a retry of its parent's, to go on, however it ended."""
    key, compensates = pending.key, pending.call.compensates
    payload, to = msgspec.json.encode(Reopen(key)), child_uid(run.uid, compensates or key)
    kinds = (UNWIND_MESSAGE,) if compensates else (RETRY_MESSAGE, REVIVE_MESSAGE)
    return [Send(to, NewMessage(message_id(run.uid, key, attempt, kind), kind, payload)) for kind in kinds]


def cancel_child(run: HotRun, key: str, kind: str, payload: bytes) -> Send:
    """Ask the child of this step to stop, however often this is sent. `kind` and `payload` are those of a cancel."""
    step = run.steps.get(key)
    attempt = run.steps.unsettled.get(key, 1) if step is None else step.attempt
    return Send(child_uid(run.uid, key), NewMessage(message_id(run.uid, key, attempt, kind), kind, payload))


def signal_child(run: HotRun, command: ChildSignalled) -> Send:
    """Send the child of this step a signal."""
    payload = msgspec.json.encode(SignalPayload(command.name, command.payload))
    return Send(child_uid(run.uid, command.key), NewMessage(command.message, SIGNAL_MESSAGE, payload))


def tell_parent(run: HotRun, end: RunOutcome, *, undoable: bool) -> Send:
    """How the run ended, for its parent."""
    assert run.started is not None
    payload = msgspec.json.encode(tell_end(run.started, run.answer_key, end, undoable=undoable))
    return Send(run.started.parent, NewMessage(end_message_id(run.uid, run.ends + 1), CHILD_MESSAGE, payload))


def read_end(run: HotRun, message: Message) -> StepSucceeded | StepFailed:
    """What a child's message is to the run that is its parent."""
    end = msgspec.json.decode(message.payload, type=ChildEnd)
    return settle_end(run, end, message.id, message.sent_at)


def settle_end(run: HotRun, end: ChildEnd, message: str, at: int) -> StepSucceeded | StepFailed:
    """What a child's end is to the run that is its parent."""
    step = run.steps.get(end.key)
    attempt = run.steps.unsettled.get(end.key, 1) if step is None else step.attempt
    kind = "child" if step is None else step.kind
    error = encode_error(RunCancelled(end.id, end.reason or ""))
    return judge_end(end, kind, error, at=max(at, run.last_at), attempt=attempt, message=message)


def find_reopening(raw: Sequence[Event], inbox: Inbox, run: HotRun) -> RunReopened | None:
    """A run that has ended was claimed: its parent wants it to go on, or to undo what it did."""
    ended = type(raw[-1])
    kinds = {RunCompleted: UNWIND_MESSAGE, RunFailed: RETRY_MESSAGE, CancelledEvent: REVIVE_MESSAGE}
    for message in inbox.messages:
        if message.kind == kinds.get(ended):
            at = max(message.sent_at, run.last_at)
            answer = msgspec.json.decode(message.payload, type=Reopen).key
            cut = len(raw) if ended is RunCompleted else find_cut(raw)
            return RunReopened(at, UNWIND if ended is RunCompleted else "retry", cut, message.id, answer)
    return None
