"""What the stepper asks of what it carries out: steps of hot runs, and queued ones of any run. Layer: engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from outlast.core.trace import step_trace
from outlast.telemetry.logs import Traced

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Mapping

    from outlast.core.attempts import OpenStep
    from outlast.core.calls import StepCall
    from outlast.core.events import StepFailed, StepProgressed, StepSucceeded

__all__ = ["Carried", "Carrier", "Named", "step_trace_of"]


class Carrier(Protocol):
    """What attempts are of: a hot run, or, of a queued step, the task that this worker holds."""

    uid: str
    running: set[str]
    is_dropped: bool

    @property
    def ends(self) -> int | None:
        """How often the run has ended before; None: its `started` is of the step already, as its owner tells it."""
        ...

    @property
    def started(self) -> Named | None:
        """Who the run is."""
        ...

    @property
    def end(self) -> object | None:
        """The run has ended: nobody wants to hear that an outcome is dropped."""
        ...

    @property
    def steps(self) -> Mapping[str, OpenStep]:
        """Its open steps."""
        ...

    def now_us(self) -> int:
        """Its time."""
        ...

    def take(self, event: StepSucceeded | StepFailed | StepProgressed, /) -> None:
        """What the attempt came to, or says of itself."""
        ...


class Named(Traced, Protocol):
    """Who a run is, as its steps are told."""

    @property
    def user(self) -> str | None:
        """Who started it."""
        ...


class Carried(Protocol):
    """One step, about to be carried out."""

    key: str
    context: contextvars.Context
    """The step runs in a copy of it."""

    @property
    def call(self) -> StepCall:
        """One of authoring's calls: there are no others."""
        ...


def step_trace_of(run: Carrier, key: str) -> str:
    """The `traceparent` of a step: the same in every process."""
    if run.started is None:
        return ""
    return run.started.trace if run.ends is None else step_trace(run.started.trace, run.uid, key, run.ends)
