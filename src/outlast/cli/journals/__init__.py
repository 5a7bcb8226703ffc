"""Commands that read a run's journal: `events`, `timeline`, `export`; and `import`, which writes one. Layer: cli."""

from __future__ import annotations

from outlast.cli.journals.moving import export, import_
from outlast.cli.journals.telling import events, timeline

__all__ = ["events", "export", "import_", "timeline"]
