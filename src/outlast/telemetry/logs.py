"""Log lines: which loggers there are, what each record carries, and how an error is told. Layer: telemetry.

Everything is logged below `outlast`, through the standard library; no handler is installed. What always holds: a line
about a run carries `run`, `step`, `attempt` and `trace` as attributes of its record, those that do not apply as `None`,
so that a formatter or filter may name them; its text says run and step as well. An *expected* error is one line, any
other comes with its traceback (SPEC R8).
"""

from __future__ import annotations

import logging
import sys
import traceback
from typing import Protocol, TypedDict

from outlast.core.events import ErrorRecord, RunStarted

__all__ = [
    "ENGINE",
    "STEPS",
    "Fields",
    "fields",
    "log_outcome_dropped",
    "log_run_failed",
    "log_step_failed",
    "one_line",
    "unfailing",
]


class _Unfailing(logging.Logger):
    """Stands before the logger of its name. A handler or a filter that raises costs a line, and no run (invariant 11):
    in the midst of a run's move it would lose what is being recorded."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._behind = logging.getLogger(name)

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802 - the standard library's name
        return self._behind.isEnabledFor(level)

    def handle(self, record: logging.LogRecord) -> None:
        try:
            self._behind.handle(record)
        except Exception:  # noqa: BLE001 - whatever a handler does
            if logging.raiseExceptions and sys.stderr is not None:
                traceback.print_exc(file=sys.stderr)


def unfailing(name: str) -> logging.Logger:
    """The logger of this name, as the engine may use it wherever it is: a handler that raises costs a line."""
    return _Unfailing(name)


ENGINE: logging.Logger = unfailing("outlast")
"""What the engine says of runs, workers and stores."""
STEPS: logging.Logger = unfailing("outlast.step")
"""How attempts of steps failed."""

LONGEST_LINE = 500


class Traced(Protocol):
    """A run, as lines about it name it."""

    @property
    def id(self) -> str:
        """What people call it."""
        ...

    @property
    def trace(self) -> str:
        """W3C `traceparent`."""
        ...


class Fields(TypedDict):
    """What each record about a run carries (as `extra`)."""

    run: str | None
    """The user's id of the run."""
    step: str | None
    attempt: int | None
    trace: str | None
    """W3C `traceparent` of the run."""


def fields(started: Traced | None, step: str | None = None, attempt: int | None = None) -> Fields:
    """The `extra` of a line about this run, step and attempt."""
    run = trace = None
    if started is not None:
        run, trace = started.id, started.trace or None
    return Fields(run=run, step=step, attempt=attempt, trace=trace)


def log_step_failed(started: Traced | None, key: str, attempt: int, error: ErrorRecord, *, will_retry: bool) -> None:
    """An attempt failed, says `STEPS`. A warning while others follow or the error is expected; else an error."""
    extra = fields(started, key, attempt)
    level = logging.WARNING if will_retry or error.expected else logging.ERROR
    after = "; it is retried" if will_retry else ""
    text = f"step {key} of run {extra['run']} failed, attempt {attempt}{after}"
    _log_error(STEPS, level, text, error, extra)


def log_outcome_dropped(log: logging.Logger, started: Traced | None, key: str, attempt: int) -> None:
    """An attempt's worker lost its run or its task, or gave it up, before the outcome was on record (SPEC L4)."""
    extra = fields(started, key, attempt)
    text = "what attempt %d of step %s of run %s came to is dropped: this worker has it no more"
    log.warning(text, attempt, key, extra["run"], extra=extra)


def log_run_failed(log: logging.Logger, started: RunStarted | None, error: ErrorRecord) -> None:
    """A run failed for good. A warning when its author expects such errors, else an error."""
    extra = fields(started)
    level = logging.WARNING if error.expected else logging.ERROR
    _log_error(log, level, f"run {extra['run']} failed", error, extra)


def _log_error(log: logging.Logger, level: int, text: str, error: ErrorRecord, extra: Fields) -> None:
    if not log.isEnabledFor(level):
        return
    said = f"{error.type}: {one_line(error.message)}" if error.message else error.type
    if error.expected or not error.traceback:
        log.log(level, "%s: %s", text, said, extra=extra)
    else:
        log.log(level, "%s: %s\n%s", text, said, error.traceback.rstrip(), extra=extra)


def one_line(text: str) -> str:
    """Any text as one line of at most 500 characters: what a peer sent must not look like lines of ours."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"
