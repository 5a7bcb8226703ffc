"""From a URL to the store it names. Layer: stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.errors import ExtraMissing, InvalidSetting
from outlast.stores.urls import without_password

if TYPE_CHECKING:
    from outlast.stores.store import Store

__all__ = ["open_store", "without_password"]

_SCHEMES = "sqlite:///path.db, postgresql://user@host/database or memory://"


def open_store(url: str) -> Store:
    """The store, not opened yet: `await store.open()` connects, and says what is wrong with the place.

    - `sqlite:///relative.db`, `sqlite:////absolute.db`: a file. Options: `?synchronous=full|normal`, `readers=1..4`,
      `busy_timeout=SECONDS` (`outlast.stores.sqlite.connection` says what they do).
    - `postgresql://user:password@host:5432/database`, also `postgres://`: a schema in that database. Options:
      `?schema=outlast`, `connections=1..100`, `pooler=transaction`, and the driver's, as `sslmode=verify-full`
      (`outlast.stores.postgres.settings` says what they do).
    - `memory://`: this process's memory, for this object alone; `memory://name`: shared under that name.

    Raises `InvalidSetting` for a URL that names none of them, `ExtraMissing` when its driver is not installed.
    Backends are imported when they are asked for."""
    scheme, separator, rest = url.partition("://")
    match scheme.lower() if separator else "":
        case "sqlite":
            from outlast.stores.sqlite import SqliteStore

            return SqliteStore(f"sqlite://{rest}")
        case "memory":
            from outlast.stores.memory import MemoryStore

            return MemoryStore(f"memory://{rest}")
        case "postgresql" | "postgres":
            try:
                from outlast.stores.postgres import PostgresStore
            except ModuleNotFoundError as error:
                if error.name != "asyncpg":
                    raise
                raise ExtraMissing("A PostgreSQL store", "postgres") from error
            return PostgresStore(f"postgresql://{rest}")
        case _:
            raise InvalidSetting("store URL", without_password(url), _SCHEMES)
