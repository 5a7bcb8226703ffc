"""Durations: what people write, as whole microseconds. Layer: core.

People write seconds (`30`, `0.25`), a `timedelta`, or text (`"250ms"`, `"1h30m"`). Everything inside counts in int µs.
What always holds: `parse_duration(format_duration(us)) == us`, and nothing negative, infinite or absurd gets in.
"""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import TypeAlias

from outlast.errors import InvalidDuration

__all__ = ["LONGEST_US", "Duration", "format_duration", "parse_duration"]

Duration: TypeAlias = float | timedelta | str
"""Seconds, a timedelta, or text: `"250ms"`, `"30s"`, `"5min"`, `"2h"`, `"3d"`, `"1w"`, or several, as in `"1h30m"`."""

_UNITS_US = {
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "min": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
}
LONGEST_US = 365 * 1000 * _UNITS_US["d"]
"""A thousand years: later instants would soon leave what `datetime` and the stores can say."""

_NUMBER = r"([0-9]{1,18}(?:\.[0-9]{1,18})?)"
# Each unit at most once, longest first: "1h1h" and "30s2h" are slips of the pen. `m` is minutes, as in "1h30m".
_TEXT = re.compile("".join(f"(?:{_NUMBER}{unit})?" for unit in ("w", "d", "h", "m(?:in)?(?!s)", "s", "ms")))


def parse_duration(value: object) -> int:
    """`value` in µs, rounded to the nearest. Raises InvalidDuration, naming it, for all that is no `Duration`."""
    if isinstance(value, str):
        us = _parse_text(value)
    elif isinstance(value, timedelta):
        us = value // timedelta(microseconds=1)
    elif isinstance(value, int) and not isinstance(value, bool):
        us = value * 1_000_000
    elif isinstance(value, float) and math.isfinite(value):
        us = round(value * 1_000_000)
    else:
        raise InvalidDuration(value)
    if not 0 <= us <= LONGEST_US:
        raise InvalidDuration(value)
    return us


def _parse_text(text: str) -> int:
    match = _TEXT.fullmatch(text)
    if not text or match is None:
        raise InvalidDuration(text)
    return sum(_times(amount, unit) for amount, unit in zip(match.groups("0"), _UNITS_US.values(), strict=True))


def _times(amount: str, unit_us: int) -> int:
    """In whole numbers: a float would lose the microseconds of a long time."""
    whole, _, rest = amount.partition(".")
    scale: int = 10 ** len(rest)
    return (int(whole + rest) * unit_us + scale // 2) // scale


def format_duration(us: int) -> str:
    """The shortest exact text: `"0s"`, `"250ms"`, `"1h30min"`, `"1min0.5s"`. A negative one begins with a minus."""
    if us < 0:
        return f"-{format_duration(-us)}"
    if 0 < us < _UNITS_US["s"]:
        return f"{_decimal(us, _UNITS_US['ms'])}ms"
    days, rest = divmod(us, _UNITS_US["d"])
    hours, rest = divmod(rest, _UNITS_US["h"])
    minutes, rest = divmod(rest, _UNITS_US["min"])
    parts = [f"{n}{unit}" for n, unit in ((days, "d"), (hours, "h"), (minutes, "min")) if n]
    if rest or not parts:
        parts.append(f"{_decimal(rest, _UNITS_US['s'])}s")
    return "".join(parts)


def _decimal(us: int, unit_us: int) -> str:
    whole, rest = divmod(us, unit_us)
    digits = len(str(unit_us)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)
