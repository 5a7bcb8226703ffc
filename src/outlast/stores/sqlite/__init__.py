"""The store in one SQLite file: outlast's default, and a production store on one machine. Layer: stores.

Any number of processes on that machine may share the file. `writer` is the heart of it: one thread with one connection,
the only one in its process that writes.
"""

from outlast.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
