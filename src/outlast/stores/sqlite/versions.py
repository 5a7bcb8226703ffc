"""Versions of workflows: their plans, and whether they may be started. Layer: stores (sqlite)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.stores.sqlite.statements import load_statements
from outlast.stores.store import VersionRow, VersionStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.stores.sqlite.transaction import Row, Transaction

__all__ = ["decide_version", "find_version", "list_versions", "save_versions"]

_sql = load_statements("versions")


def save_versions(tx: Transaction, rows: Sequence[VersionRow]) -> int:
    """The store's `save_versions`."""
    return sum(tx.run(_sql["save"], _to_values(row, tx.now)) for row in rows)


def _to_values(row: VersionRow, now: int) -> dict[str, object]:
    return {
        "workflow": row.workflow,
        "version": row.version,
        "kind": row.kind,
        "status": row.status.value,
        "plan": row.plan,
        "definition": row.definition,
        "created_by": row.created_by,
        "now": now,
    }


def find_version(tx: Transaction, workflow: str, version: str) -> VersionRow | None:
    """The store's `find_version`."""
    row = tx.find(_sql["find"], (workflow, version))
    return None if row is None else _to_version_row(row)


def list_versions(tx: Transaction, workflow: str | None, status: VersionStatus | None, limit: int) -> list[VersionRow]:
    """The store's `list_versions`."""
    values = {"workflow": workflow, "status": None if status is None else status.value, "limit": limit}
    return [_to_version_row(row) for row in tx.fetch(_sql["list"], values)]


def decide_version(tx: Transaction, workflow: str, version: str, status: VersionStatus, by: str) -> bool:
    """The store's `decide_version`."""
    values = {"workflow": workflow, "version": version, "status": status.value, "by": by, "now": tx.now}
    return tx.run(_sql["decide"], values) > 0


def _to_version_row(row: Row) -> VersionRow:
    workflow, version, kind, status, *rest = row
    return VersionRow(workflow, version, kind, VersionStatus(status), *rest)
