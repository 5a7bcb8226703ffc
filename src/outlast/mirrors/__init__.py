"""Mirrors: copies of journals elsewhere, kept beside the runs and never in their way (SPEC O4). Layer: mirrors."""

from __future__ import annotations

from outlast.mirrors.json_lines import JsonLinesMirror
from outlast.mirrors.mirror import Mirror, MirrorInfo
from outlast.mirrors.sql import SqlMirror

__all__ = ["JsonLinesMirror", "Mirror", "MirrorInfo", "SqlMirror"]
