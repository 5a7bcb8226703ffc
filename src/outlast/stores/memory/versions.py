"""Versions of workflows: their plans, and whether they may be started. Layer: stores (memory)."""

# ruff: noqa: D102 - a method's promise stands in stores/store.py, once for all backends

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from outlast.stores.checking import check_decision
from outlast.stores.memory.handle import Handle
from outlast.stores.store import VersionRow, VersionStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Versions"]


class Versions(Handle):
    """The store's methods about versions."""

    async def save_versions(self, rows: Sequence[VersionRow]) -> int:
        with self._opened() as tables:
            now, known = tables.clock(), tables.versions
            new = {(row.workflow, row.version): row for row in reversed(rows)}
            fresh = {key: replace(row, created_at=now) for key, row in new.items() if key not in known}
            known.update(fresh)
            return len(fresh)

    async def find_version(self, workflow: str, version: str) -> VersionRow | None:
        with self._opened() as tables:
            return tables.versions.get((workflow, version))

    async def list_versions(
        self, workflow: str | None = None, *, status: VersionStatus | None = None, limit: int = 100
    ) -> list[VersionRow]:
        with self._opened() as tables:
            fitting = [
                replace(row, plan=b"", definition=b"")
                for row in tables.versions.values()
                if (workflow is None or row.workflow == workflow) and (status is None or row.status == status)
            ]
        fitting.sort(key=lambda row: (row.decided_at or row.created_at, row.workflow, row.version), reverse=True)
        return fitting[:limit]

    async def decide_version(self, workflow: str, version: str, status: VersionStatus, by: str) -> bool:
        check_decision(status)
        with self._opened() as tables:
            row = tables.versions.get((workflow, version))
            if row is None or row.status is status:
                return False
            decided = replace(row, status=status, decided_at=tables.clock(), decided_by=by)
            tables.versions[workflow, version] = decided
            return True
