"""The crash points of `points`, where the store is PostgreSQL: the same names, at what does the same there."""

from __future__ import annotations

from collections.abc import Callable

import outlast.stores.postgres.effects
import outlast.stores.postgres.workers
import outlast.stores.sqlite.effects
import outlast.stores.sqlite.workers
from outlast.stores.postgres import PostgresStore
from outlast.stores.postgres.link import Link
from outlast.stores.sqlite import SqliteStore
from tests.crash.points import POINTS, Point

__all__ = ["ON_POSTGRES"]


def _sql(*words: str) -> Callable[..., bool]:
    """A request with one of these in it."""
    return lambda _link, _call, sql, *_: isinstance(sql, str) and any(word in sql for word in words)


_REQUESTS = {
    "before-write": Point(Link, "_ask", fits=_sql(".journal (run_uid")),
    "after-write": Point(Link, "_ask", behind=True, fits=_sql(".journal (run_uid")),
    "in-transaction": Point(Link, "_ask", fits=_sql("commit")),
    "in-transaction-begun": Point(Link, "_ask", behind=True, fits=_sql("begin")),
    "transaction-done": Point(Link, "_ask", behind=True, fits=_sql("commit")),
}
_SAME = {
    SqliteStore: PostgresStore,
    outlast.stores.sqlite.workers: outlast.stores.postgres.workers,
    outlast.stores.sqlite.effects: outlast.stores.postgres.effects,
}
_OF_A_FILE = {"migrating", "checkpointed"}

ON_POSTGRES: dict[str, Point] = {
    name: _REQUESTS.get(name) or point._replace(owner=_SAME.get(point.owner, point.owner))
    for name, point in POINTS.items()
    if name not in _OF_A_FILE
}
"""By name; those of a file are not there."""
