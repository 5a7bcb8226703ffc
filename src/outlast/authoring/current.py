"""What a step knows of itself: `current_step()`. Layer: authoring.

What always holds: an attempt sees its own facts and no other's, also in a thread, also in what it starts. The engine
runs each attempt in a copy of the context of the body task that called it, and enters the facts there; bodies
themselves run in contexts that never held any.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar, Token
from datetime import datetime
from typing import Any, Protocol
from uuid import uuid4

from outlast.core.instants import to_datetime
from outlast.core.keys import invocation_id
from outlast.errors import NotInStep

__all__ = [
    "Described",
    "StepInfo",
    "current_step",
    "detached_step",
    "entered_step",
    "find_current_step",
    "reset_step",
    "set_step",
]


class StepInfo:
    """What `current_step()` gives: who the step is, on which attempt, for whom, and how long it may take.

    All of it may be read, and `heartbeat` called, from any thread the step runs in.
    """

    __slots__ = (
        "_deadline_us",
        "_invocation_id",
        "_on_heartbeat",
        "_outer",
        "_stopped",
        "attempt",
        "compensating_for",
        "key",
        "max_attempts",
        "run_id",
        "traceparent",
        "uid",
        "user",
    )

    def __init__(
        self,
        *,
        run_id: str | None,
        uid: str | None,
        key: str,
        attempt: int = 1,
        max_attempts: int = 1,
        user: str | None = None,
        traceparent: str = "",
        deadline: int | None = None,
        on_heartbeat: Callable[[Any], None] | None = None,
        compensating_for: str | None = None,
        outer: StepInfo | None = None,
    ) -> None:
        """`deadline` is in µs since the Unix epoch; `on_heartbeat` is called with the progress, in the step's thread.

        `outer` is the step that this one was called in, as a plain function.
        """
        self.run_id = run_id
        """The user's name for the run; None where there is no run."""
        self.uid = uid
        self.key = key
        self.attempt = attempt
        """From 1."""
        self.max_attempts = max_attempts
        self.user = user
        """Id of who started the run."""
        self.traceparent = traceparent
        """W3C trace context: hand it on with outgoing calls."""
        self.compensating_for = compensating_for
        """Key of the step that this one undoes; None for any other."""
        self._deadline_us = deadline
        self._on_heartbeat = on_heartbeat
        self._stopped = ""
        self._outer = outer
        self._invocation_id: str | None = None

    @property
    def invocation_id(self) -> str:
        """What this step of this run is called in the world, on every attempt: an idempotency key for others."""
        known = self._invocation_id
        if known is None:
            known = str(uuid4()) if self.uid is None else invocation_id(self.uid, self.key)
            self._invocation_id = known
        return known

    @property
    def deadline(self) -> datetime | None:
        """When this attempt times out, in UTC; None: never."""
        return None if self._deadline_us is None else to_datetime(self._deadline_us)

    @property
    def lost(self) -> bool:
        """Nobody waits for this attempt any more: its run was cancelled, it timed out, or another worker has it.

        An async step is cancelled besides. A thread cannot be, so a long one should look here between two effects.
        """
        return self._stopped != "" or (self._outer is not None and self._outer.lost)

    def stop(self, why: str) -> None:
        """The engine says that nobody waits for this attempt any more, and why: `cancelled`, `timeout` and the like."""
        self._stopped = why

    def heartbeat(self, progress: Any = None) -> None:
        """Say that the step is alive, and how far it is; `run.status()` shows it. For steps with `heartbeat_timeout`.

        Cheap enough for a loop. `progress` is any value JSON can carry; None leaves what was said before. Raises
        NotEncodable or ValueTooLarge.
        """
        if self._on_heartbeat is not None:
            self._on_heartbeat(progress)
        elif self._outer is not None:
            self._outer.heartbeat(progress)

    def portable(self) -> dict[str, Any]:
        """What to make the same facts from in another process. A heartbeat from there reaches nobody."""
        return {
            "run_id": self.run_id,
            "uid": self.uid,
            "key": self.key,
            "attempt": self.attempt,
            "max_attempts": self.max_attempts,
            "user": self.user,
            "traceparent": self.traceparent,
            "deadline": self._deadline_us,
            "compensating_for": self.compensating_for,
        }

    def __repr__(self) -> str:
        return f"<step {self.key!r} of run {self.run_id!r}, attempt {self.attempt} of {self.max_attempts}>"


class Described(Protocol):
    """An attempt that makes its facts when they are first asked for: most steps never ask."""

    def step_info(self) -> StepInfo:
        """The same object each time."""
        ...


_current: ContextVar[StepInfo | Described | None] = ContextVar("outlast_current_step", default=None)


def current_step() -> StepInfo:
    """The step that is running. Under a plain call of a step, outside a run, a detached one: without a run, on its
    first attempt, with a fresh `invocation_id`.

    Raises NotInStep anywhere else, a workflow's body included.
    """
    info = find_current_step()
    if info is None:
        raise NotInStep("current_step()")
    return info


def entered_step(info: StepInfo | Described | None) -> None:
    """From here on, in this context, `info` is the current step."""
    _current.set(info)


def detached_step(name: str, outer: StepInfo | None) -> StepInfo:
    """Facts for a plain call of a step. Within another step it takes part in that one's heartbeat and fate, but is
    called something else in the world: two plain calls must not share an idempotency key."""
    if outer is None:
        return StepInfo(run_id=None, uid=None, key=name)
    facts = outer.portable() | {"run_id": None, "uid": None, "key": name, "attempt": 1, "max_attempts": 1}
    return StepInfo(**facts, outer=outer)


def find_current_step() -> StepInfo | None:
    """As `current_step`, with None for nowhere."""
    info = _current.get()
    return info if info is None or isinstance(info, StepInfo) else info.step_info()


def set_step(info: StepInfo) -> Token[StepInfo | Described | None]:
    """From here until `reset_step` of what this gives, `info` is the current step."""
    return _current.set(info)


def reset_step(token: Token[StepInfo | Described | None]) -> None:
    """The step before is the current one again."""
    with suppress(ValueError):  # a coroutine that is closed in another context than it ran in: nothing to put back
        _current.reset(token)
