"""From a URL to the store it names. Layer: stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.errors import InvalidSetting

if TYPE_CHECKING:
    from outlast.stores.store import Store

__all__ = ["open_store"]

_SCHEMES = "sqlite:///path.db or memory://"


def open_store(url: str) -> Store:
    """The store, not opened yet: `await store.open()` connects, and says what is wrong with the place.

    - `sqlite:///relative.db`, `sqlite:////absolute.db`: a file. Options: `?synchronous=full|normal`, `readers=1..4`,
      `busy_timeout=SECONDS` (`outlast.stores.sqlite.connection` says what they do).
    - `memory://`: this process's memory, for this object alone; `memory://name`: shared under that name.

    Raises `InvalidSetting` for a URL that names neither; a PostgreSQL store comes with a later release.
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
            raise InvalidSetting("store URL", url, f"{_SCHEMES}: this release has no PostgreSQL store yet")
        case _:
            raise InvalidSetting("store URL", url, _SCHEMES)
