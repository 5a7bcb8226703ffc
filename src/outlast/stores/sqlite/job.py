"""A piece of work for the writer, and the way its answer comes back. Layer: stores (sqlite)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from outlast.stores.sqlite.statements import Value
    from outlast.stores.sqlite.transaction import Transaction

__all__ = ["Job", "Quick"]

T = TypeVar("T")


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

    def settle(self) -> None:
        """Wake whoever waits. Called on the future's event loop. A future that was cancelled gets nothing."""
        if self._finished is not None:
            self._finished.set()
        elif self.future is not None and not self.future.done():
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
