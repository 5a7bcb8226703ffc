"""What the store's functions do their work with. Layer: stores (sqlite).

What always holds: no statement is left half read. An open cursor would keep its snapshot, and the log could not be cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from outlast.stores.sqlite.statements import Parameters, Statement, Value

__all__ = ["Again", "Row", "Transaction"]

Row: TypeAlias = tuple[Any, ...]


class Again(Exception):
    """Undo everything, and do `work` instead: what was taken for granted is not so."""

    def __init__(self, work: Callable[[Transaction], Any]) -> None:
        super().__init__()
        self.work = work


class Transaction:
    """One transaction of the writer, or one turn of a reader, on its connection.

    `now` is the store's time: in the writer's, read after the lock was had."""

    __slots__ = ("_connection", "now", "url")

    def __init__(self, connection: sqlite3.Connection, url: str, now: int) -> None:
        self._connection = connection
        self.url = url
        self.now = now

    def run(self, statement: Statement, parameters: Parameters = ()) -> int:
        """How many rows it changed."""
        return self._connection.execute(statement.sql, parameters).rowcount

    def fetch(self, statement: Statement, parameters: Parameters = ()) -> list[Row]:
        """Its rows."""
        return self._connection.execute(statement.sql, parameters).fetchall()

    def find(self, statement: Statement, parameters: Parameters = ()) -> Row | None:
        """Its first row."""
        rows = self._connection.execute(statement.sql, parameters).fetchall()
        return rows[0] if rows else None

    def run_rows(self, statement: Statement, rows: Sequence[Sequence[Value]], after: Sequence[Value] = ()) -> int:
        """How many rows it changed; `rows` for its `:rows`, `after` for the parameters behind them."""
        execute = self._connection.execute
        return sum(execute(sql, values).rowcount for sql, values in statement.fill(rows, after))

    def fetch_rows(
        self, statement: Statement, rows: Sequence[Sequence[Value]], after: Sequence[Value] = ()
    ) -> list[Row]:
        """Its rows, likewise."""
        execute = self._connection.execute
        return [row for sql, values in statement.fill(rows, after) for row in execute(sql, values).fetchall()]
