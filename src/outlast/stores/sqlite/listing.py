"""Runs as others see them: one, or a page of those that fit a query. Layer: stores (sqlite).

A query names the index it walks, so that a page costs what is in it: what is open or has failed is found without a walk
through all that completed.
"""

from __future__ import annotations

from string import Template
from typing import TYPE_CHECKING, Any

import msgspec

from outlast.core.states import ENDED, RunStatus
from outlast.stores.attributes import compare_attributes
from outlast.stores.sqlite.statements import Statement, load_statements
from outlast.stores.store import NewWait, RunRow, WaitRow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from outlast.stores.sqlite.statements import Value
    from outlast.stores.sqlite.transaction import Row, Transaction
    from outlast.stores.store import RunQuery, WaitQuery

__all__ = ["count_runs", "find_run", "find_uid", "list_runs", "list_waits", "write_query", "write_waits_query"]

_COLUMNS = """r.uid, r.id, r.workflow, r.version, r.status, r.waiting_on, r.live, r.owner, r.epoch, r.wake_at,
  r.deadline, r.mail, r.priority % 10, r.queue, r.parent, r.root, r.user_id, r.recoveries, r.created_at, r.started_at,
  r.updated_at, r.finished_at, v.attributes, v.trace, v.error, r.origin, r.next, r.pool, r.share"""

_FELL = ENDED - {RunStatus.COMPLETED}
_OPEN = frozenset(RunStatus) - ENDED
# As the partial indexes say it, word for word: SQLite sees only then that they serve.
_IS_OPEN = "r.status in ('queued', 'running', 'suspended', 'compensating')"
_HAS_FALLEN = "r.status in ('failed', 'cancelled', 'compensated', 'compensation_failed')"

_HAS_ATTRIBUTE = """case when json_valid(cast(v.attributes as text)) then exists (
  select 1 from json_each(cast(v.attributes as text)) a where a.key = ? and a.type = ? and a.atom is ?
) end"""


def _load() -> dict[str, Statement]:
    return {
        name: Statement(name, each.purpose, Template(each.sql).safe_substitute(columns=_COLUMNS), each.columns)
        for name, each in load_statements("listing").items()
    }


_sql = _load()


def find_run(tx: Transaction, id: str) -> RunRow | None:
    """The store's `find_run`."""
    row = tx.find(_sql["find_run"], (id,))
    return None if row is None else _to_run_row(row)


def find_uid(tx: Transaction, uid: str) -> RunRow | None:
    """The store's `find_uid`."""
    row = tx.find(_sql["find_uid"], (uid,))
    return None if row is None else _to_run_row(row)


def count_runs(tx: Transaction) -> dict[RunStatus, int]:
    """The store's `count_runs`."""
    return {RunStatus(status): count for status, count in tx.fetch(_sql["count_open"])}


def list_runs(tx: Transaction, query: RunQuery) -> list[RunRow]:
    """The store's `list_runs`."""
    found: list[RunRow] = []
    fits = compare_attributes(query)
    while len(found) < query.limit:
        statement, values = write_query(query)
        page = [_to_run_row(row) for row in tx.fetch(statement, values)]
        found += page if fits is None else [row for row in page if fits(row)]
        if fits is None or len(page) < query.limit:
            break
        query = msgspec.structs.replace(query, after=(page[-1].created_at, page[-1].uid))
    return found[: query.limit]


def list_waits(tx: Transaction, query: WaitQuery) -> list[WaitRow]:
    """The store's `list_waits`."""
    rows = tx.fetch(*write_waits_query(query))
    return [WaitRow(uid, name, workflow, NewWait(*wait), user) for uid, name, workflow, user, *wait in rows]


def write_waits_query(query: WaitQuery) -> tuple[Statement, list[Value]]:
    """The statement for a page of waits, with its values."""
    given = {"w.kind": query.kind, "w.name": query.name, "r.workflow": query.workflow}
    filters = [f"{column} = ?" for column, value in given.items() if value is not None]
    values: list[Value] = [value for value in given.values() if value is not None]
    if query.after is not None:
        filters.append("(w.opened_at, w.run_uid, w.key) > (?, ?, ?)")
        values += query.after
    values.append(query.limit)
    template = _sql["list_waits"]
    index = "waits_opened" if query.name is None else "waits_name"
    sql = Template(template.sql).substitute(index=index, filters=" and ".join(filters) or "true")
    return Statement(template.name, template.purpose, sql, 0), values


def write_query(query: RunQuery) -> tuple[Statement, list[Value]]:
    """The statement for a page of a query, with its values."""
    filters: list[str] = []
    values: list[Value] = []
    for text, value in _iter_filters(query):
        filters.append(text)
        values += value
    values.append(query.limit)
    template = _sql["list_runs"]
    sql = Template(template.sql).substitute(index=_choose_index(query), filters="\n  and ".join(filters) or "true")
    return Statement(template.name, template.purpose, sql, 0), values


def _choose_index(query: RunQuery) -> str:
    """The one that leaves the fewest rows to look at; all are in the order of the page but those of what fell and
    of what a worker holds, which is no more than it has room for."""
    if query.owner is not None:
        return "runs_owner"
    if query.parent is not None:
        return "runs_parent"
    if query.user is not None:
        return "runs_user"
    if query.statuses and _FELL.issuperset(query.statuses):
        return "runs_fell"
    if query.statuses and _OPEN.issuperset(query.statuses):
        return "runs_open"
    return "runs_created" if query.workflow is None else "runs_workflow"


def _iter_filters(query: RunQuery) -> Iterator[tuple[str, list[Value]]]:
    given = {"workflow": query.workflow, "user_id": query.user, "parent": query.parent, "owner": query.owner}
    for column, wanted in given.items():
        if wanted is not None:
            yield f"r.{column} = ?", [wanted]
    if query.statuses:
        yield f"r.status in ({', '.join('?' * len(query.statuses))})", [status.value for status in query.statuses]
        if _FELL.issuperset(query.statuses):
            yield _HAS_FALLEN, []
        elif _OPEN.issuperset(query.statuses):
            yield _IS_OPEN, []
    if query.waiting_on is not None and query.waiting_on.endswith("*"):
        prefix = query.waiting_on[:-1]
        yield "substr(r.waiting_on, 1, ?) = ?", [len(prefix), prefix]
    elif query.waiting_on is not None:
        yield "r.waiting_on = ?", [query.waiting_on]
    if query.created_from is not None:
        yield "r.created_at >= ?", [query.created_from]
    if query.created_until is not None:
        yield "r.created_at < ?", [query.created_until]
    if query.after is not None:
        yield "(r.created_at, r.uid) < (?, ?)", [*query.after]
    for name, value in query.attributes:
        yield from _filter_attribute(name, msgspec.json.decode(value))


def _filter_attribute(name: str, wanted: Any) -> Iterator[tuple[str, list[Value]]]:
    """What SQLite can compare exactly; all are compared here once more."""
    if wanted is None:
        yield _HAS_ATTRIBUTE, [name, "null", None]
    elif isinstance(wanted, bool):
        yield _HAS_ATTRIBUTE, [name, "true" if wanted else "false", int(wanted)]
    elif isinstance(wanted, int) and abs(wanted) < 1 << 63:
        yield _HAS_ATTRIBUTE, [name, "integer", wanted]
    elif isinstance(wanted, str):
        yield _HAS_ATTRIBUTE, [name, "text", wanted]


def _to_run_row(row: Row) -> RunRow:
    uid, name, workflow, version, status, waiting_on, live, *rest = row
    return RunRow(uid, name, workflow, version, RunStatus(status), waiting_on, bool(live), *rest)
