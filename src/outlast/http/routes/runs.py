"""Routes that read runs. Layer: http.

What always holds: they change nothing, and cost a list one statement, a run one and its journal.
"""

from __future__ import annotations

from typing import Any

import msgspec

from outlast.core.durations import parse_duration
from outlast.core.states import is_ended
from outlast.errors import InvalidSetting, PayloadUnreadable, RunCancelled, RunFailed
from outlast.http import reach
from outlast.http.access import Caller
from outlast.http.reach import find_run
from outlast.http.refusals import InvalidRequest, NotAllowed
from outlast.http.route import Call, Nothing, Reply
from outlast.http.shapes import Attempts, FindRun, Moment, Outcome, Part, RunFilters, WaitQuery
from outlast.run.handle import Run
from outlast.run.options import AttributeValue
from outlast.run.records import AttemptInfo, RunInfo, RunPage, RunSnapshot, TimelineItem

__all__ = ["get_result", "get_run", "get_state", "list_attempts", "list_runs", "list_timeline", "wait_outcome"]

LONGEST_WAIT = "5min"

_decode_scalar = msgspec.json.Decoder(AttributeValue).decode
_decode_scalars = msgspec.json.Decoder(dict[str, AttributeValue]).decode


async def list_runs(call: Call[RunFilters, Nothing]) -> RunPage:
    """List runs, newest first.

    All filters given must fit. It reads rows, which change when a run starts, parks, is suspended or ends. Who is no
    admin gets their own runs.
    """
    query = call.query
    return await call.app.runs(
        workflow=query.workflow,
        status=query.status or None,
        waiting_on=query.waiting_on,
        user=_visible_user(call.caller, query.user),
        parent=query.parent,
        worker=_visible_worker(call.caller, query.worker),
        created_from=query.created_from,
        created_until=query.created_until,
        attributes={name: value for text in query.attribute for name, value in _read_attributes(text).items()},
        after=query.after,
        limit=query.limit,
    )


def _visible_user(caller: Caller, asked: str | None) -> str | None:
    if caller.is_admin:
        return asked
    if asked not in {None, caller.id}:
        raise NotAllowed(caller.name, f"list the runs of {asked!r}", "to be that user, or the scope 'admin'")
    return caller.id


def _visible_worker(caller: Caller, asked: str | None) -> str | None:
    if asked is not None and not caller.is_admin:
        raise NotAllowed(caller.name, "list what a worker holds", "the scope 'admin'")
    return asked


def _read_attributes(text: str) -> dict[str, AttributeValue]:
    """`NAME=VALUE`; or a JSON object, for names that have a `=` in them."""
    try:
        return _decode_scalars(text)
    except msgspec.MsgspecError:
        pass
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise InvalidRequest("query parameter 'attribute'", "NAME=VALUE, such as region=eu", f"it is {text[:100]!r}")
    try:
        return {name: _decode_scalar(value)}
    except msgspec.MsgspecError:
        return {name: value}


async def get_run(call: Call[FindRun, Nothing]) -> RunInfo:
    """How a run stands now, with all its steps.

    Read from its journal, so it is true also while a worker has the run in memory.
    """
    run, _ = await find_run(call)
    return await run.status()


async def get_result(call: Call[WaitQuery, Nothing]) -> Reply[Outcome]:
    """How a run ended; 202 while it has not.

    With `wait` the answer comes when it ends, or after that time.
    """
    wait_s = read_wait(call.query.wait)
    run, row = await find_run(call)
    return await wait_outcome(call, run, wait_s if row.live else 0)


async def wait_outcome(call: Call[Any, Any], run: Run[Any], wait_s: float) -> Reply[Outcome]:
    """200 once it has ended, 202 after `wait_s`. Raises RunNotFound for a run that is deleted meanwhile."""
    if wait_s:
        await _until_ended(call, run, wait_s)
    info = await run.status()
    outcome = Outcome(
        id=run.id,
        uid=run.uid,
        workflow=run.workflow,
        status=info.status,
        is_ended=is_ended(info.status),
        output=info.output,
        error=info.error,
    )
    return Reply(outcome, 200 if outcome.is_ended else 202)


def read_wait(wait: str | None) -> float:
    """In seconds; 0 where nothing is said. Raises InvalidSetting, InvalidDuration."""
    if wait is None:
        return 0
    text = wait.strip()
    us = parse_duration(float(text) if text.replace(".", "", 1).isdecimal() and text.isascii() else text)
    if us > parse_duration(LONGEST_WAIT):
        raise InvalidSetting("wait", wait, f"at most {LONGEST_WAIT}; ask again then")
    return us / 1_000_000


async def _until_ended(call: Call[Any, Any], run: Run[Any], seconds: float) -> None:
    """Until it ends, the time is over, or nobody waits for the answer any more."""
    try:
        await call.unless_gone(run.result(seconds))
    except (RunFailed, RunCancelled, PayloadUnreadable, TimeoutError):
        return


async def list_attempts(call: Call[Attempts, Nothing]) -> list[AttemptInfo]:
    """The history: every attempt of every step, in the order in which they were recorded.

    Its numbers, for `after`, count from 0; with a `key`, those of that step alone.
    """
    run, _ = await find_run(call)
    begin = call.query.after + 1
    return await reach.list_attempts(run, call.query.key, slice(begin, begin + call.query.limit))


async def list_timeline(call: Call[Part, Nothing]) -> list[TimelineItem]:
    """The timeline: one item for each event, numbered from 0 (`seq`)."""
    run, _ = await find_run(call)
    return await reach.list_items(run, call.query.after, call.query.limit)


async def get_state(call: Call[Moment, Nothing]) -> RunSnapshot:
    """A run as it knew itself after the event `seq`, or `at` a time; before its first event it is empty, `seq` -1.

    Without either: as it knows itself now.
    """
    run, _ = await find_run(call)
    query = call.query
    if query.seq is not None and query.at is not None:
        raise InvalidRequest("query", "one of seq and at", "both are given")
    if query.at is not None:
        return await run.state_at(query.at)
    return await run.state_at(2**53 if query.seq is None else query.seq)
