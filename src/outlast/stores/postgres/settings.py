"""Where a PostgreSQL store is, and how its sessions are set. Layer: stores (postgres).

What always holds: what a commit needs of a session is set by us, whatever the server's or the role's defaults are; and
a URL that is told to people has no password in it.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlencode

from outlast.errors import InvalidSetting
from outlast.stores.urls import without_password

__all__ = ["Role", "Settings", "parse_url"]

DEFAULT_LEASE_US = 10_000_000
"""What patience is measured by until a worker registers with a lease of its own."""
SHORTEST_LEASE_US = 3_000_000
"""Limits are not drawn tighter than for this one: they would fail healthy requests on a busy machine."""

_SCHEMA = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,40}")
_OPTIONS = "schema=NAME&pooler=transaction&connections=4"


class Role(enum.Enum):
    """What a session is for."""

    WORK = "work"
    """Statements that are written for their indexes, under the limits of a lease."""
    LISTS = "lists"
    """Queries that people put together: the planner is left alone, and may take its time."""
    MIGRATION = "migration"
    """No limits but for the wait for its turn."""


@dataclass(frozen=True)
class Settings:
    """What the URL says, and its defaults."""

    url: str
    """As it is told: without the password."""
    dsn: str
    """As the driver takes it: without our own options."""
    schema: str = "outlast"
    pooler: bool = False
    """Behind a pooler that gives each transaction another session: nothing of a session is relied on."""
    connections: int = 4
    """For reads, claims and messages. Commits, hints, leases and lists have one each besides."""
    lease_us: int = DEFAULT_LEASE_US

    @property
    def patience_s(self) -> float:
        """How long a request may take: a third of the lease, so that there is time to send it again (PROTOCOL F10)."""
        return self.lease_us / 3e6

    def patience_of(self, role: Role) -> float:
        """How long a request in a session of this role may take, in seconds."""
        return {Role.WORK: self.patience_s, Role.LISTS: 30.0, Role.MIGRATION: 600.0}[role]

    def with_lease(self, lease_us: int) -> Settings:
        """The same, for workers whose leases are as short as this."""
        return replace(self, lease_us=max(lease_us, SHORTEST_LEASE_US))

    def session(self, role: Role) -> dict[str, str]:
        """What is set in a session of this role, in PostgreSQL's words; times in ms.

        `on`, also where the server's default is `off`: an answered commit is on disk. `read committed`: another default
        raises serialization failures that no statement here needs. All but seeks in an index is discouraged because
        plans are kept: one made while a table was small would walk it for minutes when it has grown."""
        limit = str(round(self.patience_of(role) * 1000))
        session = {
            "application_name": "outlast",
            "synchronous_commit": "on",
            "default_transaction_isolation": "read committed",
            "statement_timeout": limit,
            "lock_timeout": "60000" if role is Role.MIGRATION else limit,
            "idle_in_transaction_session_timeout": str(round(self.lease_us / 6000)),
            "jit": "off",
        }
        if role is Role.WORK:
            session |= {"plan_cache_mode": "force_generic_plan"}
            session |= dict.fromkeys(
                ("enable_seqscan", "enable_bitmapscan", "enable_mergejoin", "enable_hashjoin"), "off"
            )
        return session

    def startup(self, role: Role) -> dict[str, str]:
        """What a connection of this role is opened with: the session's settings, and when a peer counts as gone. A
        pooler gets nothing, for it would give it to somebody else, or refuse it."""
        if self.pooler:
            return {}
        gone_ms = str(round(self.lease_us / 1000))
        probes = {"tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3"}
        return {**self.session(role), **probes, "tcp_user_timeout": gone_ms}

    def begin(self, role: Role) -> str:
        """How a transaction begins; behind a pooler, with all that a session would have had."""
        if not self.pooler:
            return "begin"
        session = self.session(role)
        del session["application_name"], session["default_transaction_isolation"]
        local = "; ".join(f"set local {name} = '{value}'" for name, value in session.items())
        return f"begin isolation level read committed; {local}"


def parse_url(url: str) -> Settings:
    """Settings from `postgresql://user:password@host:5432/database?schema=outlast`. Options that are not ours are the
    driver's (`sslmode`, `host`, `passfile` …). Raises `InvalidSetting`."""
    location, _, query = url.partition("://")[2].partition("?")
    try:
        options = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError as error:
        raise InvalidSetting("store URL", without_password(url), f"options like ?{_OPTIONS}") from error
    ours: dict[str, object] = {}
    theirs: list[tuple[str, str]] = []
    for name, value in options:
        if name == "schema":
            ours[name] = _parse_schema(value)
        elif name == "pooler":
            if value != "transaction":
                raise InvalidSetting("pooler of the store URL", value, "transaction")
            ours[name] = True
        elif name == "connections":
            if not (value.isascii() and value.isdecimal() and 1 <= int(value) <= 100):
                raise InvalidSetting("connections of the store URL", value, "a number from 1 to 100")
            ours[name] = int(value)
        else:
            theirs.append((name, value))
    dsn = f"postgresql://{location}{'?' if theirs else ''}{urlencode(theirs)}"
    return Settings(without_password(url), dsn, **ours)  # type: ignore[arg-type]


def _parse_schema(value: str) -> str:
    if not _SCHEMA.fullmatch(value) or value.startswith("pg_"):
        raise InvalidSetting("schema of the store URL", value, "letters, digits and _, at most 41 of them")
    return value
