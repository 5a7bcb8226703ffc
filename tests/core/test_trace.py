"""Span ids: the same in every process, and no two alike (SPEC O5)."""

from __future__ import annotations

import msgspec

from outlast.core.events import RunStarted
from outlast.core.trace import attempt_span, own_trace, parent_of, run_span, step_span, step_trace, wait_span

TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
OUTSIDE = f"00-{TRACE_ID}-00f067aa0ba902b7-01"


def _started(trace: str) -> RunStarted:
    return RunStarted(0, "uid-1", "run-1", "work", "v1", msgspec.Raw(b"null"), 7, "3.11", trace=trace)


def test_a_run_has_a_parent_if_somebody_outside_led_to_it() -> None:
    """A trace that begins with the run has none, nor has a run without a trace."""
    parent = parent_of(_started(OUTSIDE))
    assert parent is not None
    assert (parent.trace_id, parent.span_id) == (TRACE_ID, "00f067aa0ba902b7")
    assert parent_of(_started(own_trace(TRACE_ID, "uid-1"))) is None
    assert parent_of(_started("")) is None


def test_spans_are_told_apart() -> None:
    """A run, its rounds, its steps, their attempts, and its waits each have an id of their own; what a step calls is
    told the run's trace and the step's span."""
    spans = [run_span("u"), run_span("u", 1), step_span("u", "a"), step_span("u", "a", 1), wait_span("u", "a")]
    spans += [wait_span("u", "a", 1), attempt_span("u", "a", 1), attempt_span("u", "a", 2), attempt_span("v", "a", 1)]
    assert len(set(spans)) == len(spans)
    assert all(len(span) == 16 and int(span, 16) >= 0 for span in spans)
    assert step_trace(OUTSIDE, "u", "a") == f"00-{TRACE_ID}-{step_span('u', 'a')}-01"
    assert step_trace("", "u", "a") == ""
