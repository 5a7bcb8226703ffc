"""One connection to the server. Layer: stores (postgres).

What always holds: no request waits longer than its patience: then the connection is dropped, and whether the request
happened is not known; a request that is cancelled here drops it too, for its answer would be taken for another's; and a
transaction is never left open.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import asyncpg

from outlast.errors import StoreUnavailable
from outlast.stores.postgres.errors import DRIVER_ERRORS, to_store_error
from outlast.stores.postgres.statements import in_schema
from outlast.telemetry.logs import unfailing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from asyncpg.prepared_stmt import PreparedStatement

    from outlast.stores.postgres.settings import Role, Settings
    from outlast.stores.postgres.statements import Statement

__all__ = ["Link", "Record", "connect"]

Record = asyncpg.Record

_log = unfailing("outlast.stores.postgres")


async def connect(settings: Settings, role: Role) -> Link:
    """A new connection. Raises `InvalidSetting` for what the server will never accept, else `StoreUnavailable`."""
    patience_s = settings.patience_of(role)
    try:
        connection = await asyncpg.connect(
            settings.dsn,
            timeout=min(patience_s, 30.0),
            statement_cache_size=0 if settings.pooler else 256,
            max_cached_statement_lifetime=0,
            server_settings=settings.startup(role),
        )
    except (*DRIVER_ERRORS, ValueError) as error:
        instead = to_store_error(error, settings, connecting=True)
        raise instead from error
    return Link(connection, settings, role)


class Link:
    """For one user at a time; `Pool` sees to that."""

    def __init__(self, connection: asyncpg.Connection[Record], settings: Settings, role: Role) -> None:
        self._connection = connection
        self.settings = settings
        self._role = role
        self._patience_s = settings.patience_of(role)
        self._texts: dict[Statement, str] = {}
        self._prepared: dict[Statement, PreparedStatement[Record]] = {}
        """Those that give no rows, so that no change of a table's columns spoils them: to have the driver look for them
        each time, and for how to mend them, would cost a lone step a twentieth."""
        self._is_in_transaction = False
        self._loop = asyncio.get_running_loop()
        self._asked_at: float | None = None
        """When the request that is under way began."""
        self._timer: asyncio.TimerHandle | None = None
        self._gave_up = False

    @property
    def is_usable(self) -> bool:
        """It is open, and nothing is under way on it."""
        return not self._connection.is_closed()

    # --- requests ---

    async def run(self, statement: Statement, **values: object) -> int:
        """How many rows it changed, or found."""
        if self.settings.pooler:  # nothing may be kept on a connection that is somebody else's next
            if not self._is_in_transaction:
                async with self.transaction():
                    return await self.run(statement, **values)
            status = await self._ask(self._connection.execute, self._text_of(statement), *statement.arrange(values))
            return int(str(status).rpartition(" ")[2])
        prepared = self._prepared.get(statement)
        if prepared is None:
            prepared = self._prepared[statement] = await self._ask(self._connection.prepare, self._text_of(statement))
        await self._ask(prepared.fetch, *statement.arrange(values))
        return int(str(prepared.get_statusmsg()).rpartition(" ")[2])

    async def fetch(self, statement: Statement, **values: object) -> list[Record]:
        """Its rows."""
        if self.settings.pooler and not self._is_in_transaction:
            async with self.transaction():
                return await self.fetch(statement, **values)
        rows: list[Record] = await self._ask(
            self._connection.fetch, self._text_of(statement), *statement.arrange(values)
        )
        return rows

    async def find(self, statement: Statement, **values: object) -> Record | None:
        """Its first row."""
        rows = await self.fetch(statement, **values)
        return rows[0] if rows else None

    async def fetch_text(self, sql: str, *values: object) -> list[Record]:
        """Rows of SQL that is no statement of a file: parts of it are put together here."""
        if self.settings.pooler and not self._is_in_transaction:
            async with self.transaction():
                return await self.fetch_text(sql, *values)
        rows: list[Record] = await self._ask(self._connection.fetch, in_schema(sql, self.settings.schema), *values)
        return rows

    async def run_script(self, sql: str) -> None:
        """Several statements without parameters, all or none of them."""
        await self._ask(self._connection.execute, in_schema(sql, self.settings.schema))

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncGenerator[None, None]:
        """All that is asked for inside happens, or nothing of it. An error undoes it."""
        await self._ask(self._connection.execute, self.settings.begin(self._role))
        self._is_in_transaction = True
        try:
            yield
        except BaseException:
            if self.is_usable:
                await self._undo()
            raise
        else:
            # CRASH: all of it has happened or nothing; whoever sent it sends it again, and its marks say.
            # [test_a_commit_whose_answer_is_lost_is_recognised]
            await self._ask(self._connection.execute, "commit")
        finally:
            self._is_in_transaction = False

    async def listen(self, channel: str, callback: Callable[[int], None]) -> None:
        """Have `callback` called with the sender's process id for each notification."""
        listener = lambda _connection, pid, _channel, _payload: callback(pid)  # noqa: E731
        await self._ask(self._connection.add_listener, channel, listener)

    def call_at_end(self, callback: Callable[[], None]) -> None:
        """Have this called when the connection is closed, by whomever."""
        self._connection.add_termination_listener(lambda _connection: callback())

    @property
    def pid(self) -> int:
        """Of the server's process that serves it."""
        return int(self._connection.get_server_pid())

    # --- its end ---

    async def close(self) -> None:
        """Say good-bye, if there is somebody."""
        self._stop_timer()
        with contextlib.suppress(*DRIVER_ERRORS):
            await self._connection.close(timeout=1.0)

    def drop(self) -> None:
        """Let go at once, whatever is under way."""
        self._stop_timer()
        self._connection.terminate()

    # --- below ---

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _text_of(self, statement: Statement) -> str:
        text = self._texts.get(statement)
        if text is None:
            text = self._texts[statement] = in_schema(statement.text, self.settings.schema)
        return text

    async def _ask(self, call: Callable[..., Any], *arguments: object) -> Any:
        self._asked_at = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_at(self._asked_at + self._patience_s, self._look_at_clock)
        try:
            return await call(*arguments)
        except Exception as error:
            if self._gave_up:
                patience = f"it did not answer within {self._patience_s:.3g} s"
                raise StoreUnavailable(self.settings.url, patience) from error
            if isinstance(error, DRIVER_ERRORS):
                raise to_store_error(error, self.settings) from error
            if not self.is_usable:  # dropped just as an answer arrived: the driver stumbles over what is gone
                raise StoreUnavailable(self.settings.url, "its connection was dropped") from error
            self.drop()
            raise
        except BaseException:
            self.drop()
            raise
        finally:
            self._asked_at = None

    def _look_at_clock(self) -> None:
        """When a request could have waited for too long. (A timer for each request would cost it a tenth.)"""
        self._timer = None
        if self._asked_at is None:
            return
        gives_up_at = self._asked_at + self._patience_s
        if gives_up_at <= self._loop.time():
            self._gave_up = True
            self.drop()
        else:
            self._timer = self._loop.call_at(gives_up_at, self._look_at_clock)

    async def _undo(self) -> None:
        """Roll back; a connection that cannot is of no use any more, and the server undoes what it left."""
        try:
            await self._ask(self._connection.execute, "rollback")
        except Exception as error:  # noqa: BLE001 - what went wrong before is what is told
            _log.debug("could not roll back, the connection is dropped: %s", error)
            self.drop()
