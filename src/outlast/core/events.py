"""Events: what a run's journal says, one struct each. Layer: core.

An *entry* is a batch of events that landed together. Events come in three kinds, and the kind decides how a replay
treats them:

- A *stimulus* moves the body: a step's outcome, a timer, a cancel, a signal. It carries its own time, `at`.
- A *command* is what the body asked for in answer to the stimulus before it. A replay runs the body again and compares
  what it asks for with the commands on record, in order.
- A *note* is the engine's bookkeeping: later attempts, takeovers, suspensions. A replay does not compare notes.

What always holds: an event never changes once it has landed; fields are only ever added, with defaults, so that every
release reads the journals of all earlier ones. Instants are µs since the Unix epoch. Values are JSON as the codec wrote
it (`msgspec.Raw`), so that core never needs to know a user's types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeGuard, get_args

import msgspec

from outlast.core.record import NOTHING, ErrorRecord, EventShape
from outlast.core.steps import (
    ELSEWHERE,
    AttemptStarted,
    ChildCancelled,
    ChildSignalled,
    EffectKept,
    StepCancelled,
    StepFailed,
    StepLost,
    StepProgressed,
    StepReused,
    StepSettled,
    StepsSettled,
    StepStarted,
    StepSucceeded,
    UndoRegistered,
)
from outlast.core.waits.events import (
    DecisionJudged,
    DecisionMade,
    GateOpened,
    SignalReceived,
    SignalRefused,
    SignalTaken,
    WaitCancelled,
    WaitStarted,
)

__all__ = [
    "ELSEWHERE",
    "NOTHING",
    "OUTCOMES",
    "AttemptStarted",
    "CancelRequested",
    "ChildCancelled",
    "ChildSignalled",
    "Command",
    "DecisionJudged",
    "DecisionMade",
    "EffectKept",
    "ErrorRecord",
    "Event",
    "GateOpened",
    "MilestoneReached",
    "PatchApplied",
    "RunCancelled",
    "RunCompensated",
    "RunCompensationFailed",
    "RunCompleted",
    "RunFailed",
    "RunOutcome",
    "RunReopened",
    "RunResumed",
    "RunStarted",
    "RunSuspended",
    "RunTakenOver",
    "SignalReceived",
    "SignalRefused",
    "SignalTaken",
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
    "VersionTaken",
    "WaitCancelled",
    "WaitStarted",
    "decode_events",
    "encode_events",
    "is_command",
]

# --- the run's beginning ----------------------------------------------------------------------------------------------


class RunStarted(EventShape, frozen=True):
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
    priority: int = 5
    """0 (first) to 9 (last): its queued steps have it too."""
    deadline: int | None = None
    """When it is cancelled if it has not ended (`start(timeout=…)`)."""
    parent: str = ""
    """uid of the run whose body started it; "" for one that was started from outside."""
    parent_key: str = ""
    """The step of the parent that it is."""
    root: str = ""
    """uid of the run at the top, when it is not this one."""
    forked_from: str = ""
    """uid of the run whose journal it began with a copy of."""
    forked_at: str = ""
    """Key of the step before which that copy ends."""
    continues: str = ""
    """uid of the round before this one (`core.lineage.rounds`)."""
    origin: str = ""
    """uid of the first round, when this is a later one."""
    known: tuple[str, ...] = ()
    """Ids of messages that an earlier round has heard."""


# --- stimuli ----------------------------------------------------------------------------------------------------------


class TimerFired(EventShape, frozen=True):
    """`timer` is the ordinal of the `call_at` that armed it, counted over the run."""

    at: int
    timer: int
    due: int


class CancelRequested(EventShape, frozen=True):
    at: int
    message: str
    """Id of the message that asked."""
    reason: str = ""
    force: bool = False


class RunReopened(EventShape, frozen=True):
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


class SleepStarted(EventShape, frozen=True):
    """A named wait for a time, so that people can see it. Plain asyncio timers write nothing."""

    timer: int
    until: int


class SleepCancelled(EventShape, frozen=True):
    """The body gave up on the wait: the timer will not fire."""

    timer: int


class StateSet(EventShape, frozen=True):
    key: str
    value: msgspec.Raw


class MilestoneReached(EventShape, frozen=True):
    name: str


class PatchApplied(EventShape, frozen=True):
    """`ctx.patched(id)` answered yes when the run first reached it."""

    id: str


class RunCompleted(EventShape, frozen=True):
    output: msgspec.Raw
    next: str = ""
    """uid of the round as which it goes on; there is no output then."""


class RunFailed(EventShape, frozen=True):
    error: ErrorRecord
    steps: tuple[str, ...] = ()
    """Keys of the steps whose failure the error is, or came from: what `retry()` starts anew."""


class RunCancelled(EventShape, frozen=True):
    reason: str = ""
    error: ErrorRecord | None = None
    """What the clean-up raised, if it did not end with the cancel itself."""


class UnwindStarted(EventShape, frozen=True):
    """The body is over, and what it did is undone, in this order."""

    keys: tuple[str, ...]
    """Of the steps whose effects are undone."""
    error: ErrorRecord | None = None
    """What the run failed with."""
    steps: tuple[str, ...] = ()
    """As in `RunFailed`."""
    reason: str | None = None
    """Of the cancel that led to it."""


class RunCompensated(EventShape, frozen=True):
    """Everything was undone. The cause is that of `UnwindStarted`; neither error nor reason: its parent was unwound."""

    error: ErrorRecord | None = None
    steps: tuple[str, ...] = ()
    reason: str | None = None


class RunCompensationFailed(EventShape, frozen=True):
    """Some of it could not be undone: a person has to look."""

    failed: tuple[str, ...]
    """Keys of the steps whose effects are still there."""
    error: ErrorRecord | None = None
    steps: tuple[str, ...] = ()
    reason: str | None = None


# --- notes ------------------------------------------------------------------------------------------------------------


class RunTakenOver(EventShape, frozen=True):
    """Written before the body is fed, so that a body that kills its worker leaves a trace (SPEC L8)."""

    at: int
    worker: str
    recoveries: int


class VersionTaken(EventShape, frozen=True):
    """From here on the run goes on with another version's code, or with the stored plan of its own (SPEC V3)."""

    at: int
    version: str
    source: str = "code"
    """`code`, or `plan`."""
    deploy: str = ""
    """Fingerprint of who took it."""


