"""What a benchmark answers with: figures with their spread, and tables made of them.

What always holds: a ratio is of two things measured in turns within one run, pair by pair, so that what else the
machine does meets both; and a figure says from how many samples it is, and how far they lay apart.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

__all__ = ["Figure", "Rate", "Report", "Table", "percentile", "ratio", "spread"]


class Rate(msgspec.Struct, frozen=True):
    """How quickly something went."""

    per_second: float
    cpu_us: float
    """Of all threads, for one of it. What else the machine does moves this less than it moves the rate."""


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """The median of samples, and the range they lay in."""

    median: float
    low: float
    high: float
    samples: int
    unit: str
    target: float | None = None
    """What is aimed for; None: nothing is promised."""
    is_floor: bool = False
    """The target is the least; otherwise it is the most."""

    @property
    def is_met(self) -> bool | None:
        """None: there is no target."""
        if self.target is None:
            return None
        return self.median >= self.target if self.is_floor else self.median <= self.target

    @property
    def verdict(self) -> str:
        """The target, and whether it was met, as a cell of a table."""
        if self.target is None:
            return ""
        return f"{'≥' if self.is_floor else '≤'} {_digits(self.target)}: {'met' if self.is_met else 'MISSED'}"

    def __str__(self) -> str:
        text = _digits(self.median)
        if self.samples > 1 and _digits(self.low) != _digits(self.high):
            text += f" ({_digits(self.low)}–{_digits(self.high)})"
        return text


class Table(msgspec.Struct, frozen=True):
    """Cells are ready to be read; the raw figures stand in the report."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str] = []


class Report(msgspec.Struct):
    """All of one subject."""

    subject: str
    settings: dict[str, str]
    figures: dict[str, Figure]
    tables: list[Table]
    problems: list[str] = []
    """What is wrong whatever the machine does: an error, a run that was lost. Never that something took long."""
    load: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Load averages of the machine before it began, over 1, 5 and 15 minutes."""
    seconds: float = 0.0


def spread(samples: Sequence[float], unit: str, *, target: float | None = None, is_floor: bool = False) -> Figure:
    """One figure of samples, each of which is a measurement of its own."""
    return Figure(statistics.median(samples), min(samples), max(samples), len(samples), unit, target, is_floor)


def ratio(
    ours: Sequence[float],
    theirs: Sequence[float],
    unit: str = "×",
    *,
    target: float | None = None,
    is_floor: bool = False,
) -> Figure:
    """How we compare, pair by pair: `ours[n]` and `theirs[n]` were measured next to each other."""
    scale = 100.0 if unit == "%" else 1.0
    pairs = [scale * mine / other for mine, other in zip(ours, theirs, strict=True)]
    return spread(pairs, unit, target=target, is_floor=is_floor)


def percentile(samples: Sequence[float], share: float) -> float:
    """The sample below which this share of them lies: 0.99 for p99."""
    ordered = sorted(samples)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def _digits(value: float) -> str:
    """Three digits that count, no more."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}"
