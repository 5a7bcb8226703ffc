"""The store that remembers only as long as its process lives. Layer: stores.

It keeps the same promises as the database stores (but the last: a power cut does undo it) and passes the same contract
suite. So it serves tests, examples and benchmarks, and it is the reference that the protocol's simulation runs on.
"""

from outlast.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
