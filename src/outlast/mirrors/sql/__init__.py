"""A mirror in an SQL database, for reports: runs, steps and events as rows. Layer: mirrors."""

from __future__ import annotations

from outlast.mirrors.sql.mirror import SqlMirror

__all__ = ["SqlMirror"]
