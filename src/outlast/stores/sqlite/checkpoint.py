"""Moves the write-ahead log into the file. Layer: stores (sqlite).

Why SQLite does not do it by itself. Its automatic checkpoint does not keep other writers out; in releases before 3.51.3
two checkpoints that overlap with a commit which starts the log anew can, very rarely, lose a part of the log for good
("WAL-reset bug"). A `FULL` checkpoint has the write lock while it runs, so nobody can commit then (but when it does not
get the lock within moments, SQLite makes an automatic one of it). It takes about 20 ms for 8 MB, in which other
processes wait as for any commit. A thread of its own for it was tried: commits were no faster, because both wait for
the same disk, and the log was never empty when it should have started anew.
"""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING

from outlast.stores.sqlite.connection import LOG_LIMIT_BYTES
from outlast.telemetry.logs import unfailing

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Checkpoints"]

_DUE_PAGES = 2000
"""8 MB of log. At 4 MB commits stood still twice as often, at 16 MB for twice as long."""
_LOOK_EVERY = 256
"""Transactions between looks at the log's size: other processes write into it too."""
_PAUSE_S = 5.0
"""After a checkpoint that could not finish, because somebody reads from the log."""

_log = unfailing("outlast.stores.sqlite")


class Checkpoints:
    """Counts what the writer adds to the log, and empties it in time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log_path = path.with_name(path.name + "-wal")
        self._pages = 0
        self._transactions = 0
        self._not_before = 0.0

    def count(self, rows: int, size: int = 0) -> None:
        """A transaction changed so many rows, with so many bytes beyond the usual.

        Measured: 3 pages for one row, 18 for 16 rows of as many runs, 84 for 256, 260 for 1,000."""
        self._transactions += 1
        self._pages += 2 + min(rows, 16) + rows // 4 + size // 4096

    def run_if_due(self, connection: sqlite3.Connection) -> None:
        """Between two transactions. Its errors are not the next job's: they are logged, and it tries again later."""
        if self._pages < _DUE_PAGES and self._transactions % _LOOK_EVERY:
            return
        now = time.monotonic()
        if now < self._not_before:
            return
        try:
            self._run(connection, now)
        except (sqlite3.Error, OSError) as error:
            self._not_before = now + _PAUSE_S
            _log.warning("cannot empty the write-ahead log of %s, trying again: %s", self._path, error)

    def _run(self, connection: sqlite3.Connection, now: float) -> None:
        if self._pages >= _DUE_PAGES:
            ((busy, _, _),) = connection.execute("pragma wal_checkpoint(full)").fetchall()
            self._pages = _DUE_PAGES // 2 if busy else 0
        if self._log_path.stat().st_size > LOG_LIMIT_BYTES:
            ((busy, pages, _),) = connection.execute("pragma wal_checkpoint(truncate)").fetchall()
            if busy:
                self._not_before = now + _PAUSE_S
                _log.warning(
                    "the write-ahead log of %s has %d pages and cannot be cut: somebody has been reading for long",
                    self._path,
                    pages,
                )
