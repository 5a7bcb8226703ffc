"""Spans of runs, steps, waits and attempts, through OpenTelemetry's API. Layer: telemetry.

A run's spans are made in many processes, most of them once they are over, with the times on record. So that they fit
together, their ids are not drawn but follow from the run (`core.trace`). The API cannot say which id a span is to have;
the SDK's tracers ask their `id_generator` for it, and ours answers. With a tracer of another make, which has none, the
spans of a run stand beside each other, each a child of what the run's `traceparent` names.

What always holds: spans end in the pipeline's thread, for an exporter may hang in that; nothing raises into the engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TracerProvider,
    set_span_in_context,
)

from outlast.core.trace import Trace, attempt_span, parent_of, run_span, step_span, wait_span
from outlast.telemetry.logs import one_line, unfailing
from outlast.telemetry.otel.ids import choose_ids

if TYPE_CHECKING:
    from outlast.core.events import ErrorRecord, Event, RunStarted
    from outlast.telemetry.logs import Traced
    from outlast.telemetry.observer import Commit
    from outlast.telemetry.spans import Span as Told

__all__ = ["OtelTracing"]

SCOPE = "outlast"
GOOD = frozenset({"completed", "succeeded", "reused", "compensated", "over", "cancelled", "expired"})
_log = unfailing("outlast.telemetry")


class OtelTracing:
    """A `Subscriber` of the pipeline, and a `Tracing` for the engine."""

    def __init__(self, provider: TracerProvider, later: Callable[[Callable[[], object]], None]) -> None:
        """`later` does something in the pipeline's thread."""
        self._tracer: Tracer = provider.get_tracer(SCOPE)
        self._later = later
        self._ids = choose_ids(self._tracer)
        self._has_failed = False

    # --- what is over -------------------------------------------------------------------------------------------------

    def take_commit(self, commit: Commit) -> None:
        """See `Subscriber`."""

    def take_entry(self, events: Sequence[Event], spans: Sequence[Told]) -> None:  # noqa: ARG002 - see `Subscriber`
        """See `Subscriber`. An attempt told for itself, where it executed; one that was lost, nobody did."""
        for told in spans:
            if told.kind != "attempt" or told.status == "lost":
                self._emit(told)

    def _emit(self, told: Told) -> None:
        trace = Trace.parse(told.run.trace)
        if trace is None:
            return
        span = self._start(
            _name_of(told), trace, _id_of(told), self._parent_of(told, trace),
            kind=SpanKind.CONSUMER if told.kind == "run" else SpanKind.INTERNAL,
            attributes=_attributes_of(told), links=self._links_of(told, trace), start_time=told.began_at * 1000,
        )  # fmt: skip
        if told.status not in GOOD:
            span.set_status(Status(StatusCode.ERROR, told.status if told.error is None else _text_of(told.error)))
        if told.error is not None:
            span.add_event("exception", _describe(told.error), timestamp=told.ended_at * 1000)
        span.end(told.ended_at * 1000)

    def _parent_of(self, told: Told, trace: Trace) -> Trace | None:
        run, round_ = told.run, told.round
        if told.kind == "run" and round_ == 0:
            return parent_of(run)
        if self._ids is None:
            return trace
        if told.kind == "run":
            return trace._replace(span_id=run_span(run.uid))
        if told.kind == "attempt":
            return trace._replace(span_id=step_span(run.uid, told.key, round_))
        return trace._replace(span_id=run_span(run.uid, round_))

    def _links_of(self, told: Told, trace: Trace) -> list[Link]:
        """To what it comes of, but is not a part of: the run that started it; the step whose effect it undoes."""
        if self._ids is None:
            return []
        run, links = told.run, []
        if told.kind == "run" and run.parent:
            links.append(_link(trace, run_span(run.parent), "parent"))
        if told.compensates:
            links += [_link(trace, step_span(run.uid, told.compensates, r), "compensates") for r in {0, told.round}]
        return links

    # --- what lasts ---------------------------------------------------------------------------------------------------

    def begin_attempt(
        self, run: Traced, uid: str, key: str, function: str, attempt: int, *, within: str
    ) -> LiveAttempt | None:
        """See `Tracing`. None: there will be no span."""
        trace = Trace.parse(run.trace if self._ids is None else within)
        if trace is None:
            return None
        attributes = {
            "outlast.run.id": run.id,
            "outlast.run.uid": uid,
            "outlast.step.key": key,
            "outlast.step.attempt": attempt,
        }
        own_id = attempt_span(uid, key, attempt)
        try:
            span = self._start(f"attempt {function}", trace, own_id, trace, attributes=attributes)
            otel_context.attach(set_span_in_context(span))  # the context is the attempt's own: it goes with it
        except Exception as error:  # noqa: BLE001 - a user's span processor
            self.note_failure(error)
            return None
        return LiveAttempt(self, span)

    def begin_start(self, workflow: str) -> LiveStart | None:
        """See `Tracing`. It decides whether the run is sampled: all its spans, wherever they are made, heed that."""
        try:
            attributes = {"outlast.workflow": workflow}
            span = self._tracer.start_span(f"start {workflow}", kind=SpanKind.PRODUCER, attributes=attributes)
        except Exception as error:  # noqa: BLE001 - a user's span processor
            self.note_failure(error)
            return None
        return LiveStart(self, span)

    def end(self, span: Span) -> None:
        """It ends now; the exporter hears of it in the pipeline's thread."""
        self._later(partial(span.end, time.time_ns()))

    def note_failure(self, error: Exception) -> None:
        """Say once that spans fail."""
        if not self._has_failed:
            self._has_failed = True
            _log.error("a span could not be made; it is not said again", exc_info=error)

    # --- making spans -------------------------------------------------------------------------------------------------

    def _start(self, name: str, trace: Trace, own_id: str, parent: Trace | None, **more: Any) -> Span:
        context = Context() if parent is None else set_span_in_context(NonRecordingSpan(_context_of(parent)), Context())
        if self._ids is None:
            return self._tracer.start_span(name, context, **more)
        with self._ids.given(int(trace.trace_id, 16), int(own_id, 16)):
            return self._tracer.start_span(name, context, **more)


