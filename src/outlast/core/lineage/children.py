"""Child runs: what a parent's journal makes of them, and what they tell each other. Layer: core.

A child is a step of its parent, and a run of its own. What always holds: its uid follows from the parent's and the
step's key, so there can be no second one; it starts in the parent's entry; and its end is a message to its parent, sent
with its own last entry, under an id that no other end of it has.
"""

from __future__ import annotations

import msgspec

from outlast.core.events import (
    NOTHING,
    ErrorRecord,
    Event,
    RunCancelled,
    RunCompensated,
    RunCompensationFailed,
    RunCompleted,
    RunFailed,
    RunOutcome,
    RunReopened,
    RunStarted,
    StepFailed,
    StepSucceeded,
)
from outlast.core.states import RunStatus

__all__ = [
    "CHILD_MESSAGE",
    "RETRY_MESSAGE",
    "REVIVE_MESSAGE",
    "STATUS_OF",
    "UNWIND_MESSAGE",
    "ChildEnd",
    "Reopen",
    "asked_end_id",
    "end_message_id",
    "find_answer_key",
    "find_end_id",
    "judge_end",
    "message_id",
    "tell_end",
]

CHILD_MESSAGE = "child"
"""Kind of the message that tells a parent how a child ended."""
RETRY_MESSAGE = "retry"
"""Kind of the message that tells a failed child to go on, since its parent does."""
REVIVE_MESSAGE = "revive"
"""The same for one that was cancelled, as those in flight are when their parent fails."""
UNWIND_MESSAGE = "unwind"
"""Kind of the message that tells a completed child to undo what it did."""

STATUS_OF: dict[type, RunStatus] = {
    RunCompleted: RunStatus.COMPLETED,
    RunFailed: RunStatus.FAILED,
    RunCancelled: RunStatus.CANCELLED,
    RunCompensated: RunStatus.COMPENSATED,
    RunCompensationFailed: RunStatus.COMPENSATION_FAILED,
}
"""What a run is that ended so."""


class ChildEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a `CHILD_MESSAGE` says."""

    key: str
    """The step of the parent."""
    status: RunStatus
    output: msgspec.Raw = NOTHING
    error: ErrorRecord | None = None
    reason: str | None = None
    """Of the cancel it ended by."""
    id: str = ""
    undoable: bool = False
    """It completed, and has done what can be undone."""


class Reopen(msgspec.Struct, frozen=True):
    """What a message says that reopens a run."""

    key: str
    """The step of the parent that waits for the new end."""


def message_id(uid: str, key: str, attempt: int, kind: str) -> str:
    """Id of a message by which this run tells the child of that step something: once for each attempt."""
    return f"{uid}:{key}:{attempt}:{kind}"


def end_message_id(uid: str, ends: int) -> str:
    """Id of the message by which this run tells of its end number `ends`, counted from 1."""
    return f"{uid}#{ends}"


def asked_end_id(message: str, attempt: int) -> str:
    """Id under which an end is on record that was asked for, for this attempt, before its message was read."""
    return f"{message}:{attempt}"


def find_end_id(message: str) -> str:
    """Id of the message that tells of an end which is on record under this id."""
    return message.rpartition(":")[0] or message


def find_answer_key(started: RunStarted, events: list[Event]) -> str:
    """Which step of its parent a run answers to when it ends: the one that reopened it last, or that it started as."""
    for event in reversed(events):
        if isinstance(event, RunReopened) and event.answer:
            return event.answer
    return started.parent_key


def tell_end(started: RunStarted, key: str, end: RunOutcome, *, undoable: bool) -> ChildEnd:
    """What the parent is told of a child's end."""
    return ChildEnd(
        key,
        STATUS_OF[type(end)],
        output=end.output if isinstance(end, RunCompleted) else NOTHING,
        error=None if isinstance(end, RunCompleted) else end.error,
        reason=None if isinstance(end, RunCompleted | RunFailed) else end.reason,
        id=started.id,
        undoable=undoable,
    )


def judge_end(
    end: ChildEnd, kind: str, error: ErrorRecord, *, at: int, attempt: int, message: str
) -> StepSucceeded | StepFailed:
    """The outcome of the parent's step, which started the child or, as `unwind`, undid it.

    `error` is for an end that says none of its own: a cancel.
    """
    if kind == "unwind" and end.status is RunStatus.COMPENSATED:
        return StepSucceeded(at, end.key, attempt, NOTHING, message=message)
    if kind != "unwind" and end.status is RunStatus.COMPLETED:
        return StepSucceeded(at, end.key, attempt, end.output, message=message, undoable=end.undoable)
    said = None if end.reason is not None else end.error
    return StepFailed(at, end.key, attempt, said or error, message=message)
