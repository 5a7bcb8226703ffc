"""Counters, gauges and histograms, as Prometheus reads them (SPEC O6)."""

from __future__ import annotations

import math
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from outlast.telemetry import registry as registry_module
from outlast.telemetry.registry import Counter, Gauge, Histogram, Registry


def read(registry: Registry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """What Prometheus's own parser makes of it: by sample name and labels."""
    families = text_string_to_metric_families(registry.render())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


# SPEC O6
@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=20), st.floats(0, 1e12) | st.integers(0, 10**9), max_size=5))
def test_prometheus_reads_what_was_counted(numbers) -> None:
    """Any text may be a label's value: quotes, backslashes, line breaks; and no digit of a number is lost."""
    registry = Registry()
    counter = registry.add(Counter("c_total", 'Says "so"\nand \\ so.', ["name"]))
    for name, number in numbers.items():
        counter.add(number, name)
    assert read(registry) == {("c_total", (("name", name),)): float(number) for name, number in numbers.items()}


# SPEC O6
def test_a_histogram_counts_what_is_at_most_as_large() -> None:
    """Buckets are cumulative, a bound belongs to its own; sum and count are those of all."""
    registry = Registry()
    histogram = registry.add(Histogram("h", "H.", ["kind"], bounds=(0.1, 1, 10)))
    for number in (0.05, 0.1, 0.5, 10, 99):
        histogram.observe(number, "x")
    found = read(registry)
    buckets = {dict(labels)["le"]: value for (name, labels), value in found.items() if name == "h_bucket"}
    assert buckets == {"0.1": 2, "1": 3, "10": 4, "+Inf": 5}
    assert math.isclose(found["h_sum", (("kind", "x"),)], 109.65)
    assert found["h_count", (("kind", "x"),)] == 5


def test_a_gauge_forgets_what_is_not_there_any_more() -> None:
    """A queue that is empty has no series, and not the last one for ever."""
    registry = Registry()
    gauge = registry.add(Gauge("g", "G.", ["queue"]))
    gauge.replace({("a",): 1, ("b",): 2})
    gauge.set(3, "c")
    gauge.replace({("b",): 5})
    assert read(registry) == {("g", (("queue", "b"),)): 5}


def test_names_without_end_do_not_become_series_without_end(monkeypatch) -> None:
    """What is past the bound is counted together, and nothing is lost from the sum."""
    monkeypatch.setattr(registry_module, "MOST_SERIES", 3)
    counter = Counter("c", "C.", ["name"])
    for number in range(10):
        counter.add(1, f"n{number}")
        counter.add(1, "n0")
    assert counter.values() == {("n0",): 11, ("n1",): 1, ("n2",): 1, ("other",): 7}


def test_a_metric_wants_all_its_labels() -> None:
    """Else two series would be one."""
    with pytest.raises(ValueError, match="c has labels"):
        Counter("c", "C.", ["name"]).add(1)


def test_threads_lose_no_count() -> None:
    """The pipeline counts in a thread of its own, while somebody reads."""
    counter, histogram = Counter("c", "C."), Histogram("h", "H.", bounds=(1,))

    def work() -> None:
        for _ in range(2000):
            counter.add(1)
            histogram.observe(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    list(histogram.lines())
    for thread in threads:
        thread.join()
    assert counter.values() == {(): 8000}
    assert "h_count 8000" in list(histogram.lines())
