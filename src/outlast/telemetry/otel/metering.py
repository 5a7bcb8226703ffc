"""The metrics of an app, through OpenTelemetry's API. Layer: telemetry.

Counters and histograms are told as they grow; gauges are asked for by the SDK's reader, in its own thread, and answer
what was last seen. What always holds: the same numbers as in the text for Prometheus, under names with dots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation

from outlast.telemetry.registry import Counter, Gauge, Histogram, Metric

if TYPE_CHECKING:
    from outlast.telemetry.metrics import Metrics

__all__ = ["connect"]

SCOPE = "outlast"


def connect(metrics: Metrics, provider: MeterProvider) -> None:
    """From now on the provider is told what they say."""
    meter = provider.get_meter(SCOPE)
    for metric in metrics.registry.metrics:
        name, unit = _name_of(metric), "s" if "_seconds" in metric.name else "1"
        if isinstance(metric, Histogram):
            bounds = list(metric.bounds)
            histogram = meter.create_histogram(name, unit, metric.text, explicit_bucket_boundaries_advisory=bounds)
            metric.also = histogram.record
        elif isinstance(metric, Gauge):
            meter.create_observable_gauge(name, [_observe(metric)], unit, metric.text)
        elif isinstance(metric, Counter):
            metric.also = meter.create_counter(name, unit, metric.text).add


def _name_of(metric: Metric) -> str:
    """`outlast_runs_started_total` is `outlast.runs.started`, `outlast_step_seconds` `outlast.step.duration`: units and
    kinds are no part of a name there."""
    name = metric.name.removesuffix("_total")
    if isinstance(metric, Histogram) and name.endswith("_seconds"):
        name = f"{name.removesuffix('_seconds')}_duration"
    return name.removesuffix("_seconds").replace("_", ".")


def _observe(gauge: Gauge) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def answer(_options: CallbackOptions) -> Iterable[Observation]:
        for values, number in gauge.values().items():
            yield Observation(number, dict(zip(gauge.labels, values, strict=True)))

    return answer
