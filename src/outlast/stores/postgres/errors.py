"""From the driver's errors to outlast's: what happened, to which store, what to do. Layer: stores (postgres).

What always holds: none of the driver's exceptions leaves the store.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import asyncpg

from outlast.errors import (
    InvalidSetting,
    OutlastError,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreReadOnly,
    StoreRefused,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from outlast.stores.postgres.settings import Settings

__all__ = ["DRIVER_ERRORS", "breaks_constraint", "is_undone", "to_store_error"]

DRIVER_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, ssl.SSLError)
"""What a request to the server may raise. `TimeoutError` is an `OSError`."""

_UNDONE = {"40001", "40P01"}
"""The server gave way to somebody else, and nothing happened: the same may be sent again at once."""

_BUSY = _UNDONE | {"55P03", "57014"}
"""A lock or an answer took too long; likewise nothing happened."""

_READ_ONLY = {"25006", "42501"}
"""A standby, or a role that may not."""

_DISK_FULL = "53100"

_CORRUPT = {"XX001", "XX002"}

_MISSING = {"3F000", "42P01", "42703", "42883"}
"""A schema, table, column or function that our migrations made."""

_GONE = {"08", "53", "57", "58", "XX", "25P03", "F0"}
"""Classes of errors, and one error, that say nothing of what was sent: the server stops, starts, has no place or a
fault of its own, or has closed the session. Whether a commit landed is not known."""

_WRONG_SETTING = {"28000", "28P01", "3D000", "42704", "22023", "08P01"}
"""The server refuses who connects, or with what; no retry mends that. 08P01: what a pooler says to settings."""


def is_undone(error: BaseException) -> bool:
    """Whether the server took the request back for another's sake."""
    return _code_of(error.__cause__) in _UNDONE


def breaks_constraint(error: BaseException) -> bool:
    """Whether the request came upon a row that is there already."""
    return isinstance(error.__cause__, asyncpg.UniqueViolationError)


def to_store_error(error: BaseException, settings: Settings, *, connecting: bool = False) -> OutlastError:
    """The error to raise instead, with this one as its cause."""
    instead = _translate(error, settings, connecting=connecting)
    instead.__cause__ = error
    return instead


def _code_of(error: BaseException | None) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _translate(error: BaseException, settings: Settings, *, connecting: bool) -> OutlastError:
    url, code = settings.url, _code_of(error)
    told = f"{error}".strip().rstrip(".") or type(error).__name__
    if connecting and (code in _WRONG_SETTING or isinstance(error, ValueError)):
        return InvalidSetting("store URL", url, f"one that the server accepts; it says: {told}")
    if isinstance(error, asyncpg.InvalidCachedStatementError):
        return StoreBusy(url, f"its schema changes just now: {told}")
    if code in _BUSY:
        return StoreBusy(url, told)
    if code in _READ_ONLY:
        return StoreReadOnly(url, told)
    if code == _DISK_FULL:
        return StoreFull(url, told)
    if code in _CORRUPT:
        return StoreCorrupt(url, told)
    if code in _MISSING:
        return StoreCorrupt(url, f"it lacks what its migrations made: {told}")
    if isinstance(error, TimeoutError):
        return StoreUnavailable(url, "it did not answer in time")
    if not code or code in _GONE or code[:2] in _GONE:
        return StoreUnavailable(url, told)
    return StoreRefused(url, "", f"{type(error).__name__}: {told}")
