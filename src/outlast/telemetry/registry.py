"""Counters, gauges and histograms, and the text Prometheus reads. Layer: telemetry.

A registry belongs to one app: two apps in a process do not mix. What always holds: it may be changed from any thread
and read meanwhile; a metric has so many series at most, and what is past them is counted as `other`: an app may have
any number of names, a monitoring system not.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

__all__ = ["MOST_SERIES", "SECONDS", "SIZES", "Counter", "Gauge", "Histogram", "Metric", "Registry"]

MOST_SERIES = 500
"""Sets of label values that one metric may have."""
OTHER = "other"

SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)
"""Bounds of buckets for times, from a commit to a long step."""
SIZES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""Bounds of buckets for how many there are of something."""

Labels = tuple[str, ...]
"""Values of a metric's labels, in their order."""


class Metric:
    """What all kinds share: a name, labels, and a bound on their values."""

    kind = ""

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        self.name = name
        self.text = text
        self.labels = tuple(labels)
        self.also: Callable[[float, dict[str, str]], None] | None = None
        """Told of each change as well, with the values of the labels by name: another system of metrics."""
        self._lock = threading.Lock()

    def _tell(self, number: float, values: Labels) -> None:
        if self.also is not None:
            self.also(number, dict(zip(self.labels, values, strict=True)))

    def _place(self, values: Labels, known: Mapping[Labels, object]) -> Labels:
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name} has labels {self.labels}, not {values}")
        return values if values in known or len(known) < MOST_SERIES else (OTHER,) * len(values)

    def lines(self) -> Iterator[str]:
        """Its series, as Prometheus reads them."""
        raise NotImplementedError


class Counter(Metric):
    """Something that only grows."""

    kind = "counter"

    def __init__(self, name: str, text: str, labels: Sequence[str] = ()) -> None:
        super().__init__(name, text, labels)
        self._values: dict[Labels, float] = {}

    def add(self, amount: float, *values: str) -> None:
        """So many more, with these values of its labels."""
        with self._lock:
            place = self._place(values, self._values)
            self._values[place] = self._values.get(place, 0) + amount
        self._tell(amount, place)

    def values(self) -> dict[Labels, float]:
        """All series."""
        with self._lock:
            return dict(self._values)

    def lines(self) -> Iterator[str]:
        """See `Metric`."""
        for values, number in sorted(self.values().items()):
            yield _line(self.name, self.labels, values, number)


class Gauge(Counter):
    """Something that is so or so large at the moment."""

    kind = "gauge"

    def replace(self, values: Mapping[Labels, float]) -> None:
        """All series anew: those that are not named are gone."""
        with self._lock:
            self._values = {}
            for labels, number in values.items():
                self._values[self._place(labels, self._values)] = number

    def set(self, number: float, *values: str) -> None:
        """It is so large now."""
        with self._lock:
            self._values[self._place(values, self._values)] = number


class Histogram(Metric):
    """How often something was how large."""

    kind = "histogram"

    def __init__(self, name: str, text: str, labels: Sequence[str] = (), bounds: Sequence[float] = SECONDS) -> None:
        super().__init__(name, text, labels)
        self.bounds = tuple(bounds)
        self._counts: dict[Labels, list[int]] = {}
        """For each bucket its own, the last one for what is past all bounds."""
        self._sums: dict[Labels, float] = {}

    def observe(self, number: float, *values: str) -> None:
        """It was so large once."""
        bucket = bisect.bisect_left(self.bounds, number)
        with self._lock:
            place = self._place(values, self._counts)
            counts = self._counts.get(place)
            if counts is None:
                counts = self._counts[place] = [0] * (len(self.bounds) + 1)
            counts[bucket] += 1
            self._sums[place] = self._sums.get(place, 0.0) + number
        self._tell(number, place)

    def lines(self) -> Iterator[str]:
        """See `Metric`."""
        with self._lock:
            series = [(values, list(counts), self._sums[values]) for values, counts in sorted(self._counts.items())]
        names = (*self.labels, "le")
        for values, counts, total in series:
            below = 0
            for bound, count in zip((*map(_number, self.bounds), "+Inf"), counts, strict=True):
                below += count
                yield _line(f"{self.name}_bucket", names, (*values, bound), below)
            yield _line(f"{self.name}_sum", self.labels, values, total)
            yield _line(f"{self.name}_count", self.labels, values, below)


M = TypeVar("M", bound=Metric)


class Registry:
    """The metrics of one app."""

    def __init__(self) -> None:
        self.metrics: list[Metric] = []

    def add(self, metric: M) -> M:
        """One more; gives it back."""
        self.metrics.append(metric)
        return metric

    def render(self) -> str:
        """All of them in Prometheus's text format, version 0.0.4."""
        lines: list[str] = []
        for metric in self.metrics:
            lines += [f"# HELP {metric.name} {_escape(metric.text)}", f"# TYPE {metric.name} {metric.kind}"]
            lines += metric.lines()
        return "\n".join(lines) + "\n"


def _line(name: str, names: Labels, values: Labels, number: float) -> str:
    pairs = ",".join(f'{label}="{_escape(value, quoted=True)}"' for label, value in zip(names, values, strict=True))
    return f"{name}{{{pairs}}} {_number(number)}" if pairs else f"{name} {_number(number)}"


def _number(number: float) -> str:
    return str(int(number)) if number == int(number) else repr(float(number))


def _escape(text: str, *, quoted: bool = False) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quoted else text
