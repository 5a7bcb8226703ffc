"""What requests and answers look like, where `outlast.run.records` does not say so already. Layer: http.

What always holds: a field is only ever added, with a default; instants are ISO 8601 with a zone, durations ISO 8601
(`PT0.25S`), values plain JSON.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from outlast.core.events import ErrorRecord
from outlast.core.states import RunStatus
from outlast.core.waits.events import WaitKind

__all__ = [
    "Attempts",
    "CancelAnswer",
    "CancelRequest",
    "Change",
    "DecideRequest",
    "Decider",
    "DecisionAnswer",
    "DecisionRequest",
    "Done",
    "DraftRequest",
    "DrainAnswer",
    "End",
    "FindRun",
    "Follow",
    "ForkRequest",
    "HeldSteps",
    "Moment",
    "Outcome",
    "Part",
    "ResumeRequest",
    "RunFilters",
    "Session",
    "SignIn",
    "SignalRequest",
    "Standing",
    "StartQuery",
    "StartRequest",
    "VersionFilters",
    "VersionsOfAll",
    "WaitFilters",
    "WaitQuery",
]

Scalar = str | int | float | bool | None
Zoned = Annotated[datetime, Meta(tz=True)]
Number = Annotated[int, Meta(ge=-1, le=2**53)]
"""Of an event. JSON's readers lose digits beyond 2**53."""
Wait = Annotated[
    str | None,
    Meta(description="How long to wait for the run's end, such as '30s'; at most 5 minutes. Without it: not at all."),
]
Uid = Annotated[
    str | None,
    Meta(
        description="The run's own uid: this very run, also after its id was given to another. The id in the path is "
        "then compared with its id, unless it is '-'."
    ),
]


# --- queries ----------------------------------------------------------------------------------------------------------


