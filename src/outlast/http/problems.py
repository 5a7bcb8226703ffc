"""Errors as `application/problem+json` (RFC 9457). Layer: http.

What always holds: `code` is the error tree's, the same in every release and in Python; what went wrong inside the
server is logged, and not told.
"""

from __future__ import annotations

import logging
import secrets
from typing import Any

import msgspec

from outlast import errors
from outlast.errors import OutlastError
from outlast.http.refusals import Internal, Refusal
from outlast.telemetry.logs import ENGINE

__all__ = ["Problem", "problem_of", "status_of"]

MEDIA_TYPE = "application/problem+json"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request was refused, or failed."""

    type: str
    """`urn:outlast:` and the code."""
    title: str
    """What happened."""
    status: int
    code: str
    """Stable: for programs."""
    detail: str
    """What happened, to what, and what to do."""
    fields: dict[str, str | int | float | bool | list[str] | None] = {}
    """The values in the detail, by name: `id`, `field`, `expected` …"""


_STATUS: dict[type[OutlastError], int] = {
    errors.RunNotFound: 404,
    errors.FunctionNotFound: 404,
    errors.WorkerNotFound: 404,
    errors.RunExists: 409,
    errors.RunConflict: 409,
    errors.RunEnded: 409,
    errors.RunNotEnded: 409,
    errors.RunNotFailed: 409,
    errors.VersionNotActive: 409,
    errors.WaitNotFound: 409,
    errors.ApprovalResolved: 409,
    errors.ApprovalForbidden: 403,
    errors.ApprovalInvalid: 422,
    errors.InvalidDefinition: 422,
    errors.InvalidInput: 422,
    errors.InvalidName: 422,
    errors.InvalidDuration: 422,
    errors.InvalidSetting: 422,
    errors.NotEncodable: 422,
    errors.ValueTooLarge: 413,
    errors.InboxFull: 429,
    errors.PayloadUnreadable: 503,
    errors.StoreUnavailable: 503,
    errors.StoreBusy: 503,
    errors.StoreReadOnly: 503,
    errors.AppNotOpen: 503,
    errors.StoreFull: 507,
}
"""Those that who asks can do something about, or wait for. Any other is ours: 500."""


_TODO = {
    "RUN_NOT_FOUND": "Check the id, or list what there is: GET /api/v1/runs.",
    "RUN_EXISTS": "Choose another id, or send on_conflict: return.",
    "RUN_ENDED": "Nothing was sent. A failed run can go on: POST /api/v1/runs/{id}/retry.",
    "RUN_NOT_ENDED": "Wait for its end, or end it: POST /api/v1/runs/{id}/cancel.",
    "WORKER_NOT_FOUND": "See who is: GET /api/v1/workers. One that died or lost its lease has nothing to drain.",
    "RUN_NOT_FAILED": "See how it stands: GET /api/v1/runs/{id}.",
    "FUNCTION_NOT_FOUND": "Correct the name: GET /api/v1/workflows lists what there is.",
}
"""What to do, in words of HTTP: the errors' own speak of Python."""


def status_of(error: type[OutlastError]) -> int:
    """The HTTP status of an error, by its class."""
    if issubclass(error, Refusal):
        return error.status
    return next((_STATUS[cls] for cls in error.__mro__ if cls in _STATUS), 500)


def problem_of(error: Exception) -> Problem:
    """The error as it is told. What is ours is logged with a number, and only that number is told."""
    if isinstance(error, OutlastError):
        status = status_of(type(error))
        if status != 500:
            return _tell(error, status)
    incident = secrets.token_hex(6)
    ENGINE.error("incident %s: a request failed", incident, exc_info=error)
    return _tell(Internal(incident), 500)


def _tell(error: OutlastError, status: int) -> Problem:
    what, where, todo = error.parts()
    todo = _TODO.get(str(error.code), todo)
    fields = {name: _plain(getattr(error, name)) for name in error._fields}
    if isinstance(error, errors.StoreError):  # names files and hosts
        ENGINE.log(logging.WARNING, "a request was answered with %d: %s", status, error)
        what, where, todo, fields = (
            what.partition(",")[0],
            "the store",
            "Try again later; the server's log has more.",
            {},
        )
    code = str(error.code)
    return Problem(f"urn:outlast:{code}", what, status, code, f"{what}: {where}. {todo}", fields)


def _plain(value: object) -> Any:
    if value is None or isinstance(value, str | int | float):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, list | tuple):
        return [str(one) for one in value]
    return repr(value)[:200]
