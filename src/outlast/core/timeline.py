"""A run as a story: one item for each event, and how the run stood at an earlier moment. Layer: core.

What always holds: an item's `seq` is its event's number in the run, so there are no gaps; and the story keeps what a
`retry()` dropped, though it is not in the picture any more.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from outlast.core.events import (
    AttemptStarted,
    CancelRequested,
    ChildCancelled,
    ChildSignalled,
    DecisionJudged,
    DecisionMade,
    EffectKept,
    ErrorRecord,
    Event,
    GateOpened,
    MilestoneReached,
    PatchApplied,
    RunCancelled,
    RunCompensated,
    RunCompensationFailed,
    RunCompleted,
    RunFailed,
    RunReopened,
    RunResumed,
    RunStarted,
    RunSuspended,
    RunTakenOver,
    SignalReceived,
    SignalRefused,
    SignalTaken,
    SleepCancelled,
    SleepStarted,
    StateSet,
    StepCancelled,
    StepFailed,
    StepLost,
    StepProgressed,
    StepReused,
    StepSettled,
    StepsSettled,
    StepStarted,
    StepSucceeded,
    TimerFired,
    UndoRegistered,
    UnwindStarted,
    VersionTaken,
    WaitCancelled,
    WaitStarted,
)
from outlast.core.fold import Fold, Journal, Written, time_of
from outlast.core.states import StepStatus
from outlast.core.view import RunView
from outlast.core.waits.events import Judgement

__all__ = ["Item", "Kind", "Timeline", "state_at", "tell"]

CHILD = "child"
"""The kind of a step that is a run."""


class Kind(enum.StrEnum):
    """What happened: to the item's step where it names one, else to the run. Statuses are called as they are."""

    QUEUED = "queued"
    PENDING = "pending"
    STARTED = "started"
    PROGRESSED = "progressed"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    REUSED = "reused"
    """A `retry()` kept the step's success, and the body got it at once."""
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"
    SETTLED = "settled"
    """How an attempt ended that the body had given up on."""
    SLEEPING = "sleeping"
    SLEPT = "slept"
    SLEEP_CANCELLED = "sleep_cancelled"
    TIMER = "timer"
    """A timer of plain asyncio was due."""
    WAITING = "waiting"
    """For a signal, a gate or an approval: `name` is its key."""
    WAIT_CANCELLED = "wait_cancelled"
    EXPIRED = "expired"
    """A wait's time was up."""
    SIGNALLED = "signalled"
    """A signal came."""
    TAKEN = "taken"
    """The body got the signal that it waited for."""
    SET_ASIDE = "set_aside"
    """A signal did not fit what its wait asks for."""
    DECIDED = "decided"
    """Somebody decides an approval; the next item says whether it counts."""
    ACCEPTED = "accepted"
    REFUSED = "refused"
    OPENED = "opened"
    """A person resumed a gate."""
    STATE = "state"
    MILESTONE = "milestone"
    PATCHED = "patched"
    CANCEL_REQUESTED = "cancel_requested"
    SUSPENDED = "suspended"
    RESUMED = "resumed"
    TAKEN_OVER = "taken_over"
    VERSION = "version"
    """It goes on with this version's code, or, where `detail` is "plan", with its stored plan."""
    REOPENED = "reopened"
    COMPLETED = "completed"
    CONTINUED = "continued"
    """It goes on as a next round, whose uid is `name`."""
    CHILD_CANCELLED = "child_cancelled"
    """The step's child was asked to stop."""
    CHILD_SIGNALLED = "child_signalled"
    UNDO_REGISTERED = "undo_registered"
    KEPT = "kept"
    """What the step did stays when the run is unwound."""
    ALL_SETTLED = "all_settled"
    """Nothing that the body gave up is under way any more."""
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"
    COMPENSATION_FAILED = "compensation_failed"


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """One event, told. `at` is when it happened, in µs."""

    seq: int
    at: int
    kind: Kind
    writer: str = ""
    """Who wrote it down: a worker's id, or the word for a client."""
    step: str | None = None
    attempt: int | None = None
    name: str | None = None
    """A step's function; a milestone, state key or patch; a cancel's reason; a suspension's code; who took over."""
    value: msgspec.Raw | None = None
    """What came of it: a step's or the run's result, the arguments a step started with, a state's new value."""
    error: ErrorRecord | None = None
    until: int | None = None
    """When it goes on: of a sleep, or a step's next attempt."""
    detail: str = ""
    is_child: bool = False
    """The step that starts is a run of its own."""