class _Live:
    """A span that is not over."""

    def __init__(self, tracing: OtelTracing, span: Span) -> None:
        self._tracing = tracing
        self._span = span

    @property
    def traceparent(self) -> str:
        """See `Tracing`."""
        context = self._span.get_span_context()
        return str(Trace(f"{context.trace_id:032x}", f"{context.span_id:016x}", f"{int(context.trace_flags) & 1:02x}"))


class LiveAttempt(_Live):
    """An `AttemptSpan`."""

    def end(self, error: BaseException | None, status: str) -> None:
        """See `AttemptSpan`."""
        try:
            self._span.set_attribute("outlast.status", status)
            if status not in GOOD:
                self._span.set_status(Status(StatusCode.ERROR, status if error is None else type(error).__name__))
            if error is not None and status not in GOOD and self._span.is_recording():
                self._span.record_exception(error)
            self._tracing.end(self._span)
        except Exception as broken:  # noqa: BLE001 - a user's tracer
            self._tracing.note_failure(broken)


class LiveStart(_Live):
    """A `StartSpan`."""

    def end(self, run: str | None) -> None:
        """See `StartSpan`."""
        try:
            if run is None:
                self._span.set_status(Status(StatusCode.ERROR))
            else:
                self._span.set_attribute("outlast.run.id", run)
            self._tracing.end(self._span)
        except Exception as error:  # noqa: BLE001 - a user's tracer
            self._tracing.note_failure(error)


# --- what spans say ---------------------------------------------------------------------------------------------------


def _name_of(told: Told) -> str:
    if told.kind == "run":
        return f"run {told.run.workflow}"
    return f"{told.kind} {told.name}".rstrip()


def _id_of(told: Told) -> str:
    uid = told.run.uid
    if told.kind == "run":
        return run_span(uid, told.round)
    if told.kind == "attempt":
        return attempt_span(uid, told.key, told.attempt)
    return (step_span if told.kind == "step" else wait_span)(uid, told.key, told.round)


def _of_run(started: RunStarted) -> dict[str, Any]:
    return {"outlast.run.id": started.id, "outlast.run.uid": started.uid, "outlast.workflow": started.workflow}


def _attributes_of(told: Told) -> dict[str, Any]:
    attributes = {**_of_run(told.run), "outlast.status": told.status}
    if told.kind == "run":
        attributes["outlast.version"] = told.run.version
        if told.run.forked_from:
            attributes["outlast.forked_from"] = told.run.forked_from
        if told.run.user is not None:
            attributes["outlast.user"] = told.run.user
    elif told.kind == "wait":
        attributes["outlast.wait.key"] = told.key
    else:
        attributes |= {"outlast.step.key": told.key, "outlast.step.attempt": told.attempt}
    return attributes


def _text_of(error: ErrorRecord) -> str:
    return f"{error.type}: {one_line(error.message)}" if error.message else error.type


def _describe(error: ErrorRecord) -> dict[str, Any]:
    name = f"{error.module}.{error.type}" if error.module not in {"", "builtins"} else error.type
    return {"exception.type": name, "exception.message": error.message, "exception.stacktrace": error.traceback}


def _context_of(trace: Trace) -> SpanContext:
    flags = TraceFlags(int(trace.flags, 16) & TraceFlags.SAMPLED)
    return SpanContext(int(trace.trace_id, 16), int(trace.span_id, 16), is_remote=True, trace_flags=flags)


def _link(trace: Trace, span_id: str, what: str) -> Link:
    return Link(_context_of(trace._replace(span_id=span_id)), {"outlast.link": what})
