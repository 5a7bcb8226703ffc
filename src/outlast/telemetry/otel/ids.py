"""Which ids spans get. Layer: telemetry.

OpenTelemetry's API cannot say which id a span is to have; the tracers of its SDK ask their `id_generator`. Ours stands
before that. What always holds: who did not ask for an id gets what it would have got anyhow.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

__all__ = ["ChosenIds", "choose_ids"]


class ChosenIds:
    """An SDK's `IdGenerator`: gives the ids it is told in this thread, else those of the one before it."""

    def __init__(self, before: Any) -> None:
        self._before = before
        self._given = threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._before, name)

    @contextmanager
    def given(self, trace_id: int, span_id: int) -> Generator[None]:
        """Inside, in this thread, a span is made with these."""
        self._given.ids = (trace_id, span_id)
        try:
            yield
        finally:
            self._given.ids = None

    def generate_trace_id(self) -> int:
        """Of a span without a parent."""
        ids = getattr(self._given, "ids", None)
        return int(self._before.generate_trace_id() if ids is None else ids[0])

    def generate_span_id(self) -> int:
        """Of any span."""
        ids = getattr(self._given, "ids", None)
        return int(self._before.generate_span_id() if ids is None else ids[1])


def choose_ids(tracer: Any) -> ChosenIds | None:
    """Put ours before the tracer's. The SDK keeps one tracer for each scope, so it may be there already."""
    before = getattr(tracer, "id_generator", None)
    if before is None:
        return None
    if not isinstance(before, ChosenIds):
        tracer.id_generator = before = ChosenIds(before)
    return before
