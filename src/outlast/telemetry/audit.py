"""Who tried to decide what, and what came of it: for a sink that outlives the run (SPEC W5). Layer: telemetry.

What always holds: every decision that a run has judged is told, by the process that put that on record, once it has
landed; one that no run will ever judge, by the process that was asked. A sink that fails, or hangs, costs a log line
and no run. A process that dies between the two tells nothing; the run's journal has it all the same.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeAlias

import msgspec

from outlast.core.waits.approval import User
from outlast.telemetry.logs import one_line, unfailing

__all__ = ["Audit", "AuditRecord", "AuditSink"]

AUDIT = unfailing("outlast.audit")
CLOSE_WITHIN_S = 5.0
MOST_WAITING = 10_000
"""Records that an async sink is behind with; more are only logged."""


class AuditRecord(msgspec.Struct, frozen=True):
    """One attempt to decide an approval."""

    at: datetime
    """When it was stored."""
    run_id: str
    run_uid: str
    workflow: str
    key: str
    """Key of the approval."""
    name: str
    by: User
    value: Any
    """What was decided, as plain JSON."""
    verdict: str
    """`accepted`, `forbidden`, `invalid`, `resolved` (settled before) or `expired`."""
    reason: str
    """Why it does not count."""
    message: str
    """Id of the attempt: a record that is told twice has the same."""


AuditSink: TypeAlias = Callable[[AuditRecord], Awaitable[object] | object]
"""`Outlast(url, audit=…)`. It is called in the event loop: be quick, or be async."""


def log_record(record: AuditRecord) -> None:
    """The default sink: a line of the logger `outlast.audit`."""
    who = record.by.id or "somebody who is not signed in"
    why = f" ({one_line(record.reason)})" if record.reason else ""
    text = "approval %r of run %s: %s decided, and it is %s%s"
    extra = {"run": record.run_id, "step": None, "attempt": None, "trace": None}
    AUDIT.info(text, record.name, record.run_id, one_line(who), record.verdict, why, extra=extra)


class Audit:
    """The sink of one app, called so that nothing depends on it."""

    def __init__(self, sink: AuditSink | None = None) -> None:
        self._sink: AuditSink = log_record if sink is None else sink
        self._waiting: set[asyncio.Task[None]] = set()
        self._has_failed = False

    def tell(self, record: AuditRecord) -> None:
        """Pass it on."""
        try:
            answer = self._sink(record)
        except Exception as error:  # noqa: BLE001 - whatever it does, the decision is on record
            self._failed(record, error)
            return
        if inspect.isawaitable(answer):
            if len(self._waiting) >= MOST_WAITING:
                self._failed(record, RuntimeError(f"{MOST_WAITING} records wait for the sink"))
                return
            task = asyncio.get_running_loop().create_task(self._finish(record, answer))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def close(self) -> None:
        """Let an async sink finish, for a while."""
        if self._waiting:
            _, left = await asyncio.wait(self._waiting, timeout=CLOSE_WITHIN_S)
            for task in left:
                task.cancel()

    async def _finish(self, record: AuditRecord, answer: Awaitable[object]) -> None:
        try:
            await answer
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(record, error)

    def _failed(self, record: AuditRecord, error: Exception) -> None:
        level = logging.DEBUG if self._has_failed else logging.ERROR
        self._has_failed = True
        AUDIT.log(level, "the audit sink failed; later failures are logged as debug", exc_info=error)
        if self._sink is not log_record:
            log_record(record)
