"""Events: what a run's journal says, one struct each. Layer: core.

An *entry* is a batch of events that landed together. Events come in three kinds, and the kind decides how a replay
treats them:

- A *stimulus* moves the body: a step's outcome, a timer, a cancel. It carries its own time, `at`.
- A *command* is what the body asked for in answer to the stimulus before it. A replay runs the body again and compares
  what it asks for with the commands on record, in order.
- A *note* is the engine's bookkeeping: later attempts, takeovers, suspensions. A replay does not compare notes.

What always holds: an event never changes once it has landed; fields are only ever added, with defaults, so that every
release reads the journals of all earlier ones. Instants are µs since the Unix epoch. Values are JSON as the codec wrote
it (`msgspec.Raw`), so that core never needs to know a user's types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeGuard, get_args

import msgspec

__all__ = [
    "ELSEWHERE",
    "NOTHING",
    "OUTCOMES",
    "AttemptStarted",
    "CancelRequested",
    "ChildCancelled",
    "ChildSignalled",
    "Command",
    "EffectKept",
    "ErrorRecord",
    "Event",
    "MilestoneReached",
    "Outcome",
    "PatchApplied",
    "RunCancelled",
    "RunCompensated",
    "RunCompensationFailed",
    "RunCompleted",
    "RunFailed",
    "RunReopened",
    "RunResumed",
    "RunStarted",
    "RunSuspended",
    "RunTakenOver",
    "SleepCancelled",
    "SleepStarted",
    "StateSet",
    "StepCancelled",
    "StepFailed",
    "StepLost",
    "StepProgressed",
    "StepReused",
    "StepSettled",
    "StepStarted",
    "StepSucceeded",
    "StepsSettled",
    "Stimulus",
    "TimerFired",
    "UndoRegistered",
    "UnwindStarted",
    "decode_events",
    "encode_events",
    "is_command",
]

NOTHING = msgspec.Raw(b"null")
ELSEWHERE = frozenset({"child", "unwind"})
"""Kinds of step that are runs of their own."""


class ErrorRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """An exception as the journal keeps it (SPEC R8)."""

    type: str
    """Qualified name without the module, such as `CardDeclined`."""
    message: str
    module: str = ""
    traceback: str = ""
    code: str = ""
    """The stable code of one of outlast's own errors or of a user's error that has one."""
    expected: bool = False
    """A domain error its author marked so: logged as one line, without a traceback."""
    data: msgspec.Raw = NOTHING
    """What the codec needs to build the exception again."""
    cause: ErrorRecord | None = None
    members: tuple[ErrorRecord, ...] = ()
    """The exceptions of an exception group."""


class _Event(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="event", gc=False):
    """Common shape: tagged with the class's name, defaults left out. None leads to itself, so none needs collecting."""


# --- the run's beginning ----------------------------------------------------------------------------------------------


class RunStarted(_Event, frozen=True):
    """Entry 0 begins with it: all a replay needs beside the code, so a journal can be read, moved and forked alone."""

    at: int
    uid: str
    id: str
    workflow: str
    version: str
    input: msgspec.Raw
    seed: int
    """Seeds `ctx.random` and `ctx.uuid`. A fork keeps it, though its id differs."""
    python: str
    """`3.11` and the like: asyncio itself differs between Pythons (invariant 8)."""
    trace: str = ""
    """W3C `traceparent`."""
    user: str | None = None
    attributes: msgspec.Raw = NOTHING
    due: int = 0
    """When it may begin, for a run that was started for later."""
    parent: str = ""
    """uid of the run whose body started it; "" for one that was started from outside."""
    parent_key: str = ""
    """The step of the parent that it is."""
    root: str = ""
    """uid of the run at the top, when it is not this one."""


# --- stimuli ----------------------------------------------------------------------------------------------------------


class StepSucceeded(_Event, frozen=True):
    at: int
    key: str
    attempt: int
    value: msgspec.Raw
    began_at: int = 0
    message: str = ""
    """Id of the message that told of it; "" for an attempt that executed with its run."""
    undoable: bool = False
    """Of a child that completed: it has done what can be undone."""


class StepFailed(_Event, frozen=True):
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


class TimerFired(_Event, frozen=True):
    """`timer` is the ordinal of the `call_at` that armed it, counted over the run."""

    at: int
    timer: int
    due: int


class CancelRequested(_Event, frozen=True):
    at: int
    message: str
    """Id of the message that asked."""
    reason: str = ""
    force: bool = False


class StepSettled(_Event, frozen=True):
    """How an attempt ended that the body had given up on. It does not move the body; an unwind undoes what it did."""

    at: int
    key: str
    attempt: int
    value: msgspec.Raw = NOTHING
    error: ErrorRecord | None = None
    undoable: bool = False
    """As in `StepSucceeded`."""


class StepsSettled(_Event, frozen=True):
    """Nothing that the body had given up on is under way any more: what it did can be undone now."""

    at: int


class RunReopened(_Event, frozen=True):
    """An ended run goes on. By `retry`, a failed one: events before number `cut` stand, after it only successes do
    (`core.reopening`). By `unwind`, a completed one: all stands, and what it did is undone since its parent is."""

    at: int
    kind: str
    cut: int
    message: str = ""
    """Id of the message that asked."""
    answer: str = ""
    """Step of the parent that waits for the new end."""


# --- commands ---------------------------------------------------------------------------------------------------------


class StepStarted(_Event, frozen=True):
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


