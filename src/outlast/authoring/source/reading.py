"""Reads a workflow's plan from its source, and works out its version. Layer: authoring.

What always holds: a body whose source cannot be had, or that is too deep to be read, has a version all the same (its
bytecode's), and no plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from outlast.authoring.source.bytecode import fingerprint_code
from outlast.authoring.source.scope import body_of
from outlast.authoring.source.snapshots import Snapshot
from outlast.core.plan.making import read_body
from outlast.core.plan.plan import Plan
from outlast.core.plan.reading.meaning import FunctionMeaning
from outlast.core.program.language import Program

__all__ = ["Reading", "read_workflow"]


class Reading(NamedTuple):
    """What reading a workflow gives."""

    version: str
    plan: Plan | None
    program: Program | None = None
    """The body as data; `plan.unclosed` says why there is none."""
    functions: tuple[FunctionMeaning, ...] = ()
    """The functions that were read, the body first."""


def read_workflow(
    name: str, fn: Callable[..., Any], snapshot: Snapshot | None = None, version: str | None = None
) -> Reading:
    """Version and plan of a workflow. `version` is the author's own, if there is one."""
    body = body_of(fn, snapshot)
    if body is None:
        return Reading(version or fingerprint_code(fn), None)
    try:
        read = read_body(name, body, version)
    except RecursionError:  # an expression of a thousand levels
        return Reading(version or fingerprint_code(fn), None)
    return Reading(read.plan.version, read.plan, read.program, read.followed)
