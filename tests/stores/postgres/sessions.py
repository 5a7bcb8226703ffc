"""What the server says about its sessions."""

from __future__ import annotations

from typing import Any

import asyncpg

__all__ = ["blocked_by"]


async def blocked_by(holder: asyncpg.Connection[Any]) -> list[int]:
    """Process ids of the sessions that wait for a lock of this one."""
    rows = await holder.fetch(
        "select pid from pg_stat_activity where $1 = any (pg_blocking_pids(pid)) order by query_start",
        holder.get_server_pid(),
    )
    return [row["pid"] for row in rows]
