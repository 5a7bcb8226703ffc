"""What the engine asks of a tracing system while a step executes, or a run is started. Layer: telemetry.

Runs, steps and waits need nobody while they last: their spans are made once they are over (`spans`). An attempt is
different: whatever the step's code calls is to be part of its span, so the span must be there before.
"""

from __future__ import annotations

from typing import Protocol

from outlast.telemetry.logs import Traced

__all__ = ["AttemptSpan", "StartSpan", "Tracing"]


class AttemptSpan(Protocol):
    """An attempt while it lasts."""

    @property
    def traceparent(self) -> str:
        """What it hands on to others."""
        ...

    def end(self, error: BaseException | None, status: str) -> None:
        """It is over: `succeeded`, `failed` …, or `dropped`, when nobody wanted to know."""
        ...


class StartSpan(Protocol):
    """A start while it lasts."""

    @property
    def traceparent(self) -> str:
        """What the run goes on from."""
        ...

    def end(self, run: str | None) -> None:
        """The run of this id will happen; None: it will not."""
        ...


class Tracing(Protocol):
    """A tracing system. What always holds: nothing of it raises, and nothing waits for an exporter."""

    def begin_attempt(
        self, run: Traced, uid: str, key: str, function: str, attempt: int, *, within: str
    ) -> AttemptSpan | None:
        """An attempt begins, in the context at hand: from now on its span is the current one there. `within` is the
        `traceparent` of its step."""
        ...

    def begin_start(self, workflow: str) -> StartSpan | None:
        """Somebody asks for a run of this workflow."""
        ...
