"""Trace context: which trace a run belongs to, and the ids of its spans. Layer: core.

A run's `traceparent` is on record from its creation. The spans of a run live in many processes, and some begin in one
and end in another; so their ids follow from the run's uid and from what they are of, and every process computes the
same ones. What always holds: with a `traceparent` of a caller's, the run's own span is that span's child; else the span
in the `traceparent` is the run's own. A run that ended and goes on (`retry`, an unwind) is another *round*, with spans
of its own.
"""

from __future__ import annotations

import re
from hashlib import sha1
from typing import NamedTuple

from outlast.core.events import RunStarted

__all__ = ["Trace", "attempt_span", "own_trace", "parent_of", "run_span", "step_span", "step_trace", "wait_span"]

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


class Trace(NamedTuple):
    """A W3C trace context, without vendors' additions."""

    trace_id: str
    """32 hexadecimal digits."""
    span_id: str
    """16 hexadecimal digits."""
    flags: str = "01"
    """2 hexadecimal digits: `01`, sampled."""

    @classmethod
    def parse(cls, traceparent: str) -> Trace | None:
        """None for what is no `traceparent`."""
        found = _TRACEPARENT.match(traceparent)
        return None if found is None else cls(*found.groups())

    def __str__(self) -> str:
        return f"00-{self.trace_id}-{self.span_id}-{self.flags}"


def own_trace(trace_id: str, uid: str, flags: str = "01") -> str:
    """The `traceparent` of a run in this trace that no span outside has led to."""
    return str(Trace(trace_id, run_span(uid), flags))


def parent_of(started: RunStarted) -> Trace | None:
    """The span outside that led to the run, if there is one on record."""
    trace = Trace.parse(started.trace)
    return None if trace is None or trace.span_id == run_span(started.uid) else trace


def step_trace(run: str, uid: str, key: str, round_: int = 0) -> str:
    """The `traceparent` of a step of the run that has this one. What it leads to elsewhere, a child, a queued attempt,
    is a child of its span."""
    trace = Trace.parse(run)
    return "" if trace is None else str(trace._replace(span_id=step_span(uid, key, round_)))


def run_span(uid: str, round_: int = 0) -> str:
    """Of a run, in its first round or a later one."""
    return _span(uid) if round_ == 0 else _span(uid, "round", str(round_))


def step_span(uid: str, key: str, round_: int = 0) -> str:
    """Of a step: from when the body asked for it to its last outcome in this round."""
    return _span(uid, "step", key, str(round_))


def attempt_span(uid: str, key: str, attempt: int) -> str:
    """Of one attempt; they are counted over all rounds."""
    return _span(uid, "attempt", key, str(attempt))


def wait_span(uid: str, key: str, round_: int = 0) -> str:
    """Of a sleep, or a wait for a signal, a gate, an approval."""
    return _span(uid, "wait", key, str(round_))


def _span(*parts: str) -> str:
    return sha1("\0".join(parts).encode(), usedforsecurity=False).hexdigest()[:16]