class FindRun(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which run."""

    uid: Uid = None


class WaitQuery(FindRun, kw_only=True, forbid_unknown_fields=True):
    """Which run, and how long to wait for its end."""

    wait: Wait = None


class StartQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Whether to wait for the run's end."""

    wait: Wait = None


class Part(FindRun, kw_only=True, forbid_unknown_fields=True):
    """Which run, and which part of what there is."""

    after: Annotated[Number, Meta(description="Only what has a higher number than this.")] = -1
    limit: Annotated[int, Meta(ge=1, le=10_000, description="At most so many.")] = 10_000


class Attempts(Part, kw_only=True, forbid_unknown_fields=True):
    """Which run, and which of its attempts."""

    key: Annotated[str | None, Meta(description="Only of the step with this key.")] = None


class Follow(FindRun, kw_only=True, forbid_unknown_fields=True):
    """Which run, and from where on."""

    after: Annotated[
        int, Meta(ge=-1, le=2**53, description="Only events behind this `seq`. The header Last-Event-ID comes first.")
    ] = -1


class Moment(FindRun, kw_only=True, forbid_unknown_fields=True):
    """Which run, and when."""

    seq: Annotated[Number | None, Meta(description="After the event of this number.")] = None
    at: Annotated[Zoned | None, Meta(description="At this time.")] = None


class RunFilters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which runs: all of what is given must fit."""

    workflow: str | None = None
    status: Annotated[tuple[RunStatus, ...], Meta(description="Any of these; give it several times.")] = ()
    waiting_on: Annotated[str | None, Meta(description="Exact, or a prefix that ends with '*'.")] = None
    user: str | None = None
    parent: Annotated[str | None, Meta(description="Children of the run with this uid.")] = None
    worker: Annotated[str | None, Meta(description="Held by the worker with this id now. For admins.")] = None
    created_from: Zoned | None = None
    created_until: Annotated[Zoned | None, Meta(description="Exclusive.")] = None
    attribute: Annotated[
        tuple[str, ...],
        Meta(
            description="NAME=VALUE, whose value is JSON if it can be, or text; or a JSON object of names and values. "
            "Give it several times."
        ),
    ] = ()
    after: Annotated[str | None, Meta(description="The `next` of the page before.")] = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


class VersionFilters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which versions."""

    status: Literal["draft", "active", "declined"] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class VersionsOfAll(VersionFilters, kw_only=True, forbid_unknown_fields=True):
    """Which versions, of which workflow."""

    workflow: str | None = None


class HeldSteps(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How many."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class WaitFilters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which waits: all of what is given must fit."""

    kind: WaitKind | None = None
    name: Annotated[str | None, Meta(description="What the body calls it; of an approval its key, if any.")] = None
    workflow: str | None = None
    after: Annotated[str | None, Meta(description="The `next` of the page before.")] = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50


# --- bodies -----------------------------------------------------------------------------------------------------------


class StartRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to start."""

    workflow: Annotated[str, Meta(description="Its registered name.")]
    input: Annotated[
        msgspec.Raw, Meta(description="By parameter name; of a workflow with one parameter, also its value as it is.")
    ] = msgspec.field(default_factory=lambda: msgspec.Raw(b"{}"))
    id: Annotated[
        str | None, Meta(description="The run's name: the same id again is the same run, so a request can be repeated.")
    ] = None
    on_conflict: Annotated[
        Literal["return", "raise", "restart"],
        Meta(description="When the id is taken: that run; RUN_EXISTS; or, if it has ended, a new one."),
    ] = "return"
    delay: Annotated[str | float | None, Meta(description="Begin after this: seconds, or text such as '5min'.")] = None
    at: Annotated[Zoned | None, Meta(description="Begin at this time.")] = None
    priority: Annotated[int, Meta(ge=0, le=9, description="0 is first.")] = 5
    queue: str = "default"
    user: Annotated[str | None, Meta(description="Whose run it is. For admins; else it is who asks.")] = None
    attributes: Annotated[dict[str, Scalar], Meta(description="What it can be found by.")] = {}
    timeout: Annotated[
        str | float | None, Meta(description="How long it may take: then it is cancelled. Seconds, or text.")
    ] = None
    trace: Annotated[str | None, Meta(description="W3C traceparent; default: the header of that name.")] = None


class CancelRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Why."""

    reason: str = "no reason given"
    force: Annotated[bool, Meta(description="Do not ask its body, which then cannot clean up.")] = False


class ResumeRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What to open."""

    reason: Annotated[str | None, Meta(description="What it is suspended on; default: the only thing.")] = None


class ForkRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to begin anew."""

    at: Annotated[str, Meta(description="Key of the first step that runs again.")]
    results: Annotated[dict[str, Any], Meta(description="Other results for steps before it, by key.")] = {}
    id: Annotated[str | None, Meta(description="The new run's name.")] = None


class SignalRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What happened."""

    name: Annotated[str, Meta(description="What the body waits for it by.")]
    value: Annotated[Any, Meta(description="What it carries.")] = None
    key: Annotated[str | None, Meta(description="Such as an event's id: with the same key it counts once.")] = None


class Decider(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """In whose name an admin decides."""

    id: str
    scopes: list[str] = []


class DecisionRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How somebody decides."""

    reason: Annotated[str, Meta(description="The approval's reason, or its key.")]
    value: Annotated[Any, Meta(description="The decision, as its schema says.")] = None
    by: Annotated[Decider | None, Meta(description="For admins; else it is who asks.")] = None
    key: Annotated[str | None, Meta(description="Of this attempt: the same again asks about the same one.")] = None


class DraftRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A graph to be stored."""

    definition: Annotated[dict[str, Any], Meta(description="Its name, nodes and output, as a graph's file has them.")]
    by: Annotated[str | None, Meta(description="Who stores it. For admins; else it is who asks.")] = None


class DecideRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """In whose name a version is activated or declined."""

    by: Annotated[str | None, Meta(description="Who decides; else it is who asks, if this server knows them.")] = None


class SignIn(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """For a session in a browser."""

    token: str


# --- answers ----------------------------------------------------------------------------------------------------------


class Outcome(msgspec.Struct, kw_only=True, frozen=True):
    """A run, and how it ended if it has."""

    id: str
    uid: str
    workflow: str
    status: RunStatus
    is_ended: bool
    output: Any = None
    """Of a completed run."""
    error: ErrorRecord | None = None
    """Of one that ended otherwise."""


class CancelAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """Whether there was something to cancel."""

    id: str
    uid: str
    is_sent: bool
    """False: it had ended already."""


class DecisionAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """What became of a decision."""

    id: str
    uid: str
    reason: str
    is_judged: bool
    """False: it is recorded, and the run has not come to it yet."""
    value: Any = None
    by: str | None = None
    at: datetime | None = None


class Done(msgspec.Struct, kw_only=True, frozen=True):
    """It is stored; it happens with the next worker that is up."""

    id: str
    uid: str


class DrainAnswer(msgspec.Struct, kw_only=True, frozen=True):
    """It is on record; the worker hears of it with its next heartbeat."""

    id: str
    drain_asked_at: datetime
    """When it was first asked, or began by itself."""


class Standing(msgspec.Struct, kw_only=True, frozen=True):
    """Whether this server can do its work."""

    is_ready: bool
    version: str


class Session(msgspec.Struct, kw_only=True, frozen=True):
    """Who asks, as this server sees it."""

    mode: Literal["open", "token", "hook"]
    is_signed_in: bool
    user: str | None = None
    scopes: list[str] = []


class Change(msgspec.Struct, kw_only=True, frozen=True):
    """Lists may have changed since the last one of these: read what is shown anew."""

    at: datetime


class End(msgspec.Struct, kw_only=True, frozen=True):
    """The last event of a stream: the run has ended."""

    seq: int
    status: RunStatus
