"""How a step, or an approval, fails. Layer: errors."""

from __future__ import annotations

from outlast.errors.run import RunError

__all__ = [
    "ApprovalForbidden",
    "ApprovalInvalid",
    "ApprovalResolved",
    "HeartbeatTimeout",
    "StepFailed",
    "StepInterrupted",
    "StepLeaseExpired",
    "StepTimeout",
]


class StepFailed(RunError):
    """A step's error whose class cannot be rebuilt here."""

    template = (
        "{type}, {message}",
        "step {step!r}, attempt {attempts}",
        "See .traceback; catch StepFailed, or declare its class in a module.",
    )
    type: str
    message: str
    traceback: str = ""
    code: str = "STEP_FAILED"  # type: ignore[misc]  # a field here: the original's own code, where it had one
    data: object = None  # what of the original JSON could carry
    step: str = ""
    attempts: int = 1
    expected: bool = False

    def parts(self) -> tuple[str, str, str]:
        """What happened, to what, and what to do. An error that no step raised is the body's own."""
        what, where, todo = super().parts()
        return what, where if self.step else "the workflow's body", todo


class StepLeaseExpired(RunError):
    """The worker that ran the last attempt was lost, and no attempt is left."""

    code = "STEP_LEASE_EXPIRED"
    template = (
        "Its worker was lost and no attempt is left",
        "step {step!r}, attempt {attempts}",
        "Find why it died, then run.retry().",
    )
    step: str
    attempts: int


class StepInterrupted(RunError):
    """An `at_most_once` step was cut off: it may or may not have had its effect."""

    code = "STEP_INTERRUPTED"
    template = "Cut off, and not repeated since it is at_most_once", "step {step!r}", "Find out whether it took effect."
    step: str


class StepTimeout(RunError, TimeoutError):
    """One attempt took longer than the step's `timeout`."""

    code = "STEP_TIMEOUT"
    template = (
        "No outcome within {timeout}",
        "step {step!r}, attempt {attempt}",
        "Raise timeout=, or find what it waits for.",
    )
    step: str
    attempt: int
    timeout: str


class HeartbeatTimeout(RunError, TimeoutError):
    """A step gave no sign of life within its `heartbeat_timeout`."""

    code = "HEARTBEAT_TIMEOUT"
    template = (
        "No heartbeat within {timeout}",
        "step {step!r}, attempt {attempt}",
        "Call heartbeat() more often, or find what hangs.",
    )
    step: str
    attempt: int
    timeout: str


class ApprovalForbidden(RunError):
    """This user may not decide. The gate stays closed."""

    code = "APPROVAL_FORBIDDEN"
    template = "{user!r} may not decide this, {problem}", "run {id!r}, {reason!r}", "Ask somebody who may."
    id: str
    reason: str
    user: str
    problem: str


class ApprovalInvalid(RunError, ValueError):
    """The decision does not fit the approval's schema. The gate stays closed."""

    code = "APPROVAL_INVALID"
    template = (
        "The decision does not fit, {problem}",
        "run {id!r}, {reason!r}",
        "Decide again with what its schema asks for.",
    )
    id: str
    reason: str
    problem: str


class ApprovalResolved(RunError):
    """Somebody else decided first, or it expired."""

    code = "APPROVAL_RESOLVED"
    template = "Already settled: {outcome}", "run {id!r}, {reason!r}", "Nothing is left to decide."
    id: str
    reason: str
    outcome: str