class RunSuspended(EventShape, frozen=True):
    at: int
    code: str
    reason: str
    detail: str = ""


class RunResumed(EventShape, frozen=True):
    at: int
    message: str = ""
    code: str = ""


Stimulus: TypeAlias = (
    StepSucceeded
    | StepFailed
    | StepSettled
    | StepsSettled
    | TimerFired
    | CancelRequested
    | SignalReceived
    | DecisionMade
    | GateOpened
    | RunReopened
)
Command: TypeAlias = (
    StepStarted
    | StepReused
    | StepCancelled
    | SleepStarted
    | SleepCancelled
    | WaitStarted
    | WaitCancelled
    | SignalTaken
    | SignalRefused
    | DecisionJudged
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
Note: TypeAlias = (
    AttemptStarted | StepProgressed | StepLost | RunTakenOver | VersionTaken | RunSuspended | RunResumed | RunStarted
)
Event: TypeAlias = Stimulus | Command | Note

COMMANDS: frozenset[type] = frozenset(get_args(Command))
RunOutcome: TypeAlias = RunCompleted | RunFailed | RunCancelled | RunCompensated | RunCompensationFailed
OUTCOMES: frozenset[type] = frozenset(get_args(RunOutcome))


def is_command(event: object) -> TypeGuard[Command]:
    """Whether a replay compares it with what the body asks for."""
    return type(event) in COMMANDS


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(list[Event])


encode_events: Callable[[Sequence[Event]], bytes] = _encoder.encode
"""The bytes of an entry. They never change once sent (DESIGN §3, ambiguous commits)."""

decode_events: Callable[[bytes], list[Event]] = _decoder.decode
"""The events of an entry. Raises `msgspec.ValidationError` for bytes no release wrote."""
