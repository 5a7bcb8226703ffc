"""Python's cycle collector, set for a process that does nothing but work runs. Layer: cli.

By default it looks through young objects after every 700 allocations, which 256 runs at once make in about fifty steps:
a fifth of a worker's time went there. outlast leaves no cycles behind a step, so looking seldom costs little memory;
what user code leaves is found all the same, later. A library must not decide this for its process; a command may.
"""

from __future__ import annotations

import gc

from outlast.cli.options import Settings

__all__ = ["collect_seldom", "settle"]

YOUNG = 20_000
"""Allocations between two looks at young objects: some megabytes at most."""
MIDDLE = 20
OLD = 50


def settle(settings: Settings, /) -> None:
    """Look seldom, if this process is the command's own."""
    if settings.is_process:
        collect_seldom()


def collect_seldom() -> None:
    """To be called when everything has been imported: what is there stays, and is not looked through again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)
