"""The SQL of `sql/*.sql`, each statement with its name and a sentence. Layer: stores (sqlite).

A statement with `:rows` is one over many rows at once: its `rows(uid, no)` names their columns, and `:rows` stands for
their values. It is written out for some sizes only, and filled up with rows of NULLs that it must pass over; so a few
prepared statements serve every size of group. Why not `executemany`: there every row gives Python's lock away and has
to wait for it again, up to 5 ms beside a busy event loop, while the store's file is locked for everybody.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from outlast.stores.sql_files import read_statements

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Parameters", "Statement", "Value", "load_statements"]

Value: TypeAlias = str | int | bytes | None
Parameters: TypeAlias = "Sequence[Value] | Mapping[str, object]"

_COLUMNS = re.compile(r"\brows ?\(([\w,\s]+)\)")
_MARK = ":rows"

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""At most a third of the rows are filling. 1,024 rows of up to 31 columns stay within SQLite's limit of parameters."""


class Statement:
    """One statement. `columns` is how many values a row of its `rows` has; 0: it has none."""

    __slots__ = ("_written", "columns", "name", "purpose", "sql")

    def __init__(self, name: str, purpose: str, sql: str, columns: int) -> None:
        self.name = name
        self.purpose = purpose
        self.sql = sql
        self.columns = columns
        self._written: dict[int, tuple[str, tuple[None, ...]]] = {}

    def fill(self, rows: Sequence[Sequence[Value]], after: Sequence[Value] = ()) -> Iterator[tuple[str, list[Value]]]:
        """SQL and parameters for these rows, in as few statements as can be; `after` are the parameters behind them."""
        most = _SIZES[-1]
        for begin in range(0, len(rows), most):
            page = rows[begin : begin + most] if len(rows) > most else rows
            size = _SIZES[bisect_left(_SIZES, len(page))]
            written = self._written.get(size)
            if written is None:
                written = self._written[size] = self._write(size)
            sql, nothing = written
            values: list[Value] = list(chain.from_iterable(page))
            if len(page) < size:
                values += nothing[: (size - len(page)) * self.columns]
            values += after
            yield sql, values

    def _write(self, size: int) -> tuple[str, tuple[None, ...]]:
        """The statement for so many rows, and NULLs enough to fill them up."""
        row = "(" + ",".join("?" * self.columns) + ")"
        return self.sql.replace(_MARK, ",".join([row] * size)), (None,) * (size * self.columns)


def load_statements(name: str) -> dict[str, Statement]:
    """All statements of `sql/<name>.sql`, by name."""
    texts = read_statements("outlast.stores.sqlite", name)
    return {head: _parse(head, purpose, sql) for head, (purpose, sql) in texts.items()}


def _parse(name: str, purpose: str, sql: str) -> Statement:
    columns = _COLUMNS.search(sql)
    has_rows = _MARK in sql
    assert has_rows == (columns is not None), f"{name} must name the columns of its rows, and use them"
    return Statement(name, purpose, sql, len(columns[1].split(",")) if columns else 0)
