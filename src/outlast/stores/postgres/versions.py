"""Versions of workflows: their plans, and whether they may be started. Layer: stores (postgres)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from outlast.stores.postgres.statements import columns, load_statements
from outlast.stores.store import VersionRow, VersionStatus

if TYPE_CHECKING:
    from collections.abc import Sequence

    from outlast.stores.postgres.link import Link, Record

__all__ = ["decide_version", "find_version", "list_versions", "save_versions"]

_sql = load_statements("versions")
_COLUMNS = "workflow version kind status plan definition created_by"


async def save_versions(link: Link, rows: Sequence[VersionRow]) -> int:
    """The store's `save_versions`."""
    values = [
        (row.workflow, row.version, row.kind, row.status.value, row.plan, row.definition, row.created_by)
        for row in {(row.workflow, row.version): row for row in reversed(rows)}.values()
    ]
    return len(await link.fetch(_sql["save"], **columns(_COLUMNS, values))) if values else 0


async def find_version(link: Link, workflow: str, version: str) -> VersionRow | None:
    """The store's `find_version`."""
    row = await link.find(_sql["find"], workflow=workflow, version=version)
    return None if row is None else _to_version_row(row)


async def list_versions(link: Link, workflow: str | None, status: VersionStatus | None, limit: int) -> list[VersionRow]:
    """The store's `list_versions`."""
    asked = None if status is None else status.value
    return [
        _to_version_row(row) for row in await link.fetch(_sql["list"], workflow=workflow, status=asked, limit=limit)
    ]


async def decide_version(link: Link, workflow: str, version: str, status: VersionStatus, by: str) -> bool:
    """The store's `decide_version`."""
    row = await link.find(_sql["decide"], workflow=workflow, version=version, status=status.value, by=by)
    return row is not None


def _to_version_row(row: Record) -> VersionRow:
    workflow, version, kind, status, *rest = row
    return VersionRow(workflow, version, kind, VersionStatus(status), *rest)
