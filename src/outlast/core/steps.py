"""Events of steps: called, tried, ended, given up, undone; and of children, which are steps too. Layer: core.

What always holds: see `outlast.core.events`, which has all events.
"""

from __future__ import annotations

import msgspec

from outlast.core.record import NOTHING, ErrorRecord, EventShape

__all__ = [
    "ELSEWHERE",
    "AttemptStarted",
    "ChildCancelled",
    "ChildSignalled",
    "EffectKept",
    "StepCancelled",
    "StepFailed",
    "StepLost",
    "StepProgressed",
    "StepReused",
    "StepSettled",
    "StepStarted",
    "StepSucceeded",
    "StepsSettled",
    "UndoRegistered",
]

ELSEWHERE = frozenset({"child", "unwind"})
"""Kinds of step that are runs of their own."""


# --- stimuli ----------------------------------------------------------------------------------------------------------


class StepSucceeded(EventShape, frozen=True):
    at: int
    key: str
    attempt: int
    value: msgspec.Raw
    began_at: int = 0
    message: str = ""
    """Id of the message that told of it; "" for an attempt that executed with its run."""
    undoable: bool = False
    """Of a child that completed: it has done what can be undone."""
    worker: str = ""
    """Who ran it; "" for who wrote it down."""


class StepFailed(EventShape, frozen=True):
    """An attempt failed. With `retry_at` it is a note: the step is retrying, and the body does not see it.
    Without, the step has used up its attempts, and the body gets the error."""

    at: int
    key: str
    attempt: int
    error: ErrorRecord
    began_at: int = 0
    retry_at: int | None = None
    message: str = ""
    """As in `StepSucceeded`."""
    worker: str = ""
    """As in `StepSucceeded`."""


class StepSettled(EventShape, frozen=True):
    """How an attempt ended that the body had given up on. It does not move the body; an unwind undoes what it did."""

    at: int
    key: str
    attempt: int
    value: msgspec.Raw = NOTHING
    error: ErrorRecord | None = None
    undoable: bool = False
    """As in `StepSucceeded`."""
    worker: str = ""
    """As in `StepSucceeded`."""
    message: str = ""
    """As in `StepSucceeded`."""


class StepsSettled(EventShape, frozen=True):
    """Nothing that the body had given up on is under way any more: what it did can be undone now."""

    at: int


# --- commands ---------------------------------------------------------------------------------------------------------


class StepStarted(EventShape, frozen=True):
    """The body called a step. With `attempt=1` its first attempt is on record and may run; with 0 it waits for a place
    (shown as pending), and `AttemptStarted` follows."""

    key: str
    function: str
    arguments: msgspec.Raw
    kind: str = "step"
    """`step`; `closure` for `ctx.do`; `child` for a run of its own, `unwind` for its undoing. A key that changes its
    kind is another step (SPEC S11)."""
    after: str | None = None
    """Key of the step the body called before this one."""
    attempt: int = 1
    retries: int = 0
    queue: str = ""
    """Sent to the workers of this queue; "" for a step that executes with its run."""
    undo: str = ""
    """What undoes its success when the run is unwound: name of a compensation, or of the child itself."""
    compensates: str = ""
    """Key of the step whose effect this one undoes."""

    @property
    def is_elsewhere(self) -> bool:
        """Its outcome comes as a message: it executes as a queued step, or is a run of its own."""
        return bool(self.queue) or self.kind in ELSEWHERE


class StepReused(EventShape, frozen=True):
    """The body called a step whose success was kept over a `retry()`: the kept value answered at once."""

    key: str
    function: str
    arguments: msgspec.Raw
    kind: str = "step"
    after: str | None = None
    undo: str = ""
    """As in `StepStarted`."""


class StepCancelled(EventShape, frozen=True):
    """The body gave up on the step. Its attempt may still end in the world: `StepSettled`."""

    key: str
    is_left: bool = False
    """A child that its parent left to itself: it goes on, and nobody waits for it."""


class ChildCancelled(EventShape, frozen=True):
    """The child of this step was asked to stop."""

    key: str
    reason: str


class ChildSignalled(EventShape, frozen=True):
    """The child of this step was sent a signal."""

    key: str
    message: str
    """Id of the message, the same on every replay."""
    name: str
    payload: msgspec.Raw = NOTHING


class UndoRegistered(EventShape, frozen=True):
    """`ctx.compensate(fn)`: an undo of the body's own, and what it goes by."""

    key: str


class EffectKept(EventShape, frozen=True):
    """`ctx.keep`: what this step did stays when the run is unwound."""

    key: str


# --- notes ------------------------------------------------------------------------------------------------------------


class AttemptStarted(EventShape, frozen=True):
    at: int
    key: str
    attempt: int
    queue: str = ""
    """As in `StepStarted`, whose queue all attempts of the step go to."""


class StepProgressed(EventShape, frozen=True):
    """What the step last said of itself (`heartbeat(progress)`), at most once a second."""

    at: int
    key: str
    attempt: int
    progress: msgspec.Raw


class StepLost(EventShape, frozen=True):
    """The attempt's worker is gone, and whether the step had its effect is not known."""

    at: int
    key: str
    attempt: int