class StepReused(_Event, frozen=True):
    """The body called a step whose success was kept over a `retry()`: the kept value answered at once."""

    key: str
    function: str
    arguments: msgspec.Raw
    kind: str = "step"
    after: str | None = None
    undo: str = ""
    """As in `StepStarted`."""


class StepCancelled(_Event, frozen=True):
    """The body gave up on the step. Its attempt may still end in the world: `StepSettled`."""

    key: str
    is_left: bool = False
    """A child that its parent left to itself: it goes on, and nobody waits for it."""


class ChildCancelled(_Event, frozen=True):
    """The child of this step was asked to stop."""

    key: str
    reason: str


class ChildSignalled(_Event, frozen=True):
    """The child of this step was sent a signal."""

    key: str
    message: str
    """Id of the message, the same on every replay."""
    name: str
    payload: msgspec.Raw = NOTHING


class UndoRegistered(_Event, frozen=True):
    """`ctx.compensate(fn)`: an undo of the body's own, and what it goes by."""

    key: str


class EffectKept(_Event, frozen=True):
    """`ctx.keep`: what this step did stays when the run is unwound."""

    key: str


class SleepStarted(_Event, frozen=True):
    """A named wait for a time, so that people can see it. Plain asyncio timers write nothing."""

    timer: int
    until: int


class SleepCancelled(_Event, frozen=True):
    """The body gave up on the wait: the timer will not fire."""

    timer: int


class StateSet(_Event, frozen=True):
    key: str
    value: msgspec.Raw


class MilestoneReached(_Event, frozen=True):
    name: str


class PatchApplied(_Event, frozen=True):
    """`ctx.patched(id)` answered yes when the run first reached it."""

    id: str


class RunCompleted(_Event, frozen=True):
    output: msgspec.Raw


class RunFailed(_Event, frozen=True):
    error: ErrorRecord
    steps: tuple[str, ...] = ()
    """Keys of the steps whose failure the error is, or came from: what `retry()` starts anew."""


class RunCancelled(_Event, frozen=True):
    reason: str = ""
    error: ErrorRecord | None = None
    """What the clean-up raised, if it did not end with the cancel itself."""


class UnwindStarted(_Event, frozen=True):
    """The body is over, and what it did is undone, in this order."""

    keys: tuple[str, ...]
    """Of the steps whose effects are undone."""
    error: ErrorRecord | None = None
    """What the run failed with."""
    steps: tuple[str, ...] = ()
    """As in `RunFailed`."""
    reason: str | None = None
    """Of the cancel that led to it."""


class RunCompensated(_Event, frozen=True):
    """Everything was undone. The cause is that of `UnwindStarted`; neither error nor reason: its parent was unwound."""

    error: ErrorRecord | None = None
    steps: tuple[str, ...] = ()
    reason: str | None = None


class RunCompensationFailed(_Event, frozen=True):
    """Some of it could not be undone: a person has to look."""

    failed: tuple[str, ...]
    """Keys of the steps whose effects are still there."""
    error: ErrorRecord | None = None
    steps: tuple[str, ...] = ()
    reason: str | None = None


# --- notes ------------------------------------------------------------------------------------------------------------


class AttemptStarted(_Event, frozen=True):
    at: int
    key: str
    attempt: int


class StepProgressed(_Event, frozen=True):
    """What the step last said of itself (`heartbeat(progress)`), at most once a second."""

    at: int
    key: str
    attempt: int
    progress: msgspec.Raw


class StepLost(_Event, frozen=True):
    """The attempt's worker is gone, and whether the step had its effect is not known."""

    at: int
    key: str
    attempt: int


class RunTakenOver(_Event, frozen=True):
    """Written before the body is fed, so that a body that kills its worker leaves a trace (SPEC L8)."""

    at: int
    worker: str
    recoveries: int


class RunSuspended(_Event, frozen=True):
    at: int
    code: str
    reason: str
    detail: str = ""


class RunResumed(_Event, frozen=True):
    at: int
    message: str = ""
    code: str = ""


Stimulus: TypeAlias = (
    StepSucceeded | StepFailed | StepSettled | StepsSettled | TimerFired | CancelRequested | RunReopened
)
Command: TypeAlias = (
    StepStarted
    | StepReused
    | StepCancelled
    | SleepStarted
    | SleepCancelled
    | StateSet
    | MilestoneReached
    | PatchApplied
    | ChildCancelled
    | ChildSignalled
    | UndoRegistered
    | EffectKept
    | UnwindStarted
    | RunCompleted
    | RunFailed
    | RunCancelled
    | RunCompensated
    | RunCompensationFailed
)
Note: TypeAlias = AttemptStarted | StepProgressed | StepLost | RunTakenOver | RunSuspended | RunResumed | RunStarted
Event: TypeAlias = Stimulus | Command | Note

COMMANDS: frozenset[type] = frozenset(get_args(Command))
Outcome: TypeAlias = RunCompleted | RunFailed | RunCancelled | RunCompensated | RunCompensationFailed
OUTCOMES: frozenset[type] = frozenset(get_args(Outcome))


def is_command(event: object) -> TypeGuard[Command]:
    """Whether a replay compares it with what the body asks for."""
    return type(event) in COMMANDS


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(list[Event])


def encode_events(events: Sequence[Event]) -> bytes:
    """The bytes of an entry. They never change once sent (DESIGN §3, ambiguous commits)."""
    return _encoder.encode(events)


def decode_events(entry: bytes) -> list[Event]:
    """The events of an entry. Raises `msgspec.ValidationError` for bytes no release wrote."""
    return _decoder.decode(entry)
