"""How a step is carried out: the options authors write, checked and settled once. Layer: authoring.

The same options, under the same names, go to `@app.step(…)`, `step.options(…)`, `ctx.do(…)` and `ctx.call(…)`. What
always holds: settings are complete and valid; whoever reads them checks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final, TypedDict

from outlast.core.durations import Duration, parse_duration
from outlast.core.keys import check_name
from outlast.core.retry import Backoff, BackoffFunction, RetryPolicy, Selector
from outlast.errors import InvalidDefinition, InvalidDuration

__all__ = ["CallOptions", "StepOptions", "StepSettings", "settle"]


class StepOptions(TypedDict, total=False):
    """What may be said of a step where it is declared, and changed where it is called. What is not said stays."""

    retries: int
    """Executions after the first. Default 5, so six in all; 0 is exactly one."""
    backoff: Backoff | Duration | BackoffFunction
    """Delay between them: `exponential()` (the default), `fixed()`, a duration, or a function of the failed attempt."""
    retry_on: Selector | None
    """Only these errors are retried: classes, or a predicate."""
    give_up_on: Selector | None
    """These are not. Stronger than `retry_on`."""
    timeout: Duration | None
    """Longest time for one attempt."""
    heartbeat_timeout: Duration | None
    """Longest time between two calls of `current_step().heartbeat()`."""
    queue: str | None
    """Workers of this queue that know the function carry it out. None: the worker of its run."""
    executor: str | None
    """The `concurrent.futures.Executor` of this name runs it."""
    at_most_once: bool
    """After a crash in the middle it is not repeated: it fails as StepInterrupted."""
    compensate: bool | Callable[..., object]
    """False: its effect stays when the run is unwound. A step or a function: this undoes it, called with the step's
    arguments and its result."""
    on_error: Callable[..., object] | None
    """Runs once, as a step of its own, when the step has failed for good; gets a `FailedStep`."""


class CallOptions(StepOptions, total=False):
    """What may be said where a step is called."""

    name: str
    """What the step is called in this run, in place of the function's name. Its key is made from it."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """Options, settled. Durations in µs; None is no limit."""

    policy: RetryPolicy = RetryPolicy()
    timeout_us: int | None = None
    heartbeat_timeout_us: int | None = None
    queue: str | None = None
    executor: str | None = None
    at_most_once: bool = False
    undo_with: Callable[..., object] | None = None
    """What undoes its success."""
    on_error: Callable[..., object] | None = None
    is_limited: bool = field(init=False)
    """An attempt may take too long, or be silent for too long."""

    def __post_init__(self) -> None:
        is_limited = self.timeout_us is not None or self.heartbeat_timeout_us is not None
        object.__setattr__(self, "is_limited", is_limited)

    @property
    def undo(self) -> str:
        """Name of what undoes its success; "" for nothing."""
        undo = self.undo_with
        return "" if undo is None else str(getattr(undo, "name", None) or getattr(undo, "__name__", "function"))


_POLICY: Final = ("retries", "backoff", "retry_on", "give_up_on")
_NAMES: Final = tuple(StepOptions.__annotations__)


def settle(base: StepSettings, changes: Mapping[str, object], where: str) -> StepSettings:
    """`base` with the changes. `where` is for messages: the function, and its place.

    Raises InvalidDefinition, InvalidDuration or InvalidName for what is no option, or no value of it.
    """
    settled: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    for name, value in changes.items():
        if name in _POLICY:
            policy[name] = value
        elif name in {"timeout", "heartbeat_timeout"}:
            settled[f"{name}_us"] = _duration(name, value, where)
        elif name in {"queue", "executor"}:
            settled[name] = None if value is None else check_name(name, value)
        elif name == "at_most_once":
            settled[name] = _bool(name, value, where)
        elif name == "compensate":
            settled["undo_with"] = _undo(base.undo_with, value, where)
        elif name == "on_error":
            settled[name] = _callable(value, where)
        else:
            raise _unknown(name, where)
    if policy:
        settled["policy"] = _policy(base.policy, policy, where)
    return replace(base, **settled)


def _policy(base: RetryPolicy, changes: dict[str, Any], where: str) -> RetryPolicy:
    try:
        return replace(base, **changes)
    except InvalidDefinition as error:  # it knows the option, and not whose
        raise InvalidDefinition(error.problem, where, error.fix) from None
    except InvalidDuration as error:
        error.add_note(f"Given as backoff= of {where}.")
        raise


def _duration(name: str, value: object, where: str) -> int | None:
    if value is None:
        return None
    try:
        us = parse_duration(value)
    except InvalidDuration as error:
        error.add_note(f"Given as {name}= of {where}.")
        raise
    if us == 0:
        raise InvalidDefinition(f"{name}={value!r} leaves no time at all", where, "Use None for no limit.")
    return us


def _bool(name: str, value: object, where: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidDefinition(f"{name}={value!r} is neither True nor False", where, "Give one of them.")
    return value


def _undo(declared: Callable[..., object] | None, value: object, where: str) -> Callable[..., object] | None:
    if callable(value):
        return value
    return declared if _bool("compensate", value, where) else None


def _callable(value: object, where: str) -> Callable[..., object] | None:
    if value is not None and not callable(value):
        raise InvalidDefinition(f"on_error={value!r} cannot be called", where, "Give a step or a function.")
    return value


def _unknown(name: str, where: str) -> InvalidDefinition:
    close = get_close_matches(name, _NAMES, n=1)
    fix = f"Is it {close[0]}=?" if close else f"There are {', '.join(_NAMES)}."
    return InvalidDefinition(f"There is no option {name}=", where, fix)
