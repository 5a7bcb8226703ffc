"""Instants: whole microseconds inside, aware datetimes outside. Layer: core.

What always holds: `to_us(to_datetime(us)) == us`, exactly, and no naive datetime gets in: which midnight it means, only
its author knows.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from outlast.errors import InvalidSetting

__all__ = ["EPOCH", "format_instant", "to_datetime", "to_us"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_datetime(us: int) -> datetime:
    """The instant, in UTC. Not through a float, which would lose microseconds."""
    return EPOCH + timedelta(microseconds=us)


def to_us(instant: object, setting: str) -> int:
    """An aware datetime in µs since the epoch. Raises InvalidSetting, which names the `setting`, for anything else."""
    if not isinstance(instant, datetime):
        raise InvalidSetting(setting, instant, "a datetime with a time zone, such as datetime.now(UTC)")
    if instant.utcoffset() is None:
        raise InvalidSetting(setting, instant, "a time zone: this one is naive, give it tzinfo=UTC or your own")
    return (instant - EPOCH) // _MICROSECOND


def format_instant(us: int) -> str:
    """As people read it and as texts sort: `2026-07-01T12:00:00Z`, with a fraction only where there is one."""
    return to_datetime(us).isoformat().removesuffix("+00:00") + "Z"