class Timeline:
    """Tells a journal entry by entry, and keeps the picture beside it (`view`)."""

    def __init__(self) -> None:
        self._fold = Fold()

    @property
    def view(self) -> RunView:
        """The run after what was told."""
        return self._fold.picture()

    def tell(self, entry: Written, events: Sequence[Event], begin: int = 0) -> list[Item]:
        """The next entry. Events before number `begin` only join the picture."""
        items = []
        for event in events:
            if self._fold.view.seq + 1 < begin:
                self._fold.apply(event, entry.at)
            else:
                items.append(self._tell(entry, event))
        return items

    def _tell(self, entry: Written, event: Event) -> Item:
        kind, fields = _TELLERS[type(event)](event)
        if type(event) is TimerFired:  # what it belongs to, the picture knows until it is told
            kind, fields = self._tell_timer(event)
        self._fold.apply(event, entry.at)
        view = self._fold.view
        if (type(event) is StepStarted or type(event) is AttemptStarted) and _is_pending(view, event.key):
            kind = Kind.PENDING
        return Item(view.seq, view.at, kind, entry.writer, **fields)

    def _tell_timer(self, event: TimerFired) -> tuple[Kind, dict[str, Any]]:
        view = self._fold.view
        if event.timer in view.sleeps:
            return Kind.SLEPT, {}
        wait = next((key for key, wait in view.waits.items() if wait.timer == event.timer), None)
        return (Kind.TIMER, {}) if wait is None else (Kind.EXPIRED, {"name": wait})


def tell(journal: Journal, begin: int = 0, end: int | None = None) -> list[Item]:
    """The timeline: all of it, or the items from number `begin` on, before number `end`.

    It reads no further than that, so that the first items of a long journal cost no more than those of a short one.
    """
    timeline, items, left = Timeline(), list[Item](), end
    for entry, events in journal:
        part = events if left is None else events[:left]
        items += timeline.tell(entry, part, begin)
        if left is not None:
            left -= len(part)
            if left <= 0:
                break
    return items


def state_at(journal: Journal, *, seq: int | None = None, at: int | None = None) -> RunView:
    """The picture as it was, after event number `seq` or at a time in µs; before the first event it is empty.

    A seq or time beyond the end gives the latest, and so does neither.
    """
    folding = Fold()
    for entry, events in journal:
        for event in events:
            if seq is not None and folding.view.seq >= seq:
                return folding.picture()
            if at is not None and max(folding.view.at, time_of(event, entry.at)) > at:
                return folding.picture()
            folding.apply(event, entry.at)
    return folding.picture()


# --- what is told of each event ---------------------------------------------------------------------------------------


