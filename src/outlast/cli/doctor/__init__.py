"""`outlast doctor`: what is wrong with a store, and what to do about it. Layer: cli."""

from __future__ import annotations

from outlast.cli.doctor.command import doctor

__all__ = ["doctor"]
