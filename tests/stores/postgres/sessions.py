"""What the server says about its sessions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any, TypeAlias

import asyncpg

__all__ = ["Session", "as_role", "blocked_by", "holding", "wait_until_blocked"]

Session: TypeAlias = "asyncpg.Connection[Any]"


async def blocked_by(holder: Session) -> list[int]:
    """Process ids of the sessions that wait for a lock of this one.

    Not from pg_stat_activity: in a transaction it goes on saying what it said first."""
    rows = await holder.fetch(
        "select distinct pid from pg_locks where not granted and $1 = any (pg_blocking_pids(pid))",
        holder.get_server_pid(),
    )
    return [row["pid"] for row in rows]


@contextlib.asynccontextmanager
async def holding(session: Session, sql: str, *values: object) -> AsyncGenerator[None, None]:
    """A transaction that has done this and is not over: it commits at the end of the context."""
    transaction = session.transaction()
    await transaction.start()
    await session.execute(sql, *values)
    try:
        yield
    finally:
        await transaction.commit()


async def wait_until_blocked(holder: Session, count: int = 1) -> list[int]:
    """Return when so many sessions wait for a lock of this one."""
    while len(waiting := await blocked_by(holder)) < count:
        await asyncio.sleep(0.005)
    return waiting


def as_role(url: str, role: str) -> str:
    """The same place for another role, whose password is `guest`."""
    scheme, _, rest = url.partition("://")
    place, slash, more = rest.partition("/")
    return f"{scheme}://{role}:guest@{place.rpartition('@')[2]}{slash}{more}"