_TELLERS: dict[type, Callable[[Any], tuple[Kind, dict[str, Any]]]] = {
    RunStarted: lambda event: (Kind.QUEUED, {"value": event.input}),
    StepStarted: lambda event: (
        Kind.STARTED,
        {
            "step": event.key,
            "attempt": event.attempt,
            "value": event.arguments,
            "name": event.function,
            "detail": _of_queue(event),
            "is_child": event.kind == CHILD,
        },
    ),
    StepReused: lambda event: (Kind.REUSED, {"step": event.key, "value": event.arguments, "name": event.function}),
    AttemptStarted: lambda event: (Kind.STARTED, {**_of_attempt(event), "detail": _of_queue(event)}),
    StepProgressed: lambda event: (Kind.PROGRESSED, {**_of_attempt(event), "value": event.progress}),
    StepSucceeded: lambda event: (
        Kind.SUCCEEDED,
        {"step": event.key, "attempt": event.attempt, "value": event.value},
    ),
    StepFailed: lambda event: (
        Kind.FAILED if event.retry_at is None else Kind.RETRYING,
        {**_of_attempt(event), "error": event.error, "until": event.retry_at},
    ),
    StepCancelled: lambda event: (
        Kind.CANCELLED,
        {"step": event.key, "detail": "left to itself" if event.is_left else ""},
    ),
    ChildCancelled: lambda event: (Kind.CHILD_CANCELLED, {"step": event.key, "name": event.reason}),
    ChildSignalled: lambda event: (
        Kind.CHILD_SIGNALLED,
        {"step": event.key, "name": event.name, "value": event.payload},
    ),
    UndoRegistered: lambda event: (Kind.UNDO_REGISTERED, {"step": event.key}),
    EffectKept: lambda event: (Kind.KEPT, {"step": event.key}),
    StepsSettled: lambda _event: (Kind.ALL_SETTLED, {}),
    UnwindStarted: lambda event: (
        Kind.COMPENSATING,
        {"name": event.reason, "error": event.error, "detail": "\n".join(event.keys)},
    ),
    StepLost: lambda event: (Kind.LOST, _of_attempt(event)),
    StepSettled: lambda event: (
        Kind.SETTLED,
        {**_of_attempt(event), "value": None if event.error else event.value, "error": event.error},
    ),
    SleepStarted: lambda event: (Kind.SLEEPING, {"until": event.until}),
    SleepCancelled: lambda _event: (Kind.SLEEP_CANCELLED, {}),
    TimerFired: lambda _event: (Kind.TIMER, {}),
    WaitStarted: lambda event: (
        Kind.WAITING,
        {"name": event.key, "detail": f"{event.kind} {event.name}", "until": event.deadline},
    ),
    WaitCancelled: lambda event: (Kind.WAIT_CANCELLED, {"name": event.key}),
    SignalReceived: lambda event: (Kind.SIGNALLED, {"name": event.name, "value": event.payload}),
    SignalTaken: lambda event: (Kind.TAKEN, {"name": event.key}),
    SignalRefused: lambda event: (Kind.SET_ASIDE, {"name": event.name, "detail": event.problem}),
    DecisionMade: lambda event: (Kind.DECIDED, {"name": event.name, "value": event.value, "detail": event.user}),
    DecisionJudged: lambda event: (
        (Kind.ACCEPTED, {"name": event.key})
        if event.verdict is Judgement.ACCEPTED
        else (Kind.REFUSED, {"name": event.key, "detail": f"{event.verdict}: {event.reason}"})
    ),
    GateOpened: lambda event: (Kind.OPENED, {"name": event.key, "detail": event.by or ""}),
    StateSet: lambda event: (Kind.STATE, {"name": event.key, "value": event.value}),
    MilestoneReached: lambda event: (Kind.MILESTONE, {"name": event.name}),
    PatchApplied: lambda event: (Kind.PATCHED, {"name": event.id}),
    CancelRequested: lambda event: (
        Kind.CANCEL_REQUESTED,
        {"name": event.reason, "detail": "by force" if event.force else ""},
    ),
    RunTakenOver: lambda event: (Kind.TAKEN_OVER, {"name": event.worker}),
    VersionTaken: lambda event: (Kind.VERSION, {"name": event.version, "detail": event.source}),
    RunSuspended: lambda event: (
        Kind.SUSPENDED,
        {"name": event.code, "detail": f"{event.reason}\n{event.detail}".strip()},
    ),
    RunResumed: lambda event: (Kind.RESUMED, {"name": event.code}),
    RunReopened: lambda event: (Kind.REOPENED, {"name": event.kind}),
    RunCompleted: lambda event: (
        (Kind.CONTINUED, {"name": event.next}) if event.next else (Kind.COMPLETED, {"value": event.output})
    ),
    RunFailed: lambda event: (Kind.FAILED, {"error": event.error}),
    RunCancelled: lambda event: (Kind.CANCELLED, {"name": event.reason, "error": event.error}),
    RunCompensated: lambda event: (Kind.COMPENSATED, {"name": event.reason, "error": event.error}),
    RunCompensationFailed: lambda event: (
        Kind.COMPENSATION_FAILED,
        {"name": event.reason, "error": event.error, "detail": "\n".join(event.failed)},
    ),
}


def _is_pending(view: RunView, key: str) -> bool:
    """Whether the step waits for a place, here or in its queue."""
    step = view.steps.get(key)
    return step is not None and step.status is StepStatus.PENDING


def _of_queue(event: StepStarted | AttemptStarted) -> str:
    return f"queue {event.queue}" if event.queue else ""


def _of_attempt(event: Any) -> dict[str, Any]:
    return {"step": event.key, "attempt": event.attempt}
