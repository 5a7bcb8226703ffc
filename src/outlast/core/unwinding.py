"""What a run did that can be undone, and in which order it is. Layer: core.

What always holds: what is undone last was done first; nothing is undone twice, or that did not succeed; and the list
follows from the journal alone, so that every replay finds the same one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from outlast.core.events import (
    NOTHING,
    RunCancelled,
    RunCompensated,
    RunCompensationFailed,
    RunFailed,
    RunOutcome,
    UnwindStarted,
)

if TYPE_CHECKING:
    import msgspec

    from outlast.core.calls import StepCall
    from outlast.core.reopening import Fact

__all__ = ["Undoable", "Undoables", "compensation_key", "decide_unwound", "start_unwind"]


class Undoable(NamedTuple):
    """One effect of a run: a step that succeeded, a child that completed, or an undo that the body registered."""

    key: str
    function: str = ""
    """Registered name of what had the effect; "" for an undo of the body's own."""
    kind: str = "step"
    arguments: bytes = b"{}"
    value: msgspec.Raw = NOTHING
    call: StepCall | None = None
    """The call that had the effect; None for one from before a `retry()`."""
    undo: Any = None
    """Of the body's own: what it gave. Authoring knows what that is."""


class Undoables:
    """In the order in which they were done."""

    __slots__ = ("_done", "_kept")

    def __init__(self) -> None:
        self._done: dict[str, Undoable] = {}
        self._kept: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._done)

    def add(self, key: str, call: StepCall, value: msgspec.Raw) -> None:
        """A step of this call succeeded, and something undoes it."""
        self._add(Undoable(key, call.function, call.kind, call.arguments, value, call))

    def register(self, key: str, undo: object) -> None:
        """An undo of the body's own."""
        self._add(Undoable(key, undo=undo))

    def keep(self, key: str) -> None:
        """What this step did, or will have done, stays."""
        self._kept[key] = None
        self._done.pop(key, None)

    def in_order(self, facts: Mapping[str, Fact]) -> list[Undoable]:
        """What is undone first comes first. Last come successes from before a `retry()` that the body has not asked for
        again: their effects are there all the same."""
        left = [
            Undoable(key, fact.function, fact.kind, fact.arguments, fact.value)
            for key, fact in reversed(list(facts.items()))
            if fact.undo and key not in self._kept
        ]
        return [*reversed(self._done.values()), *left]

    def keys_of(self, function: str) -> list[str]:
        """Keys of what this function did."""
        return [key for key, done in self._done.items() if done.function == function]

    def _add(self, undoable: Undoable) -> None:
        if undoable.key not in self._kept:
            self._done[undoable.key] = undoable


def compensation_key(key: str) -> str:
    """What the step is called that undoes this one."""
    return f"compensate:{key}"


def start_unwind(cause: RunOutcome | None, undoables: Iterable[Undoable]) -> UnwindStarted:
    """What goes on record before anything is undone. `cause` is how the body ended; None: its parent is unwound."""
    keys = tuple(undoable.key for undoable in undoables)
    if isinstance(cause, RunFailed):
        return UnwindStarted(keys, cause.error, cause.steps)
    if isinstance(cause, RunCancelled):
        return UnwindStarted(keys, cause.error, reason=cause.reason)
    return UnwindStarted(keys)


def decide_unwound(started: UnwindStarted, failed: tuple[str, ...]) -> RunOutcome:
    """How the run ends, when these could not be undone."""
    if failed:
        return RunCompensationFailed(failed, started.error, started.steps, started.reason)
    return RunCompensated(started.error, started.steps, started.reason)
