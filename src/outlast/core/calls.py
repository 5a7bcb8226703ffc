"""A call of a step as core sees it: what authoring gives, what the machine waits for, whose failure an error is.
Layer: core.

What always holds: core knows of a call what its journal entry and its comparison need; how it is carried out is
between authoring, which makes calls, and the engine.
"""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from outlast.core.loop import BodyFuture

__all__ = ["STEP_MARK", "PendingStep", "StepCall", "find_failed_steps"]

STEP_MARK = "__outlast_step__"
"""Attribute of an exception that came from a step's failure: the step's key. `RunFailed.steps` is read from it."""


class StepCall(Protocol):
    """What the machine reads of one call of a step. The engine, which carries the step out, reads more."""

    name: str
    """What the key is made from."""
    function: str
    """Registered name of what is to run."""
    kind: str
    """`step` or `closure`."""
    arguments: bytes
    """As JSON, defaults included."""
    retries: int
    """Attempts beyond the first."""
    undo: str
    """Name of what undoes its success; "" for nothing."""

    @property
    def timeout_us(self) -> int | None:
        """Longest time for one attempt; None: no limit."""
        ...

    @property
    def compensates(self) -> str:
        """Key of the step whose effect this one undoes; "" for none."""
        ...

    @property
    def is_left(self) -> bool:
        """A child that goes on by itself when its parent's run is over."""
        ...

    def same_arguments(self, recorded: bytes) -> bool:
        """Whether this call's explicit arguments are those on record."""
        ...


class PendingStep:
    """A step the body waits for, or gave up on, whose outcome has not been fed."""

    __slots__ = ("attempt", "call", "context", "future", "key")

    def __init__(self, key: str, call: StepCall, future: BodyFuture, context: contextvars.Context) -> None:
        self.key = key
        self.call = call
        self.future = future
        self.context = context
        """Copy of the body task's context at the call: the step runs in it."""
        self.attempt = 1
        """The attempt whose outcome the future has."""


def find_failed_steps(error: BaseException) -> list[str]:
    """Keys of the steps this error is, groups, or came from, in the order found."""
    found: dict[str, None] = {}
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        exc = waiting.pop()
        if exc is None or id(exc) in seen:
            continue
        seen.add(id(exc))
        key = getattr(exc, STEP_MARK, None)
        if key is not None:
            found[key] = None
        if isinstance(exc, BaseExceptionGroup):
            waiting.extend(reversed(exc.exceptions))
        waiting += [exc.__context__, exc.__cause__]
    return list(found)
