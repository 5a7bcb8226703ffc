"""Runs as others see them: one, or a page of those that fit a query. Layer: stores (postgres).

A page costs what is in it: each filter that people use has an index in the order of the page, and what is open or has
failed is found without a walk through all that completed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from outlast.core.states import ENDED, RunStatus
from outlast.stores.attributes import compare_attributes
from outlast.stores.postgres.statements import load_statements
from outlast.stores.store import NewWait, RunQuery, RunRow, WaitRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from outlast.stores.postgres.link import Link, Record
    from outlast.stores.store import WaitQuery

__all__ = ["count_runs", "find_run", "find_uid", "list_runs", "list_waits", "write_query", "write_waits_query"]

_COLUMNS = """r.uid, r.id, r.workflow, r.version, r.status, r.waiting_on, r.live, r.owner, r.epoch, r.wake_at,
  r.deadline, r.mail, r.priority % 10, r.queue, r.parent, r.root, r.user_id, r.recoveries, r.created_at, r.started_at,
  r.updated_at, r.finished_at, v.attributes, v.trace, v.error, r.origin, r.next, r.pool, r.share"""

_FELL = ENDED - {RunStatus.COMPLETED}
_OPEN = frozenset(RunStatus) - ENDED
# As the partial indexes say it: the planner sees then that they serve.
_IS_OPEN = "r.status in ('queued', 'running', 'suspended', 'compensating')"
_HAS_FALLEN = "r.status in ('failed', 'cancelled', 'compensated', 'compensation_failed')"

# jsonb cannot hold the character NUL; where one is, the comparison that follows in Python decides alone.
_HAS_ATTRIBUTE = """case when position('\\\\u0000' in convert_from(v.attributes, 'UTF8')) > 0 then true
  else convert_from(v.attributes, 'UTF8')::jsonb -> {name} = {value}::jsonb end"""

_sql = load_statements("listing")
for _statement in _sql.values():
    _statement.text = _statement.text.replace("$columns", _COLUMNS)


async def find_run(link: Link, id: str) -> RunRow | None:
    """The store's `find_run`."""
    row = await link.find(_sql["find_run"], id=id)
    return None if row is None else _to_run_row(row)


async def find_uid(link: Link, uid: str) -> RunRow | None:
    """The store's `find_uid`."""
    row = await link.find(_sql["find_uid"], uid=uid)
    return None if row is None else _to_run_row(row)


async def count_runs(link: Link) -> dict[RunStatus, int]:
    """The store's `count_runs`."""
    return {RunStatus(status): count for status, count in await link.fetch(_sql["count_open"])}


async def list_runs(link: Link, query: RunQuery) -> list[RunRow]:
    """The store's `list_runs`."""
    found: list[RunRow] = []
    fits = compare_attributes(query)
    while len(found) < query.limit:
        sql, values = write_query(query)
        page = [_to_run_row(row) for row in await link.fetch_text(sql, *values)]
        found += page if fits is None else [row for row in page if fits(row)]
        if fits is None or len(page) < query.limit:
            break
        query = msgspec.structs.replace(query, after=(page[-1].created_at, page[-1].uid))
    return found[: query.limit]


async def list_waits(link: Link, query: WaitQuery) -> list[WaitRow]:
    """The store's `list_waits`."""
    sql, values = write_waits_query(query)
    rows = await link.fetch_text(sql, *values)
    return [WaitRow(uid, name, workflow, NewWait(*wait), user) for uid, name, workflow, user, *wait in rows]


def write_waits_query(query: WaitQuery) -> tuple[str, list[Any]]:
    """The SQL for a page of waits, with its values."""
    values: list[Any] = [query.limit]
    given = {"w.kind": query.kind, "w.name": query.name, "r.workflow": query.workflow}
    filters = []
    for column, value in given.items():
        if value is not None:
            values.append(value)
            filters.append(f"{column} = ${len(values)}::text")
    if query.after is not None:
        values += query.after
        last = len(values)
        place = f"(${last - 2}::bigint, ${last - 1}::text, ${last}::text)"
        filters.append(f"(w.opened_at, w.run_uid, w.key) > {place}")
    return _sql["list_waits"].text.replace("$filters", " and ".join(filters) or "true"), values


def write_query(query: RunQuery) -> tuple[str, list[Any]]:
    """The SQL for a page of a query, with its values.

    Without filters the limit stands in the text: the server then knows what any page will cost, and plans all of them
    once, which is half of their price. With filters each page is planned for the values it is about."""
    values: list[Any] = []

    def put(value: object) -> str:
        values.append(value)
        return f"${len(values)}"

    filters = "\n  and ".join(_iter_filters(query, put)) or "true"
    is_plain = query == RunQuery(after=query.after, limit=query.limit)
    limit = str(query.limit) if is_plain else f"{put(query.limit)}::bigint"
    return _sql["list_runs"].text.replace("$filters", filters).replace("$limit", limit), values


def _iter_filters(query: RunQuery, put: Callable[[object], str]) -> Iterator[str]:
    given = {"workflow": query.workflow, "user_id": query.user, "parent": query.parent, "owner": query.owner}
    for column, wanted in given.items():
        if wanted is not None:
            yield f"r.{column} = {put(wanted)}"
    if query.statuses:
        yield f"r.status = any ({put([status.value for status in query.statuses])}::text[])"
        if _FELL.issuperset(query.statuses):
            yield _HAS_FALLEN
        elif _OPEN.issuperset(query.statuses):
            yield _IS_OPEN
    if query.waiting_on is not None and query.waiting_on.endswith("*"):
        yield f"starts_with(r.waiting_on, {put(query.waiting_on[:-1])})"
    elif query.waiting_on is not None:
        yield f"r.waiting_on = {put(query.waiting_on)}"
    yield from _iter_time_filters(query, put)
    for name, value in query.attributes:
        text = value.decode()
        if "\\u0000" not in text and "\0" not in name:
            yield _HAS_ATTRIBUTE.format(name=put(name), value=put(text))


def _iter_time_filters(query: RunQuery, put: Callable[[object], str]) -> Iterator[str]:
    if query.created_from is not None:
        yield f"r.created_at >= {put(query.created_from)}::bigint"
    if query.created_until is not None:
        yield f"r.created_at < {put(query.created_until)}::bigint"
    if query.after is not None:
        created_at, uid = query.after
        yield f"(r.created_at, r.uid) < ({put(created_at)}::bigint, {put(uid)}::text)"


def _to_run_row(row: Record) -> RunRow:
    uid, name, workflow, version, status, *rest = row
    return RunRow(uid, name, workflow, version, RunStatus(status), *rest)
