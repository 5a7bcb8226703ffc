"""Every state of a run, and every way from one to another. Layer: core.

The table below is the only place that knows. The docs' diagram and the tests are made from it. What always holds: a
terminal state absorbs, but for the doors that lead through a `RunReopened` entry.
"""

from __future__ import annotations

import enum

__all__ = ["TRANSITIONS", "RunStatus", "StepStatus", "is_ended", "is_legal", "to_mermaid"]


class RunStatus(enum.StrEnum):
    """SPEC R1. The values are what the row, JSON and the command line say."""

    QUEUED = "queued"
    RUNNING = "running"
    SUSPENDED = "suspended"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"
    COMPENSATION_FAILED = "compensation_failed"


class StepStatus(enum.StrEnum):
    """Of one step, by its latest attempt."""

    PENDING = "pending"
    STARTED = "started"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


_S = RunStatus

TRANSITIONS: dict[RunStatus, dict[RunStatus, str]] = {
    _S.QUEUED: {_S.RUNNING: "claimed", _S.CANCELLED: "cancelled before it ran"},
    _S.RUNNING: {
        _S.SUSPENDED: "a person or a deploy must act",
        _S.COMPLETED: "the body returned",
        _S.FAILED: "the body raised",
        _S.CANCELLED: "a cancel was delivered",
        _S.COMPENSATING: "failed or cancelled, with something to undo",
    },
    _S.SUSPENDED: {
        _S.RUNNING: "resumed",
        _S.COMPLETED: "resumed and done in one entry",
        _S.FAILED: "resumed and failed in one entry",
        _S.CANCELLED: "cancelled while suspended",
        _S.COMPENSATING: "cancelled with something to undo, or resumed while undoing",
        _S.COMPENSATED: "resumed and undone in one entry",
        _S.COMPENSATION_FAILED: "resumed, and undone in part, in one entry",
    },
    _S.COMPENSATING: {
        _S.COMPENSATED: "everything was undone",
        _S.COMPENSATION_FAILED: "a compensation used up its attempts",
        _S.SUSPENDED: "a person or a deploy must act",
    },
    _S.COMPLETED: {_S.COMPENSATING: "reopened by its parent's unwind"},
    _S.FAILED: {_S.QUEUED: "reopened by retry", _S.RUNNING: "reopened by a retry of its parent"},
    _S.CANCELLED: {_S.RUNNING: "reopened by a retry of its parent, with which it was cancelled"},
    _S.COMPENSATED: {},
    _S.COMPENSATION_FAILED: {},
}

ENDED = frozenset({_S.COMPLETED, _S.FAILED, _S.CANCELLED, _S.COMPENSATED, _S.COMPENSATION_FAILED})
"""SPEC R1's terminal states."""


def is_ended(status: RunStatus) -> bool:
    """Whether nothing moves the run any more, unless it is reopened."""
    return status in ENDED


def is_legal(before: RunStatus, after: RunStatus) -> bool:
    """Whether a run may go from one state to the other. Staying is always legal."""
    return before is after or after in TRANSITIONS[before]


def to_mermaid() -> str:
    """The table as a Mermaid state diagram, as ARCHITECTURE.md shows it."""
    lines = ["stateDiagram-v2", "    [*] --> queued: start"]
    for before, ways in TRANSITIONS.items():
        lines += [f"    {before} --> {after}: {why}" for after, why in ways.items()]
    lines += [f"    {status} --> [*]" for status in RunStatus if status in ENDED]
    return "\n".join(lines)
