"""How a command ends: exit codes, and errors told in three parts. Layer: cli.

What always holds: an error says what happened, to what, and what to do about it, on standard error; with `--json` the
same, as a document, on standard output. A traceback is shown only where it is the user's own code that raised.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from outlast.core.states import RunStatus
from outlast.errors import ConfigError, DefinitionError, OutlastError, RunCancelled, RunSuspended
from outlast.run import RunInfo

__all__ = [
    "CommandError",
    "ExitCode",
    "Problem",
    "exit_code_of",
    "exit_code_of_run",
    "exit_code_of_status",
    "problem_of",
]


class ExitCode(enum.IntEnum):
    """What scripts may rely on."""

    COMPLETED = 0
    FAILED = 1
    """The run failed, or the store or the run refused what was asked."""
    USAGE = 2
    """A wrong option, module, workflow or input. Nothing was stored."""
    CANCELLED = 3
    WAITING = 4
    """Suspended, or not ended within the time given. The run is kept."""
    INTERRUPTED = 130
    """By SIGINT or SIGTERM. The run is kept."""


class Problem(NamedTuple):
    """An error as it is told."""

    code: str
    what: str
    where: str
    todo: str


class CommandError(Exception):
    """Something that is the command line's own to say."""

    def __init__(self, code: str, what: str, where: str, todo: str, exit_code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(f"{what}: {where}. {todo}")
        self.problem = Problem(code, what, where, todo)
        self.exit_code = exit_code


# What to do, in words of this layer: the errors' own speak of Python.
_TODO = {
    "RUN_EXISTS": "Choose another --id, or use --on-conflict return.",
    "RUN_CONFLICT": "Choose another --id.",
    "RUN_ENDED": "Nothing was sent. A failed run can go on: outlast retry RUN.",
    "RUN_NOT_ENDED": "Wait for its end, or end it: outlast cancel RUN.",
    "APPROVAL_FORBIDDEN": "See who may: outlast waits.",
    "APPROVAL_INVALID": "See what it asks for: outlast waits --json.",
    "RUN_NOT_FAILED": "See how it stands: outlast show RUN.",
    "WORKER_NOT_FOUND": "See who is: outlast workers. One that died or lost its lease has nothing to drain.",
    "SCHEMA_TOO_OLD": "Run: outlast migrate.",
}


def problem_of(error: BaseException) -> Problem:
    """How the error is told."""
    if isinstance(error, CommandError):
        return error.problem
    if isinstance(error, OutlastError):
        what, where, todo = error.parts()
        code = str(getattr(error, "code", "")) or type(error).__name__
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
        return Problem(code, what, where, _TODO.get(code, todo) + notes)
    return Problem(type(error).__name__, type(error).__name__, str(error), "")


def exit_code_of(error: BaseException) -> ExitCode:
    """By whose problem it is."""
    if isinstance(error, CommandError):
        return error.exit_code
    if isinstance(error, DefinitionError | ConfigError):
        return ExitCode.USAGE
    if isinstance(error, RunCancelled):
        return ExitCode.CANCELLED
    if isinstance(error, RunSuspended | TimeoutError):
        return ExitCode.WAITING
    return ExitCode.FAILED


def exit_code_of_status(status: RunStatus) -> ExitCode:
    """What a run's status means to the script that waited for it."""
    match status:
        case RunStatus.COMPLETED:
            return ExitCode.COMPLETED
        case RunStatus.CANCELLED:
            return ExitCode.CANCELLED
        case RunStatus.FAILED | RunStatus.COMPENSATED | RunStatus.COMPENSATION_FAILED:
            return ExitCode.FAILED
        case _:
            return ExitCode.WAITING


def exit_code_of_run(info: RunInfo) -> ExitCode:
    """The same of a run: one that was cancelled and could be undone is cancelled."""
    was_cancelled = info.error is not None and info.error.code == RunCancelled.code
    if info.status is RunStatus.COMPENSATED and was_cancelled:
        return ExitCode.CANCELLED
    return exit_code_of_status(info.status)
