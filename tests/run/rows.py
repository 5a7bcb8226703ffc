"""Rows as a store gives them, for tests that need no store."""

from __future__ import annotations

from typing import Any

from outlast.core.states import RunStatus
from outlast.stores.store import RunRow


def row(**fields: Any) -> RunRow:
    """A run's row, with these fields and plain ones else."""
    plain: dict[str, Any] = {
        "uid": "u-1",
        "id": "A-17",
        "workflow": "fulfil",
        "version": "v1",
        "status": RunStatus.QUEUED,
        "waiting_on": "",
        "live": True,
        "owner": None,
        "epoch": 0,
        "wake_at": None,
        "deadline": None,
        "mail": 0,
        "priority": 5,
        "queue": "default",
        "parent": None,
        "root": None,
        "user": None,
        "recoveries": 0,
        "created_at": 100,
        "started_at": None,
        "updated_at": 100,
        "finished_at": None,
        "attributes": b"{}",
        "trace": "",
        "error": None,
    }
    return RunRow(**{**plain, **fields})
