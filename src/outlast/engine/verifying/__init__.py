"""What must hold of a store: its journals against its rows, tasks, waits, and each other. Layer: engine.

`verify_store` reads one run at a time, and asks the protocol alone: any backend can be verified, also while workers
write. What always holds: it changes nothing; and what it tells was so at one moment: a run that moves while it is read
is judged by its journal, and told of as moving.
"""

from outlast.engine.verifying.picture import Journal, read_journal
from outlast.engine.verifying.store import Judge, Problem, Verified, verify_store

__all__ = ["Journal", "Judge", "Problem", "Verified", "read_journal", "verify_store"]
