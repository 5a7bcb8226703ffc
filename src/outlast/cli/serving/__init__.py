"""`outlast serve` and `outlast dev`: the HTTP API, alone and with a worker. Layer: cli."""

from __future__ import annotations

from outlast.cli.serving.dev import dev
from outlast.cli.serving.serve import serve

__all__ = ["dev", "serve"]
