"""The store in a PostgreSQL database: many workers on many machines, which share nothing else. Layer: stores.

Connections live in the event loop that opened the store, but for the one that keeps leases: that has a thread and a
loop of its own, which no body can hold up (`heartbeat`). `commits` is the heart of it.
"""

from outlast.stores.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
