"""The tables of an SQL mirror, and how rows are made of a run. Layer: mirrors. Needs the extra `mirror`.

What always holds: the rows of a run follow from its events alone, so that whoever writes them writes the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import BigInteger, Column, DateTime, Float, Integer, MetaData, String, Table, Text

from outlast.core.events import ErrorRecord, Event
from outlast.core.fold import time_of
from outlast.core.view import RunView, StepView
from outlast.telemetry.observer import Landed

__all__ = ["EVENTS", "METADATA", "RUNS", "STEPS", "event_rows", "run_row", "step_row"]

METADATA = MetaData()

_KEY = String(512)
_INSTANT = DateTime(timezone=True)

RUNS = Table(
    "outlast_runs", METADATA,
    Column("uid", String(36), primary_key=True),
    Column("id", _KEY), Column("workflow", _KEY, index=True), Column("version", String(64)),
    Column("status", String(32), index=True), Column("waiting_on", Text), Column("user_id", _KEY),
    Column("parent", String(36)), Column("trace", String(64)), Column("attributes", Text),
    Column("created_at", _INSTANT, index=True), Column("finished_at", _INSTANT),
    Column("seconds", Float), Column("input", Text), Column("output", Text),
    Column("error_type", Text), Column("error_message", Text),
    Column("entries", Integer, nullable=False, default=0),  # from the first on, without a gap: what the row was made of
)  # fmt: skip

STEPS = Table(
    "outlast_steps", METADATA,
    Column("uid", String(36), primary_key=True), Column("step_key", _KEY, primary_key=True),
    Column("function", _KEY, index=True), Column("kind", String(32)), Column("status", String(32)),
    Column("attempts", Integer), Column("began_at", _INSTANT), Column("ended_at", _INSTANT), Column("seconds", Float),
    Column("arguments", Text), Column("result", Text), Column("error_type", Text), Column("error_message", Text),
)  # fmt: skip

EVENTS = Table(
    "outlast_events", METADATA,
    Column("uid", String(36), primary_key=True),
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),  # of the entry
    Column("position", Integer, primary_key=True),  # in the entry
    Column("at", _INSTANT), Column("at_us", BigInteger), Column("written_us", BigInteger), Column("writer", _KEY),
    Column("event", String(64), index=True), Column("step_key", _KEY), Column("data", Text),
)  # fmt: skip


def event_rows(entry: Landed, events: Sequence[Event]) -> list[dict[str, Any]]:
    """The rows of one entry."""
    raw = msgspec.json.decode(entry.events, type=list[msgspec.Raw])
    rows = []
    for position, (event, data) in enumerate(zip(events, raw, strict=True)):
        at = time_of(event, entry.at)
        rows.append(
            {
                "uid": entry.uid, "seq": entry.seq, "position": position, "at": _instant(at), "at_us": at,
                "written_us": entry.at, "writer": entry.writer, "event": type(event).__name__,
                "step_key": getattr(event, "key", None), "data": bytes(data).decode(),
            }
        )  # fmt: skip
    return rows


def run_row(uid: str, view: RunView, entries: int) -> dict[str, Any]:
    """The run as its journal tells it, so far."""
    started = view.started
    if started is None:
        return {"uid": uid, "entries": entries}
    finished = view.finished_at if view.is_ended else None
    return {
        "uid": uid, "id": started.id, "workflow": started.workflow, "version": started.version,
        "status": str(view.status), "waiting_on": view.waiting_on, "user_id": started.user,
        "parent": started.parent or None, "trace": started.trace, "attributes": _text(started.attributes),
        "created_at": _instant(started.at), "finished_at": _instant(finished),
        "seconds": None if finished is None else (finished - started.at) / 1e6,
        "input": _text(started.input), "output": _text(view.output), **_error(view.error), "entries": entries,
    }  # fmt: skip


def step_row(uid: str, step: StepView) -> dict[str, Any]:
    """One of its steps."""
    return {
        "uid": uid, "step_key": step.key, "function": step.function, "kind": step.kind, "status": str(step.status),
        "attempts": step.attempts, "began_at": _instant(step.began_at), "ended_at": _instant(step.ended_at),
        "seconds": None if step.duration_us is None else step.duration_us / 1e6,
        "arguments": _text(step.arguments), "result": _text(step.value), **_error(step.error),
    }  # fmt: skip


def _error(error: ErrorRecord | None) -> dict[str, str | None]:
    if error is None:
        return {"error_type": None, "error_message": None}
    return {"error_type": error.type, "error_message": error.message}


def _text(value: msgspec.Raw | None) -> str | None:
    return None if value is None else bytes(value).decode()


def _instant(us: int | None) -> datetime | None:
    return None if us is None else datetime.fromtimestamp(us / 1e6, UTC)
