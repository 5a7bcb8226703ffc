"""What a store knows of workers, and answers about them. Layer: stores.

What always holds: a row is of one incarnation; a worker that was fenced comes back under another id, and whatever was
asked of the old one is gone with it.
"""

from __future__ import annotations

import msgspec

__all__ = ["Held", "HeldTask", "Renewed", "WorkerRow"]


class WorkerRow(msgspec.Struct, frozen=True):
    """One incarnation of a worker. `register` takes it without what its lease and others make of it."""

    id: str
    """New for each incarnation: a worker that was fenced comes back under another."""
    host: str
    pid: int
    queues: tuple[str, ...] = ("default",)
    functions: tuple[str, ...] = ()
    """Names of the workflows and steps it knows."""
    deploy: str = ""
    """Fingerprint of its code, for `RowChange.unfit`."""
    python: str = ""
    started_at: int = 0
    expires_at: int = 0
    dead_at: int | None = None
    versions: tuple[str, ...] = ()
    """`workflow#version` of each workflow it knows: a name has no `#`."""
    renewed_at: int = 0
    """When its lease was last renewed. 0: its release does not say."""
    drain_asked_at: int | None = None
    """When it was first asked to drain; None: it was not."""
    release: str = ""
    """Of outlast, that it runs."""


class Renewed(msgspec.Struct, frozen=True):
    """A lease that runs on, and what else the worker has to know."""

    now: int
    drain_asked_at: int | None = None
    """When it was first asked to drain; None: it was not."""


class Held(msgspec.Struct, frozen=True):
    """How much a worker holds."""

    worker: str
    runs: int
    tasks: int


class HeldTask(msgspec.Struct, frozen=True):
    """An attempt of a queued step that a worker carries out."""

    run: str
    run_id: str
    workflow: str
    key: str
    attempt: int
    queue: str
    function: str
    claimed_at: int
    user: str | None = None
    """Whose run it is."""
