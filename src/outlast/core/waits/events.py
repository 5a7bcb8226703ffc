"""Events of waits: what is waited for, what came from outside, what it led to. Layer: core.

Whatever comes from outside is a *stimulus*, and carries the id of the message that brought it, which is known for the
rest of the run's life: the same message never counts twice (PROTOCOL F18). What it leads to is a *command*, decided
inside the body's machine by the journal alone. What always holds: see `outlast.core.events`, which has them all.
"""

from __future__ import annotations

import enum

import msgspec

from outlast.core.record import NOTHING, EventShape

__all__ = [
    "DecisionJudged",
    "DecisionMade",
    "GateOpened",
    "Judgement",
    "SignalReceived",
    "SignalRefused",
    "SignalTaken",
    "WaitCancelled",
    "WaitKind",
    "WaitStarted",
]


class WaitKind(enum.StrEnum):
    """What is waited for."""

    SIGNAL = "signal"
    GATE = "gate"
    """Opens when its reason is resumed (`ctx.suspend`)."""
    APPROVAL = "approval"


class Judgement(enum.StrEnum):
    """What became of a decision. All but the first leave the gate as it is."""

    ACCEPTED = "accepted"
    FORBIDDEN = "forbidden"
    """Who decided may not."""
    INVALID = "invalid"
    """It does not fit what was asked for."""
    RESOLVED = "resolved"
    """Somebody decided before, or the body does not wait any more."""
    EXPIRED = "expired"
    """It was made when the deadline had passed."""


# --- stimuli ----------------------------------------------------------------------------------------------------------


class SignalReceived(EventShape, frozen=True):
    """A signal came, whether or not anybody waits for it."""

    at: int
    message: str
    name: str
    payload: msgspec.Raw
    sent_at: int
    """When the store took it, by the store's clock."""


class DecisionMade(EventShape, frozen=True):
    """Somebody decides an approval. Whether it counts is the next event's to say: `DecisionJudged`."""

    at: int
    message: str
    name: str
    """Key of the approval; of one that is not open yet, its reason as well."""
    value: msgspec.Raw
    user: str
    scopes: tuple[str, ...] = ()
    sent_at: int = 0
    """When the store took it: in time, if that is before the approval's deadline."""


class GateOpened(EventShape, frozen=True):
    """A person resumed the gate of this key. If it is not open, nothing comes of it."""

    at: int
    message: str
    key: str
    by: str | None = None
    sent_at: int = 0


# --- commands ---------------------------------------------------------------------------------------------------------


class WaitStarted(EventShape, frozen=True):
    """The body waits for a person or another program. A replay compares key, kind and name; deadline and policy are
    the recorded ones for ever, whatever the code says later."""

    key: str
    kind: WaitKind
    name: str
    timer: int | None = None
    """Ordinal of the timer that ends the wait."""
    deadline: int | None = None
    policy: msgspec.Raw = NOTHING
    """A `Policy`: who may answer, and the JSON Schema of what is wanted."""
    at: int = 0
    """The body's time."""


class WaitCancelled(EventShape, frozen=True):
    """The body gave up on the wait."""

    key: str


class SignalTaken(EventShape, frozen=True):
    """The wait is over: the body has the signal that this message brought."""

    key: str
    message: str


class SignalRefused(EventShape, frozen=True):
    """The signal does not fit what its wait asks for: it is set aside, and the wait goes on."""

    message: str
    name: str
    problem: str


class DecisionJudged(EventShape, frozen=True):
    """What became of the decision that this message brought."""

    message: str
    key: str
    verdict: Judgement
    reason: str = ""
    """Why it does not count; of one that came too late, how the approval was settled."""
