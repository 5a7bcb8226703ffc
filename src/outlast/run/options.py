"""What may be asked for from outside, checked before anything is stored (SPEC R2, D4). Layer: run.

What always holds: what leaves here is complete and can be stored; what cannot is refused with the setting's name, its
value, and what was expected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final, Literal, TypeAlias, TypedDict

import msgspec

from outlast.authoring.sharing import check_sharing
from outlast.core.durations import Duration, parse_duration
from outlast.core.instants import to_us
from outlast.core.keys import check_name
from outlast.core.states import ENDED, RunStatus
from outlast.core.waits.events import WaitKind
from outlast.engine.starting import Start
from outlast.engine.tasks.queues import QueueSettings
from outlast.engine.worker import WorkerSettings
from outlast.errors import InvalidDuration, InvalidSetting, ValueTooLarge
from outlast.stores.store import RunQuery, RunRow, VersionStatus, WaitQuery, WaitRow
from outlast.telemetry.logs import ENGINE

__all__ = [
    "AttributeValue",
    "Attributes",
    "StartOptions",
    "check_attributes",
    "check_ended",
    "check_limit",
    "check_on_conflict",
    "check_query",
    "check_queue",
    "check_start",
    "check_statuses",
    "check_version_status",
    "check_waits",
    "check_worker",
    "cursor_of",
    "wait_cursor_of",
]

AttributeValue: TypeAlias = str | int | float | bool | None
Attributes: TypeAlias = Mapping[str, AttributeValue]
"""What runs can be searched by: names and scalars, in all at most 16 KiB of JSON. They are shown in lists, and children
inherit them; what is larger or structured belongs into the input."""

LARGEST_ATTRIBUTES: Final = 16 * 1024
LARGEST_INT: Final = 2**63
LARGEST_PAGE: Final = 1000
LONGEST_TRACE: Final = 512
CONFLICTS: Final = ("return", "raise", "restart")
SHORTEST_LEASE_US: Final = 10_000
SAFE_LEASE_US: Final = 3_000_000
"""Below it a lease is warned about, never silently raised (SPEC L2)."""
_TRACE: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


class StartOptions(TypedDict, total=False):
    """What may be said of a run when it is started."""

    id: str | None
    """The run's name: the same id again is the same run. Without one, a time-ordered UUID."""
    on_conflict: Literal["return", "raise", "restart"]
    """When the id is taken: give that run (the default), raise RunExists, or, if it has ended, start anew."""
    delay: Duration | None
    """How long to wait before it begins."""
    at: datetime | None
    """When it begins: a datetime with a time zone."""
    priority: int
    """0 (first) to 9 (last); default 5."""
    queue: str
    """Workers of this queue run it."""
    user: str | None
    """Who started it."""
    attributes: Attributes | None
    """What it can be searched by: names and scalars."""
    timeout: Duration | None
    """How long it may take, from when it may begin. When that is over it is cancelled, wherever it stands."""
    trace: str | None
    """W3C `traceparent` of the caller; without one a new trace begins."""


def check_start(
    *,
    id: str | None = None,
    on_conflict: str = "return",
    delay: Duration | None = None,
    at: datetime | None = None,
    priority: int = 5,
    queue: str = "default",
    user: str | None = None,
    attributes: Attributes | None = None,
    timeout: Duration | None = None,
    trace: str | None = None,
) -> Start:
    """The options of a start. Raises InvalidSetting, InvalidName, InvalidDuration or ValueTooLarge."""
    if on_conflict not in CONFLICTS:
        raise InvalidSetting("on_conflict", on_conflict, _one_of(CONFLICTS))
    if delay is not None and at is not None:
        raise InvalidSetting("at", at, "either at= or delay=, not both")
    return Start(
        id=None if id is None else check_name("run id", id),
        on_conflict=on_conflict,
        at_us=None if at is None else to_us(at, "at"),
        delay_us=None if delay is None else _duration_us("delay", delay),
        priority=_whole("priority", priority, 0, 9),
        queue=check_name("queue", queue),
        user=None if user is None else check_name("user", user),
        attributes=check_attributes(attributes or {}),
        timeout_us=None if timeout is None else _duration_us("timeout", timeout),
        trace=None if trace is None else _check_trace(trace),
    )


