"""The route that starts runs. Layer: http.

What always holds: nothing is stored of a start that is refused; repeating a request with an id starts nothing twice;
and an id that is somebody else's run gives nothing of that run away.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.core.keys import check_name
from outlast.core.states import is_ended
from outlast.errors import InvalidSetting, RunConflict, RunExists
from outlast.http.access import Caller
from outlast.http.reach import check_visible, engine_of, handle_of, run_path
from outlast.http.refusals import NotAllowed
from outlast.http.route import Call, Reply
from outlast.http.routes.runs import read_wait, wait_outcome
from outlast.http.shapes import Outcome, StartQuery, StartRequest
from outlast.run.definitions import find_startable
from outlast.run.options import check_start
from outlast.telemetry.otel import enter_trace, find_current_trace, leave_trace

if TYPE_CHECKING:
    from outlast.engine.starting import Start

__all__ = ["start_run"]


async def start_run(call: Call[StartQuery, StartRequest]) -> Reply[Outcome]:
    """Start a run; with `wait`, answer when it has ended (200), or after that time (202: it goes on).

    Once it answers 201, the run will happen. The same id, workflow and input again is the same run; without an id the
    header `Idempotency-Key` is taken for it. How a run failed is in the answer: the request has done what it was to do.
    """
    body, app, asked = call.body, call.app, call.idempotency_key(call.body.id)
    engine, wait_s = engine_of(app), read_wait(call.query.wait)
    workflow = await find_startable(app, engine, check_name("workflow", body.workflow))
    given, user = workflow.decode_input_json(bytes(body.input)), _owner(call.caller, body.user)
    if body.on_conflict == "restart":
        await check_visible(call, asked)
    start = check_start(
        id=asked,
        on_conflict=body.on_conflict,
        delay=body.delay,
        at=body.at,
        priority=body.priority,
        queue=body.queue,
        user=user,
        attributes=body.attributes,
        timeout=body.timeout,
        trace=body.trace,
    )
    try:
        with _part_of_callers_trace(call, start) as start:
            uid, name = await engine.start(workflow, given, start)
    except (RunExists, RunConflict):  # which say how the other run stands, and what it is
        await check_visible(call, asked)
        raise
    row = await engine.get_row(uid)
    if not call.caller.may_see(row.user):
        raise RunConflict(name, "owner")
    run = handle_of(app, row)
    headers = {"location": call.root + run_path(name, uid)}
    if call.query.wait is not None:
        reply = await wait_outcome(call, run, wait_s)
        return Reply(reply.value, reply.status, headers)
    outcome = Outcome(id=name, uid=uid, workflow=row.workflow, status=row.status, is_ended=is_ended(row.status))
    return Reply(outcome, 201, headers)


def _owner(caller: Caller, asked: str | None) -> str | None:
    """Whose run it becomes."""
    if caller.is_admin:
        return asked if asked is not None else caller.id
    if asked not in {None, caller.id}:
        raise NotAllowed(caller.name, f"start a run of {asked!r}", "to be that user, or the scope 'admin'")
    return caller.id


@contextmanager
def _part_of_callers_trace(call: Call[Any, Any], start: Start) -> Generator[Start, None, None]:
    """The start is below the span that is current here, as in a host that makes spans of requests; else below the
    caller's, as its header says. What the request itself says comes first, and is the run's own parent."""
    given = _trace_of(call)
    if start.trace is not None or given is None or find_current_trace() is not None:
        yield start
        return
    entered = enter_trace(given)
    try:
        yield start if entered is not None else msgspec.structs.replace(start, trace=given)
    finally:
        leave_trace(entered)


def _trace_of(call: Call[Any, Any]) -> str | None:
    """The caller's trace, if it is one: a header that some proxy made up is no reason to refuse."""
    given = call.headers.get("traceparent")
    try:
        check_start(trace=given)
    except InvalidSetting:
        return None
    return given
