"""What the store's threads are given to do, and what they do it with. Layer: stores (sqlite).

A `Job` is a piece of work for the writer or a reader, and the way its answer comes back; a `Transaction` is what its
work is called with. What always holds: no statement is left half read, for an open cursor would keep its snapshot, and
the log could not be cut.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

if TYPE_CHECKING:
    import asyncio
    import sqlite3
    from collections.abc import Callable, Sequence

    from outlast.stores.sqlite.statements import Parameters, Statement, Value

__all__ = ["Again", "Job", "Quick", "Row", "Transaction", "wall_clock_us"]

Row: TypeAlias = tuple[Any, ...]

T = TypeVar("T")


def wall_clock_us() -> int:
    """The time of a SQLite store: this machine's wall clock, in µs since the Unix epoch.

    All processes on a file are on one machine, so they share one clock, and everything due is compared with it. It
    is read in Python, after a transaction has its lock: a time read before the wait for it would be old, and a
    lease that lapsed meanwhile could be renewed with it.

    What a jump of the clock does. Forward: every lease lapses at once, so runs are taken over; their workers find
    out at their next write, drop them and register anew. Timers due within the jump fire early, by the world's
    time. That is noisy and safe: what is fenced stays fenced, whatever a clock says. Backward: leases last longer
    by the jump, so runs of a worker that died just then wait that much longer for a new owner, and timers fire that
    much later. Nothing else depends on it: positions, marks, epochs and message numbers are counted, not timed.
    """
    return time.time_ns() // 1000


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


class Quick(Generic[T]):
    """The one statement that most jobs come down to, run without a transaction around it.

    If it changes exactly `rows` rows the job is done, with `result`; else the job's `work` is."""

    __slots__ = ("result", "rows", "size", "sql", "values")

    def __init__(self, sql: str, values: Sequence[Value], rows: int, size: int, result: T) -> None:
        self.sql = sql
        self.values = values
        self.rows = rows
        self.size = size
        """Bytes in its values, about."""
        self.result = result


class Job(Generic[T]):
    """Work that may be done more than once: alone after it failed in company, or again after a lost answer."""

    __slots__ = ("_finished", "error", "future", "quick", "result", "tells", "weight", "work")

    def __init__(
        self,
        work: Callable[[Transaction], T],
        *,
        future: asyncio.Future[T] | None = None,
        quick: Quick[T] | None = None,
        weight: int = 1,
        tells: bool = True,
    ) -> None:
        self.work = work
        self.future = future
        """Where an event loop waits for the answer. Without it a thread does, in `wait`."""
        self._finished = threading.Event() if future is None else None
        self.quick = quick
        self.weight = weight
        """About how many rows it writes."""
        self.tells = tells
        """Whether others in this process should look what changed."""
        self.result: T | None = None
        self.error: Exception | None = None

    def settle_thread(self) -> bool:
        """Wake the thread that waits. False: an event loop does."""
        if self._finished is None:
            return False
        self._finished.set()
        return True

    def settle(self) -> None:
        """Wake who waits on the event loop, which this is called on. A future that was cancelled gets nothing."""
        if self.future is not None and not self.future.done():
            if self.error is not None:
                self.future.set_exception(self.error)
            else:
                self.future.set_result(self.result)  # type: ignore[arg-type]  # no error: there is a result

    def wait(self) -> T:
        """The result, when it is there."""
        assert self._finished is not None
        self._finished.wait()
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]  # no error: there is a result
