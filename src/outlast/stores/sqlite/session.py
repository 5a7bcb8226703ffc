"""How jobs become transactions, on the one connection that writes. Layer: stores (sqlite).

What always holds, whatever went wrong: every job of a group is answered once, with a result or an error, and no
transaction is left open.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from outlast.errors import StoreBusy
from outlast.stores.sqlite.checkpoint import Checkpoints
from outlast.stores.sqlite.connection import connect, prepare, wait_while_busy
from outlast.stores.sqlite.errors import NOT_STORABLE, is_busy, to_store_error
from outlast.stores.sqlite.transaction import Again, Transaction
from outlast.telemetry.logs import unfailing

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Sequence

    from outlast.stores.sqlite.connection import Settings
    from outlast.stores.sqlite.transaction import Job, Quick

__all__ = ["Session"]

_HARMLESS = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CONSTRAINT}
"""Errors after which a connection is as good as before. After others it is made anew."""

_log = unfailing("outlast.stores.sqlite")


class Session:
    """For one thread, and only in its frames: after a fork the child has no such thread, so nothing there closes the
    connection. To do so could cost the parent its locks."""

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], int],
        urgent: deque[Job[Any]],
        answer: Callable[[Sequence[Job[Any]]], None],
        on_commit: Callable[[], None],
    ) -> None:
        """`urgent` are jobs that go first in whatever transaction begins next; `answer` is given jobs that are done;
        `on_commit` is called after each transaction that changed something."""
        self._settings = settings
        self._clock = clock
        self._urgent = urgent
        self._answer = answer
        self._on_commit = on_commit
        self._checkpoints = Checkpoints(settings.path)
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        """Bring the schema up to date. Raises what `Store.open` promises."""
        try:
            prepare(self._connected(), self._settings, self._clock)
        except BaseException as error:
            self.close()
            if not isinstance(error, Exception):
                raise
            instead = to_store_error(error, self._settings)
            raise instead from instead.__cause__

    def close(self) -> None:
        """If it is the last of all processes, SQLite empties the log."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def write(self, jobs: Sequence[Job[Any]]) -> None:
        """Do these jobs, and the urgent ones with them, and answer all."""
        group = list(jobs)
        try:
            if len(group) != 1 or group[0].quick is None or not self._run_quick(group[0], group[0].quick):
                self._transact(group)
        except Exception as error:  # noqa: BLE001 - whoever waits for the jobs gets it
            self._recover(error)
            self._take_urgent(group)
            if len(group) > 1 and _is_of_one_job(error):
                for job in group:
                    self.write([job])
                return
            if isinstance(error, Again):
                group[0].work = error.work
                group[0].quick = None
                self.write(group)
                return
            for job in group:
                job.error = to_store_error(error, self._settings)
        self._answer(group)

    def look(self, aside: Callable[[sqlite3.Connection], object]) -> None:
        """Have something look at the connection, between two transactions."""
        try:
            aside(self._connected())
        except sqlite3.Error as error:
            _log.warning("cannot look at %s: %s", self._settings.path, error)
            self._recover(error)

    def rest(self) -> None:
        """What can be done when everybody has been answered."""
        if self._connection is not None:
            self._checkpoints.run_if_due(self._connection)

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = connect(self._settings, writes=True)
        return self._connection

    def _run_quick(self, job: Job[Any], quick: Quick[Any]) -> bool:
        """One statement, a transaction of its own. False: it was not all there is to do."""
        try:
            changed = self._execute_quick(quick)
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            changed = wait_while_busy(self._settings, lambda: self._execute_quick(quick))
        self._count(changed, quick.size)
        if changed != quick.rows:
            return False
        job.result = quick.result
        return True

    def _execute_quick(self, quick: Quick[Any]) -> int:
        if self._urgent:
            self.write([])
        return self._connected().execute(quick.sql, quick.values).rowcount

    def _transact(self, group: list[Job[Any]]) -> None:
        """All of the group in one transaction."""
        connection = self._connected()
        before = connection.total_changes
        wait_while_busy(self._settings, lambda: connection.execute("begin immediate"))
        self._take_urgent(group)
        transaction = Transaction(connection, self._settings.url, self._clock())
        for job in group:
            job.result = job.work(transaction)
        # CRASH: nothing of it has happened; what waits for an answer is sent again, by this worker or by others.
        # [test_processes_that_are_killed_lose_nothing]
        connection.execute("commit")
        self._count(connection.total_changes - before)

    def _take_urgent(self, group: list[Job[Any]]) -> None:
        """Put the urgent jobs before the others."""
        while self._urgent:
            group.insert(0, self._urgent.popleft())

    def _count(self, rows: int, size: int = 0) -> None:
        if rows:
            self._on_commit()
            self._checkpoints.count(rows, size)

    def _recover(self, error: Exception) -> None:
        """Leave no transaction open, and no connection in use that may be broken.

        After an error in COMMIT it may be open still. Whether it landed is not known then: who sent it sends it again,
        and its marks say."""
        if self._connection is None:
            return
        try:
            if self._connection.in_transaction:
                self._connection.execute("rollback")
        except sqlite3.Error:
            self.close()
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & 0xFF not in _HARMLESS:
            self.close()


def _is_of_one_job(error: Exception) -> bool:
    """Whether others of its group may do without it. A full disk counts: a renewal may find room that others do not."""
    if not isinstance(error, sqlite3.Error) or isinstance(error, NOT_STORABLE):
        return not isinstance(error, StoreBusy)
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_FULL
