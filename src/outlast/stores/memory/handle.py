"""What every method begins with: the handle is open, and nobody else is at the tables. Layer: stores (memory)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.errors import Fenced, StoreUnavailable
from outlast.stores.memory.fences import Fences

if TYPE_CHECKING:
    from outlast.stores.memory.tables import Tables

__all__ = ["Handle"]


class Handle(Fences):
    """One handle on the tables. What it does inside `with self._opened()` is one transaction: it awaits nothing."""

    url: str
    is_remote = False

    def __init__(self, url: str, tables: Tables) -> None:
        self.url = url
        self._tables = tables
        self._is_open = False

    def _opened(self) -> Tables:
        """The tables, to be locked by a `with` statement."""
        if not self._is_open:
            raise StoreUnavailable(self.url, "it is not open")
        return self._tables

    def _require_lease(self, worker_id: str) -> None:
        """The first statement of every transaction of a worker (PROTOCOL F1)."""
        if self.is_fenced(self._tables.workers.get(worker_id)):
            raise Fenced(worker_id)
