"""OpenTelemetry, where the user has set it up: spans and metrics of runs. Layer: telemetry.

Only the API is needed (the extra `otel`); SDK, exporters and sampling are the user's. What always holds: these modules
are imported only once a provider is there; a process that has none does not even look for the package.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from outlast.core.trace import Trace

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

__all__ = ["enter_trace", "find_current_trace", "find_meter_provider", "find_tracer_provider", "leave_trace"]


def find_tracer_provider() -> TracerProvider | None:
    """The one the user has set up for this process, if any."""
    return cast("TracerProvider | None", _find("opentelemetry.trace", "get_tracer_provider", "Tracer"))


def find_meter_provider() -> MeterProvider | None:
    """The same, for metrics."""
    return cast("MeterProvider | None", _find("opentelemetry.metrics", "get_meter_provider", "Meter"))


def _find(name: str, getter: str, kind: str) -> Any:
    api = sys.modules.get(name)
    if api is None:
        return None  # who has not imported it has set up nothing
    provider = getattr(api, getter)()
    stand_ins = ("ProxyTracerProvider", f"NoOp{kind}Provider", "_ProxyMeterProvider")
    return None if type(provider).__name__ in stand_ins else provider


def find_current_trace() -> str | None:
    """The `traceparent` of the span that is current here, if there is one."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    context = api.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return str(Trace(f"{context.trace_id:032x}", f"{context.span_id:016x}", f"{int(context.trace_flags) & 1:02x}"))


def enter_trace(traceparent: str) -> object | None:
    """From here on the span of this `traceparent`, made elsewhere, is the current one; until `leave_trace` of what this
    gives. For the processes of an executor, if they have imported OpenTelemetry."""
    api: Any = sys.modules.get("opentelemetry.trace")
    trace = Trace.parse(traceparent)
    if api is None or trace is None:
        return None
    from opentelemetry import context

    there = api.SpanContext(
        int(trace.trace_id, 16),
        int(trace.span_id, 16),
        is_remote=True,
        trace_flags=api.TraceFlags(int(trace.flags, 16)),
    )
    return context.attach(api.set_span_in_context(api.NonRecordingSpan(there)))


def leave_trace(entered: object | None) -> None:
    """The span before is the current one again."""
    if entered is not None:
        from opentelemetry import context

        context.detach(cast(Any, entered))
