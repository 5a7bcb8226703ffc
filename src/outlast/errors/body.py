"""What stops a body: control flow that no `except Exception` may swallow. Layer: errors."""

from __future__ import annotations

from outlast.errors.described import Described

__all__ = ["BodyBlocked", "BodyDeadlock", "BodySpins", "BodyStopped", "ExtensionMissing"]


class BodyStopped(Described, BaseException):
    """The engine stops a body that hurts others. The run is suspended with `code`, for a person."""


class BodySpins(BodyStopped):
    """The body ran through its budget of callbacks without asking for anything."""

    code = "BODY_SPINS"
    template = (
        "The body spins: {callbacks} callbacks and no request",
        "run {id!r}\n{stack}",
        "End the loop, or await a step in it.",
    )
    id: str
    callbacks: int
    stack: str = ""


class BodyBlocked(BodyStopped):
    """The body held its worker's event loop for too long."""

    code = "BODY_BLOCKED"
    template = "The body blocked its worker for {seconds:.0f} s", "run {id!r}\n{stack}", "Move the work into a step."
    id: str
    seconds: float
    stack: str = ""


class BodyDeadlock(BodyStopped):
    """Nothing is under way that could ever move the body again."""

    code = "DEADLOCK"
    template = (
        "The body waits for what cannot come",
        "run {id!r}\n{stack}",
        "Await a step, a timer or an answer instead, then resume the run.",
    )
    id: str
    stack: str = ""


class ExtensionMissing(BodyStopped):
    """The body uses an extension that this process's app was not given."""

    code = "EXTENSION_MISSING"
    template = (
        "The body uses the extension {extension}, which this app does not have",
        "run {id!r}",
        "Give it to the app of every worker, Outlast(extensions=[…]), and resume the run.",
    )
    extension: str
    id: str