def _check_trace(trace: object) -> str:
    if isinstance(trace, str) and len(trace) <= LONGEST_TRACE and _TRACE.fullmatch(trace):
        return trace
    raise InvalidSetting("trace", trace, "a W3C traceparent, such as 00-<32 hex digits>-<16 hex digits>-01")


def check_attributes(attributes: Attributes) -> bytes:
    """As JSON. Raises InvalidSetting for what is no mapping of names to scalars, InvalidName, ValueTooLarge."""
    for name, value in _check_mapping(attributes).items():
        check_name("attribute", name)
        _encode_attribute(name, value)
    encoded = msgspec.json.encode(dict(attributes))
    if len(encoded) > LARGEST_ATTRIBUTES:
        raise ValueTooLarge("attributes", len(encoded), LARGEST_ATTRIBUTES)
    return encoded


def _check_mapping(attributes: Attributes) -> Attributes:
    if not isinstance(attributes, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidSetting("attributes", attributes, "a mapping of names to text, numbers, booleans or None")
    return attributes


def _encode_attribute(name: str, value: AttributeValue) -> bytes:
    setting = f"attributes[{name!r}]"
    match value:
        case None | bool():
            pass
        case str():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise InvalidSetting(setting, value, "text that is valid Unicode") from None
            if "\0" in value:
                raise InvalidSetting(setting, value, "text without NUL characters")
        case int():
            _whole(setting, value, -LARGEST_INT, LARGEST_INT - 1)
        case float() if math.isfinite(value):
            pass
        case _:
            raise InvalidSetting(setting, value, "text, a finite number, a boolean or None")
    return msgspec.json.encode(value)


def check_query(
    *,
    workflow: str | None,
    status: str | Iterable[str] | None,
    waiting_on: str | None,
    user: str | None,
    parent: str | None,
    worker: str | None,
    created_from: datetime | None,
    created_until: datetime | None,
    attributes: Attributes | None,
    after: str | None,
    limit: int,
) -> RunQuery:
    """The filters of a list, for one row more than `limit`: whether there is a next page. Raises InvalidSetting."""
    return RunQuery(
        workflow=workflow,
        statuses=check_statuses(status),
        waiting_on=waiting_on,
        user=user,
        parent=parent,
        owner=worker,
        created_from=None if created_from is None else to_us(created_from, "created_from"),
        created_until=None if created_until is None else to_us(created_until, "created_until"),
        attributes=tuple(
            (name, _encode_attribute(name, value)) for name, value in _check_mapping(attributes or {}).items()
        ),
        after=None if after is None else _read_cursor(after),
        limit=_whole("limit", limit, 1, LARGEST_PAGE) + 1,
    )


def check_limit(limit: int) -> int:
    """How many of a list are asked for. Raises InvalidSetting."""
    return _whole("limit", limit, 1, LARGEST_PAGE)


def check_statuses(status: str | Iterable[str] | None) -> tuple[RunStatus, ...]:
    """One status or several, by name. None: no filter, an empty tuple."""
    if status is None:
        return ()
    given = (status,) if isinstance(status, str) else tuple(status)
    for one in given:
        if one not in tuple(RunStatus):
            raise InvalidSetting("status", one, _one_of(RunStatus))
    if not given:
        raise InvalidSetting("status", given, f"at least {_one_of(RunStatus)}, or None for all")
    return tuple(RunStatus(one) for one in given)


def check_version_status(value: object) -> VersionStatus | None:
    """Which versions. Raises InvalidSetting."""
    if value is None:
        return None
    try:
        return VersionStatus(str(value))
    except ValueError:
        raise InvalidSetting("status", value, f"one of {', '.join(VersionStatus)}") from None


def check_on_conflict(value: object) -> str:
    """What becomes of a run that no version here fits. Raises InvalidSetting."""
    if value not in {"suspend", "fail"}:
        raise InvalidSetting("on_version_conflict", value, "'suspend' or 'fail'")
    return str(value)


def check_ended(statuses: str | Iterable[str] | None) -> tuple[RunStatus, ...]:
    """Statuses of ended runs; None: all of them."""
    checked = check_statuses(statuses) or tuple(status for status in RunStatus if status in ENDED)
    for status in checked:
        if status not in ENDED:
            raise InvalidSetting("statuses", str(status), f"{_one_of(sorted(ENDED))}: only ended runs are deleted")
    return checked


def cursor_of(row: RunRow) -> str:
    """What names this row's place in a list, newest first."""
    return f"{row.created_at}:{row.uid}"


def _read_cursor(cursor: str) -> tuple[int, str]:
    created_at, _, uid = str(cursor).partition(":")
    if not re.fullmatch(r"[0-9]{1,18}", created_at) or not uid:
        raise InvalidSetting("after", cursor, "the `next` of an earlier page")
    return int(created_at), uid


def check_waits(
    *, kind: str | None, name: str | None, workflow: str | None, after: str | None, limit: int
) -> WaitQuery:
    """The filters of a list of waits, for one row more than `limit`. Raises InvalidSetting."""
    if kind is not None and kind not in tuple(WaitKind):
        raise InvalidSetting("kind", kind, _one_of(WaitKind))
    return WaitQuery(
        kind=kind,
        name=name,
        workflow=workflow,
        after=None if after is None else _read_wait_cursor(after),
        limit=_whole("limit", limit, 1, LARGEST_PAGE) + 1,
    )


def wait_cursor_of(row: WaitRow) -> str:
    """What names this wait's place in a list, oldest first."""
    return f"{row.wait.opened_at}:{row.run}:{row.wait.key}"


def _read_wait_cursor(cursor: str) -> tuple[int, str, str]:
    opened_at, _, rest = str(cursor).partition(":")
    uid, _, key = rest.partition(":")
    if not re.fullmatch(r"[0-9]{1,18}", opened_at) or not uid or not key:
        raise InvalidSetting("after", cursor, "the `next` of an earlier page")
    return int(opened_at), uid, key


def check_worker(
    *,
    concurrency: int,
    queues: Iterable[str],
    max_hot: int,
    lease: Duration,
    grace: Duration,
    threads: int,
) -> WorkerSettings:
    """The settings of a worker. Raises InvalidSetting, InvalidName or InvalidDuration."""
    if isinstance(queues, str):
        raise InvalidSetting("queues", queues, f"several names, such as ({queues!r},)")
    names = tuple(check_name("queue", queue) for queue in queues)
    if not names:
        raise InvalidSetting("queues", names, "at least one queue")
    lease_us = _duration_us("lease", lease)
    if lease_us < SHORTEST_LEASE_US:
        raise InvalidSetting("lease", lease, "some seconds; 10s is the default")
    if lease_us < SAFE_LEASE_US:
        ENGINE.warning("lease=%r is short: below 3s a busy worker loses its lease, and its work is done twice", lease)
    return WorkerSettings(
        concurrency=_whole("concurrency", concurrency, 1, 1_000_000),
        queues=names,
        max_hot=_whole("max_hot", max_hot, 0, 10_000_000),
        lease_us=lease_us,
        grace_us=_duration_us("grace", grace),
        threads=_whole("threads", threads, 1, 10_000),
    )


def check_queue(*, limit: int | None, fair_by: str | None, lease: Duration) -> QueueSettings:
    """What is settled about a queue. Raises InvalidSetting or InvalidDuration."""
    lease_us = _duration_us("lease", lease)
    if lease_us < SHORTEST_LEASE_US:
        raise InvalidSetting("lease", lease, "some seconds; 60s is the default")
    sharing = check_sharing(limit, fair_by)
    return QueueSettings(lease_us, sharing.limit, sharing.fair_by)


def _duration_us(setting: str, value: Duration) -> int:
    try:
        return parse_duration(value)
    except InvalidDuration as error:
        error.add_note(f"Given as {setting}=.")
        raise


def _whole(setting: str, value: object, least: int, most: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
        return value
    raise InvalidSetting(setting, value, f"a whole number from {least} to {most}")


def _one_of(names: Iterable[str]) -> str:
    return f"one of {', '.join(names)}"
